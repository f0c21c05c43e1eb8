# SPDX-License-Identifier: MIT
"""A small HTTP/1.1 client on a plain socket: keep-alive, fast enough for load, and with the raw
bytes at hand for framing tests."""
import socket


class Reply:
    """A parsed answer; header names are in lower case."""

    __slots__ = ("status", "headers", "body")

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:200]!r}>"


class Closed(OSError):
    """The peer closed the connection before a whole answer came."""


class Connection:
    """One connection to 127.0.0.1:port; request() and exchange() may be called again and again as
    long as the peer keeps it open."""

    def __init__(self, port, timeout=30.0, host="127.0.0.1"):
        self.sock = socket.create_connection((host, port), timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def request(self, method, path, body=b"", headers=()):
        self.send(build(method, path, body, headers))
        return self.reply(method)

    def reply(self, method="POST"):
        """Reads one whole answer; Closed when there is none."""
        data = self.rest
        while (end := data.find(b"\r\n\r\n")) < 0:
            data = self._more(data)
        lines = data[:end].split(b"\r\n")
        status = int(lines[0].split(b" ", 2)[1])
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            headers[name.strip().lower().decode()] = value.strip().decode("latin-1")
        data = data[end + 4:]
        no_body = method == "HEAD" or status in (204, 304) or status < 200
        length = 0 if no_body else headers.get("content-length")
        if length is None:
            data = self._until_close(data)
            length = len(data)
        length = int(length)
        while len(data) < length:
            data = self._more(data)
        self.rest = data[length:]
        return Reply(status, headers, data[:length])

    def is_closed_by_peer(self, seconds=5.0):
        """True when the peer closes within the time without sending anything more."""
        self.sock.settimeout(seconds)
        try:
            return self.rest == b"" and self.sock.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def _more(self, data):
        piece = self.sock.recv(65536)
        if not piece:
            raise Closed(f"closed after {data[:200]!r}")
        return data + piece

    def _until_close(self, data):
        while piece := self.sock.recv(65536):
            data += piece
        return data


def build(method, path, body=b"", headers=()):
    """The bytes of a request; a Content-Length is added for POST and for any body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in dict(headers).items()]
    if body or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def request(port, method, path, body=b"", headers=(), timeout=30.0):
    """One request on a connection of its own."""
    with Connection(port, timeout) as connection:
        return connection.request(method, path, body, {**dict(headers), "Connection": "close"})


def get(port, path, timeout=10.0, headers=()):
    return request(port, "GET", path, timeout=timeout, headers=headers)


def post(port, path, body=b"", content_type="application/json", headers=(), timeout=30.0):
    return request(port, "POST", path, body, {"Content-Type": content_type, **dict(headers)},
                   timeout)


def raw_exchange(port, data, timeout=10.0, half_close=False):
    """Sends bytes as they are, reads until the peer closes; returns all it sent. For framing tests:
    whatever the peer makes of the bytes is in the result."""
    with Connection(port, timeout) as connection:
        try:
            connection.send(data)
            if half_close:
                connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the peer has had enough; what it said may still be read
        return read_all(connection)


def read_all(connection):
    """All that still comes until the peer closes or resets the connection."""
    answer = connection.rest
    try:
        while piece := connection.sock.recv(65536):
            answer += piece
    except ConnectionResetError:
        pass
    return answer


def statuses(answer):
    """The status of every answer in the bytes of raw_exchange, in order."""
    found, at = [], 0
    while answer.startswith(b"HTTP/1.", at):
        end = answer.find(b"\r\n\r\n", at)
        if end < 0:
            break
        head = answer[at:end].lower()
        found.append(int(head.split(b" ", 2)[1]))
        length = 0
        for line in head.split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        at = end + 4 + length
    return found
