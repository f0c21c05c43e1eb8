# SPDX-License-Identifier: MIT
"""Self-signed certificates for 127.0.0.1."""
import ssl
import subprocess


def make(folder, *names):
    """NAME.pem and NAME.key in the folder, for each name."""
    for name in names:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                        folder / f"{name}.key", "-out", folder / f"{name}.pem"],
                       check=True, capture_output=True)
    return folder


def server(folder, name):
    """A server's context with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context
