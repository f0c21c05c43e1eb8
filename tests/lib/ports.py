# SPDX-License-Identifier: MIT
"""Free ports on loopback, from below the range the kernel takes for outgoing connections, so that a
process that was killed finds its port free when it is started again. Tests that run at the same time
each have a share of the range, so that none gets a port that another is about to use."""
import os
import random
import socket
import threading

FIRST, LAST = 10000, 32000
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])

_given = set()
_lock = threading.Lock()


def is_free(port):
    """Nobody listens; connections of the past that only wait to be forgotten do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port():
    """A port that nobody listens on and that this process has not given out before."""
    share = (LAST - FIRST) // WORKERS
    with _lock:
        for _ in range(1000):
            port = FIRST + WORKER * share + random.randrange(share)
            if port in _given or not is_free(port):
                continue
            _given.add(port)
            return port
    raise RuntimeError("no free port found")
