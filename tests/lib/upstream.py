# SPDX-License-Identifier: MIT
"""A real HTTP upstream whose every answer a test decides, and which keeps every request byte for
byte. It runs in a thread of the test's process, several thousand requests a second.

    with Upstream() as up:
        up.next(Reply(503, {"Retry-After": "2"}), Reset())   # the next two requests
        up.when(path_is("/v1/logs"), Reply(400))             # whenever it fits
        up.always(Reply(200))                                # everything else (the standard)
        ...
        up.wait_for(3)
        assert up.requests[0].body == b"..."

Probes (GET) are kept in up.probes and answered by up.ready, an action as well. stop() refuses
connections on the same port until start().
"""
import asyncio
import collections
import itertools
import socket
import struct
import threading
import time

from lib.ports import free_port
from lib.wait import wait_until

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


class Request:
    """What came, when, and on which connection (numbered from 0)."""

    __slots__ = ("head", "body", "method", "target", "headers", "at", "connection")

    def __init__(self, head, connection):
        self.head, self.connection, self.body, self.at = head, connection, b"", time.monotonic()
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        self.headers = [tuple(part.strip() for part in line.split(":", 1))
                        for line in lines[1:] if line]

    def header(self, name):
        """The one header of that name, or None; AssertionError when it came twice."""
        values = [v for n, v in self.headers if n.lower() == name.lower()]
        assert len(values) < 2, f"{name} came {len(values)} times"
        return values[0] if values else None

    @property
    def key(self):
        return self.header("Idempotency-Key")

    def __repr__(self):
        return f"<{self.method} {self.target} {len(self.body)} bytes key {self.key}>"


class Reply:
    """An answer; delay is in seconds. With close the connection ends behind it."""

    def __init__(self, status=200, headers=(), body=b"{}", delay=0.0, close=False):
        lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in
                  (headers.items() if isinstance(headers, dict) else headers)]
        if close:
            lines.append("Connection: close")
        self.bytes = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
        self.delay, self.close, self.status = delay, close, status
        self.is_early = False

    def perform(self, connection):
        if self.delay:
            connection.later(self.delay, self._send)
        else:
            self._send(connection)

    def _send(self, connection):
        connection.send(self.bytes)
        if self.close:
            connection.close()
        connection.done()


class Early(Reply):
    """An answer given when the head is there; what comes of the body is thrown away until the peer
    closes. A rude one closes at once instead, which may reset the connection under its answer."""

    def __init__(self, status, headers=(), body=b"", rude=False):
        super().__init__(status, headers, body, close=True)
        self.is_early, self.close = True, rude

    def perform(self, connection):
        connection.is_deaf = True
        super().perform(connection)


class Raw:
    """Sends bytes that need not be HTTP, then closes (or keeps the connection open)."""

    def __init__(self, data, close=True):
        self.data, self.close, self.is_early = data, close, False

    def perform(self, connection):
        connection.send(self.data)
        if self.close:
            connection.close()
            connection.done()


def junk():
    return Raw(b"\x00\xff\x13SSH-2.0-not-http\r\n\x80" * 20)


def truncated(status=200, announced=1000, sent=10):
    """A head that promises more body than comes."""
    return Raw(f"HTTP/1.1 {status} Scripted\r\nContent-Length: {announced}\r\n\r\n".encode()
               + b"x" * sent)


class Reset:
    """Resets the connection: after the request was read, or early, before its body; `first` is
    sent before."""

    def __init__(self, first=b"", early=False):
        self.first, self.is_early = first, early

    def perform(self, connection):
        if self.first:
            connection.send(self.first)
        connection.reset()
        connection.done()


class Hang:
    """Never answers; keeps the connection until the peer or stop() ends it. release() lets all that
    hang go with an answer."""

    def __init__(self):
        self.is_early = False
        self.held = []

    def perform(self, connection):
        self.held.append(connection)

    def release(self, up, reply=None):
        reply = reply or Reply(200)
        held, self.held = self.held, []
        for connection in held:
            up.call(reply.perform, connection)


class Drip:
    """A good answer, one byte each `every` seconds."""

    def __init__(self, every=0.05, body=b"{}"):
        self.data = Reply(200, body=body).bytes
        self.every, self.is_early = every, False

    def perform(self, connection):
        self._next(connection, 0)

    def _next(self, connection, at):
        if at == len(self.data):
            connection.done()
            return
        connection.send(self.data[at:at + 1])
        connection.later(self.every, lambda c: self._next(c, at + 1))


def path_is(path):
    return lambda request: request.target.split("?")[0] == path


def key_is(key):
    return lambda request: request.key == key


