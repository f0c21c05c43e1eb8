# SPDX-License-Identifier: MIT
"""What tests do to file systems."""


def fill(path):
    """Makes a file that takes all the room there is."""
    with open(path, "wb", buffering=0) as ballast:  # a buffer would be written at the end, too
        try:
            while True:
                ballast.write(bytes(65536))
        except OSError:
            pass
