# SPDX-License-Identifier: MIT
"""A gateway and a courier in another language: the queue protocol as docs/protocol.md tells it, on
pyzmq and msgpack alone, so that a test can be the broker's other side."""
import random
import struct
import time

import msgpack
import zmq

VERSION = 1
STORED, FULL, TOO_LARGE, FAILED = range(4)
TYPES = {name: number for number, name in enumerate(
    "HELLO WELCOME SUBMIT STORED STATUS LEASE RENEW DONE RETRY RELEASE DEAD CREDIT UPSTREAMS PING "
    "PONG BYE ERROR".split(), 1)}
NAMES = {number: name for name, number in TYPES.items()}


def meta(target="/v1/ingest", key="k", **more):
    return msgpack.packb({"target": target, "key": key, "at": time.time_ns(), **more})


class Message:
    def __init__(self, frames):
        version, number = struct.unpack("BB", frames[0][:2])
        assert version == VERSION
        self.name = NAMES[number]
        self.fields = msgpack.unpackb(frames[0][2:])
        self.bodies = frames[1:]

    def __repr__(self):
        return f"{self.name}{self.fields}"


class Peer:
    """One DEALER. Heartbeats are answered while somebody waits in expect or quiet; beyond that the
    peer is silent, which tests make use of."""

    def __init__(self, endpoint, name=None):
        self.name = name or f"peer-{random.getrandbits(32):08x}"
        self.session = random.getrandbits(64)
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Without BYE, as a process that dies."""
        self.socket.close(0)

    def send_frames(self, *frames):
        self.socket.send_multipart(frames)

    def send(self, name, *fields, bodies=(), version=VERSION):
        header = struct.pack("BB", version, TYPES[name]) + msgpack.packb(list(fields))
        self.send_frames(header, *bodies)

    def receive(self, seconds):
        """The next message of any kind, or None. PING is answered."""
        if not self.socket.poll(int(seconds * 1000)):
            return None
        message = Message(self.socket.recv_multipart())
        if message.name == "PING":
            self.send("PONG")
        return message

    def expect(self, name, seconds=10.0):
        """The next message of that name; others of the kinds that come at any time are skipped."""
        end = time.monotonic() + seconds
        skipped = []
        while True:
            message = self.receive(max(0, min(0.5, end - time.monotonic())))
            if message is not None and message.name == name:
                return message
            assert message is None or message.name in ("PING", "PONG", "STATUS"), \
                f"{message} instead of {name}"
            skipped += [message] if message else []
            assert time.monotonic() < end, f"no {name} within {seconds} s, only {skipped}"
            if message is None:
                self.send("PING")

    def gone_quiet(self, name, seconds):
        """True when no message of that name comes for so long; stays alive meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            message = self.receive(min(0.3, max(0, end - time.monotonic())))
            if message is not None and message.name == name:
                return False
            if message is None:
                self.send("PING")
        return True


class Gateway(Peer):
    def __init__(self, broker, name=None):
        super().__init__(f"ipc://{broker.spool.resolve()}/gateway.sock", name)
        self.seq = 0
        self.welcome = None

    def hello(self):
        self.send("HELLO", self.name, self.session, 0)
        self.welcome = self.expect("WELCOME").fields
        return self

    def submit(self, *requests):
        """Each (meta, body); returns the verdicts."""
        self.seq += 1
        self.send("SUBMIT", self.seq, len(requests),
                  bodies=[frame for request in requests for frame in request])
        seq, verdicts = self.expect("STORED", 30).fields
        assert seq == self.seq
        return list(verdicts)


class Lease:
    def __init__(self, message):
        self.token, self.rounds, self.suspect, self.first_fail_s = message.fields
        self.raw_meta, self.body = message.bodies
        self.meta = msgpack.unpackb(self.raw_meta)


class Courier(Peer):
    def __init__(self, broker, name=None):
        super().__init__(f"ipc://{broker.spool.resolve()}/courier.sock", name)

    def hello(self, credit=0):
        self.send("HELLO", self.name, self.session, credit)
        self.expect("WELCOME")
        return self

    def lease(self, seconds=10.0):
        return Lease(self.expect("LEASE", seconds))