class _Connection(asyncio.Protocol):
    def __init__(self, up):
        self.up, self.number = up, next(up.numbers)
        self.data, self.request, self.missing, self.is_busy = bytearray(), None, 0, False
        self.transport, self.is_deaf = None, False

    def connection_made(self, transport):
        self.transport = transport
        self.up.connections.add(self)

    def connection_lost(self, _):
        self.up.connections.discard(self)
        self.done()

    def data_received(self, data):
        if self.is_deaf:
            self.data.clear()
            return
        self.data += data
        while not self.is_busy and self._take():
            pass

    def _take(self):
        """Takes one request out of the data, if it is whole."""
        if self.request is None and not self._take_head():
            return False
        if len(self.data) < self.missing:
            return False
        request, self.request = self.request, None
        request.body = bytes(self.data[:self.missing])
        del self.data[:self.missing]
        self._act(request, self.up.action_for(request))
        return True

    def _take_head(self):
        end = self.data.find(b"\r\n\r\n")
        if end < 0:
            return False
        request = Request(bytes(self.data[:end]), self.number)
        del self.data[:end + 4]
        self.missing = int(request.header("Content-Length") or 0)
        early = self.up.early_action_for(request)
        if early:
            self._act(request, early)
            return False
        if (request.header("Expect") or "").lower() == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.request = request
        return True

    def _act(self, request, action):
        self.is_busy = True
        self.up.began(request)
        action.perform(self)

    def done(self):
        if self.is_busy:
            self.is_busy = False
            self.up.ended()
            self.up.loop.call_soon(self.data_received, b"")

    def send(self, data):
        if not self.transport.is_closing():
            self.transport.write(data)

    def later(self, seconds, function):
        self.up.loop.call_later(seconds, function, self)

    def close(self):
        self.transport.close()

    def reset(self):
        sock = self.transport.get_extra_info("socket")
        if sock is not None and not self.transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()


class Upstream:
    """See the module's text. tls: an ssl.SSLContext for https."""

    def __init__(self, start=True, tls=None):
        self.port, self.tls = free_port(), tls
        self.requests, self.probes = [], []
        self.ready = Reply(200, body=b"ok")
        self.under_way = self.peak = 0
        self.connections, self.numbers = set(), itertools.count()
        self._queue, self._rules, self._standard = collections.deque(), [], Reply(200)
        self._server, self._holder = None, self._bind()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    # Scripts

    def always(self, action):
        self._standard = action

    def next(self, *actions):
        """For the next requests, one each, before any rule."""
        self._queue.extend(actions)

    def when(self, fits, *actions):
        """For requests that fit: the actions in turn, the last one again and again."""
        self._rules.append((fits, collections.deque(actions)))

    def forget_script(self):
        self._queue.clear()
        self._rules.clear()
        self._standard = Reply(200)

    # What came

    def by_key(self):
        """{Idempotency-Key: how often it came}"""
        return collections.Counter(request.key for request in list(self.requests))

    def wait_for(self, count, seconds=20.0):
        """Until so many requests (not probes) came; returns them."""
        wait_until(lambda: len(self.requests) >= count, seconds,
                   lambda: f"{count} requests at the upstream, there are {len(self.requests)}")
        return self.requests[:]

    def forget(self):
        self.requests.clear()
        self.probes.clear()
        self.peak = self.under_way

    # Stop and start

    def start(self):
        self._run(self._start())

    def stop(self):
        """Refuses connections from now on and resets those there are."""
        self._run(self._stop())

    def close(self):
        self.stop()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self._holder.close()
        self.loop.close()

    def call(self, function, *args):
        self.loop.call_soon_threadsafe(function, *args)

    # For the connections

    def action_for(self, request):
        if request.method == "GET":
            return self.ready
        if self._queue:
            return self._queue.popleft()
        for fits, actions in self._rules:
            if fits(request):
                return actions.popleft() if len(actions) > 1 else actions[0]
        return self._standard

    def early_action_for(self, request):
        """An action that wants the head only; it is taken from the script like any other."""
        if request.method == "GET":
            return None
        if self._queue:
            return self._queue.popleft() if self._queue[0].is_early else None
        for fits, actions in self._rules:
            if fits(request):
                if not actions[0].is_early:
                    return None
                return actions.popleft() if len(actions) > 1 else actions[0]
        return self._standard if self._standard.is_early else None

    def began(self, request):
        self.under_way += 1
        if request.method == "GET":
            self.probes.append(request)
        else:
            self.requests.append(request)
            self.peak = max(self.peak, self.under_way)

    def ended(self):
        self.under_way -= 1

    def _bind(self):
        """A bound socket that does not listen: it keeps the port and refuses connections."""
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", self.port))
        return holder

    def _run(self, coroutine):
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    async def _start(self):
        if self._server is None:
            self._server = await self.loop.create_server(
                lambda: _Connection(self), sock=self._holder, ssl=self.tls, backlog=1024)

    async def _stop(self):
        if self._server is None:
            return
        self._server.close()
        self._server = None
        self._holder = self._bind()
        for connection in list(self.connections):
            connection.reset()
