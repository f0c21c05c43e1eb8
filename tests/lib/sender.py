# SPDX-License-Identifier: MIT
"""Senders under load: threads with a keep-alive connection each, which record for every request what
became of it.

    load = Load(relay.port, mixed(5000), connections=16)
    load.run()                      # or start() ... stop()
    load.accepted                   # what was answered 2xx
"""
import threading
import time
from collections import Counter

from lib import http


def paced(requests, per_second):
    """The same requests, no faster than that: agents do not send as fast as they can."""
    began = time.monotonic()
    for number, request in enumerate(requests):
        ahead = number / per_second - (time.monotonic() - began)
        if ahead > 0:
            time.sleep(ahead)
        yield request


class Sent:
    """A request that was sent and its fate: status is the last answer's, None when the connection
    broke (it may be stored all the same)."""

    __slots__ = ("request", "status", "reply", "attempts", "error", "seconds")

    def __init__(self, request):
        self.request, self.status, self.reply = request, None, None
        self.attempts, self.error, self.seconds = 0, None, 0.0

    @property
    def is_accepted(self):
        return self.status is not None and 200 <= self.status < 300

    def __repr__(self):
        return f"<Sent {self.request.path} {self.status} {self.error}>"


class Load:
    """Sends requests (an iterable, shared by the threads) to 127.0.0.1:port; of several ports, the
    next one is tried where one gave no 2xx.

    retry: how often a request without a 2xx is sent again, with the same bytes and key, as SDKs do
    for 503 and a lost connection; retry_wait_s lies between two tries. With retry=None it goes on
    until stop().
    """

    def __init__(self, port, requests, connections=8, retry=0, retry_wait_s=0.05, timeout=30.0):
        self.ports = list(port) if isinstance(port, (list, tuple)) else [port]
        self.retry, self.retry_wait_s, self.timeout = retry, retry_wait_s, timeout
        self._requests, self._take = iter(requests), threading.Lock()
        self._stop = threading.Event()
        self.sent = []
        self._threads = [threading.Thread(target=self._work, args=(first,), daemon=True)
                         for first in range(connections)]

    def start(self):
        for thread in self._threads:
            thread.start()
        return self

    def stop(self):
        """No new request; waits for those under way."""
        self._stop.set()
        return self.join()

    def stop_now(self):
        """Tells the threads to end without waiting for them."""
        self._stop.set()

    def join(self, seconds=120.0):
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
            assert not thread.is_alive(), "a sender hangs"
        return self

    def run(self, seconds=120.0):
        return self.start().join(seconds)

    @property
    def is_running(self):
        return any(thread.is_alive() for thread in self._threads)

    @property
    def accepted(self):
        return [sent for sent in list(self.sent) if sent.is_accepted]

    def statuses(self):
        """How often each status was the last word; None counts broken connections."""
        return Counter(sent.status for sent in list(self.sent))

    def _next(self):
        with self._take:
            return None if self._stop.is_set() else next(self._requests, None)

    def _work(self, turn):
        connection = None
        while (request := self._next()) is not None:
            sent = Sent(request)
            self.sent.append(sent)
            while True:
                connection = self._attempt(connection, sent, self.ports[turn % len(self.ports)])
                if not sent.is_accepted and len(self.ports) > 1:
                    turn += 1
                    connection = self._closed(connection)
                tries_left = self.retry is None or sent.attempts <= self.retry
                if sent.is_accepted or not tries_left or self._stop.wait(self.retry_wait_s):
                    break
        self._closed(connection)

    @staticmethod
    def _closed(connection):
        if connection is not None:
            connection.close()

    def _attempt(self, connection, sent, port):
        """One try; returns the connection for the next one, or None."""
        request, began = sent.request, time.monotonic()
        sent.attempts += 1
        sent.status = sent.error = None
        try:
            if connection is None:
                connection = http.Connection(port, self.timeout)
            sent.reply = connection.request("POST", request.path, request.body,
                                            request.all_headers())
            sent.status = sent.reply.status
        except (OSError, ValueError) as error:
            sent.error = repr(error)
        sent.seconds = time.monotonic() - began
        closing = sent.status is None or sent.reply.headers.get("connection", "") == "close"
        return self._closed(connection) if closing else connection
