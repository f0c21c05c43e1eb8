# SPDX-License-Identifier: MIT
"""The way from a client to a server on this machine, for tests that cut it or let it freeze.

    with Link(server.port) as link:
        daemon = site.daemon(store=database.url_at(link.port))
        link.cut(); link.mend()
"""
import socket
import threading
import time


class Link:
    """A TCP proxy on a free port, on which everything takes delay_s, each way. cut() ends all connections and lets no new one through. freeze()
    leaves them open and moves no byte, not even for new ones; what was sent meanwhile arrives after
    mend(), also when its sender has gone, as from a network that was only slow."""

    def __init__(self, to_port, delay_s=0.0):
        self.to_port, self.delay_s = to_port, delay_s
        self._moves = threading.Event()
        self._moves.set()
        self._is_cut = False
        self._is_closed = False
        self._trap, self._armed = None, set()
        self.was_cut = threading.Event()  # by cut_once or freeze_once
        self._lock = threading.Lock()
        self._sockets = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def cut(self):
        with self._lock:
            self._is_cut = True
            self._end_all()

    def freeze(self):
        self._moves.clear()

    def cut_once(self, after, at, from_server=False):
        """Ends the first connection on which the client has sent the bytes `after`, the moment the
        bytes `at` come by from the client, or from the server; they are not passed on."""
        self.was_cut.clear()
        self._trap = (after, at, from_server, False)

    def freeze_once(self, after, at):
        """The same, but everything freezes instead."""
        self.was_cut.clear()
        self._trap = (after, at, False, True)

    def mend(self):
        with self._lock:
            self._is_cut = False
        self._moves.set()

    def close(self):
        with self._lock:
            self._is_closed = self._is_cut = True
            self._end_all()
        self._moves.set()
        _end(self._listener)
        self._listener.close()

    def _end_all(self):
        for one in self._sockets:
            _end(one)
        self._sockets.clear()

    def _accept(self):
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        self._moves.wait()
        with self._lock:
            if self._is_cut:
                client.close()
                return
            self._sockets.add(client)
        try:
            server = socket.create_connection(("127.0.0.1", self.to_port), timeout=10)
        except OSError:
            _end(client)
            return
        server.settimeout(None)
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            if self._is_cut:
                _end(client)
                _end(server)
                return
            self._sockets.add(server)
        back = threading.Thread(target=self._move, args=(server, client, client), daemon=True)
        back.start()
        self._move(client, server, client)
        back.join()
        with self._lock:
            self._sockets -= {client, server}
        client.close()
        server.close()

    def _is_trapped(self, data, client, is_from_server):
        with self._lock:
            if self._trap is None:
                return False
            after, at, from_server, is_freeze = self._trap
            if not is_from_server and after in data:
                self._armed.add(client)
            if client not in self._armed or is_from_server != from_server or at not in data:
                return False
            self._trap = None
            self._armed.clear()
            if is_freeze:
                self._moves.clear()
            self.was_cut.set()
            return not is_freeze

    def _move(self, source, target, client):
        """Bytes from one to the other until either ends."""
        try:
            while data := source.recv(65536):
                time.sleep(self.delay_s)
                if self._is_trapped(data, client, source is not client):
                    _end(target)
                    _end(source)
                    return
                self._moves.wait()
                target.sendall(data)
            self._moves.wait()
            target.shutdown(socket.SHUT_WR)
        except OSError:
            _end(source)
            _end(target)


def _end(one):
    """Wakes whoever reads or writes it, too."""
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
