# SPDX-License-Identifier: MIT
"""A real Postgres for tests: a server of its own in a temporary folder on a free port, with a fresh
database for each test, and PgBouncer in transaction mode in front of it where a test asks for it.

    with PostgresServer() as server:
        database = server.new_database()
        daemon = site.daemon(store=database.url)
        database.query("select count(*) from spans")
        server.kill9(); server.start()

Servers refuse to run as root; when the tests are root, it runs as nobody.
"""
import atexit
import functools
import itertools
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
from urllib.parse import quote

import psycopg2

from lib import tools
from lib.ports import free_port
from lib.wait import wait_until

USER, PASSWORD = "mcpd", "s3cret/@:pg"  # with characters that a URL escapes
SETTINGS = {
    "listen_addresses": "127.0.0.1", "max_connections": "120", "shared_buffers": "64MB",
    "autovacuum_naptime": "10s", "logging_collector": "off", "log_min_messages": "warning",
}


def as_server():
    """The start of a command line that runs as the user that servers run as."""
    if os.getuid() != 0:
        return []
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


@functools.lru_cache
def tools_folder():
    """build/tools, or a copy of it where that user cannot reach it, as below root's home."""
    reach = subprocess.run([*as_server(), "test", "-x", tools.TOOLS / "usr"], check=False)
    if reach.returncode == 0 or not tools.TOOLS.exists():
        return tools.TOOLS
    copy = pathlib.Path(tempfile.mkdtemp(prefix="mcpd-tools-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    shutil.copytree(tools.TOOLS / "usr", copy / "usr", symlinks=True)
    return copy


def environment():
    return {**tools.environment(), "LD_LIBRARY_PATH": str(tools_folder() / "usr/lib/x86_64-linux-gnu")}


def bin_folder():
    """Where initdb and postgres are, or None."""
    for root in (pathlib.Path("/"), tools_folder()):
        folder = root / "usr/lib/postgresql/15/bin"
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    return None


def is_available():
    return bin_folder() is not None


def _children(pid):
    """Ids of the processes that this one has started."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            return [int(child) for child in children.read().split()]
    except OSError:
        return []


def _is_alive(pid):
    """Zombies are gone as far as a test is concerned."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class _Server:
    """What the database server and the pooler have in common: a process as a plain user, in a
    folder of its own, on one port."""

    def __init__(self, folder=None):
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="mcpd-pg-"))
        self._is_own_folder = folder is None
        self.port = free_port()
        self.child = None
        if os.getuid() == 0:
            shutil.chown(self.folder, "nobody", "nogroup")

    def _run(self, *command):
        done = subprocess.run([*as_server(), *map(str, command)], cwd=self.folder, text=True,
                              env=environment(), capture_output=True, check=False)
        assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"

    def _spawn(self, *command):
        # setpriv drops the signal of a parent's death when it changes the user: two of them.
        with open(self.folder / "server.log", "ab") as log:
            self.child = subprocess.Popen(
                [*as_server(), "setpriv", "--pdeathsig", "KILL", *map(str, command)],
                cwd=self.folder, env=environment(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log)

    @property
    def pid(self):
        return self.child.pid

    def is_alive(self):
        return self.child is not None and self.child.poll() is None

    def log(self):
        path = self.folder / "server.log"
        return path.read_text(errors="replace")[-8000:] if path.exists() else ""

    def _accepts(self):
        assert self.is_alive(), f"ended at start\n{self.log()}"
        try:
            connect(self.port, "postgres").close()
        except psycopg2.OperationalError:
            return False
        return True

    def wait_accepting(self, seconds=60.0):
        wait_until(self._accepts, seconds, lambda: f"connections accepted\n{self.log()}", every=0.05)
        return self

    def signal_all(self, number):
        """To the server and all it has started. A frozen server starts none, so it goes first."""
        os.kill(self.pid, number)
        for child in _children(self.pid):
            try:
                os.kill(child, number)
            except ProcessLookupError:
                pass

    def pause(self):
        self.signal_all(signal.SIGSTOP)

    def resume(self):
        if self.is_alive():
            self.signal_all(signal.SIGCONT)

    def kill9(self):
        """All its processes at once, as the end of a machine would; gone when this returns."""
        if not self.is_alive():
            return
        family = [self.pid, *_children(self.pid)]
        os.kill(self.pid, signal.SIGSTOP)
        family += [child for child in _children(self.pid) if child not in family]
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.child.wait(20)
        wait_until(lambda: not any(map(_is_alive, family)), 20, "the server's processes gone")

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.kill9()
        if self._is_own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def connect(port, database, user=USER, password=PASSWORD):
    connection = psycopg2.connect(host="127.0.0.1", port=port, dbname=database, user=user,
                                  password=password, connect_timeout=5)
    connection.autocommit = True
    return connection


class PostgresServer(_Server):
    """settings are lines of postgresql.conf; folder: where it lies, by default its own in /tmp."""

    def __init__(self, folder=None, **settings):
        super().__init__(folder)
        self.settings = {**SETTINGS, **settings}
        self._names = itertools.count(1)

    @property
    def data(self):
        return self.folder / "data"

    def _init(self):
        password = self.folder / "password"
        password.write_text(PASSWORD)
        self._run(bin_folder() / "initdb", "-D", self.data, "-U", USER, "--auth=scram-sha-256",
                  f"--pwfile={password}", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        if self.settings.get("ssl") == "on":
            self._run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                      "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                      "-keyout", self.data / "server.key", "-out", self.data / "server.crt")
        with open(self.data / "postgresql.conf", "a", encoding="ascii") as conf:
            for name, value in self.settings.items():
                conf.write(f"{name} = '{value}'\n")
            conf.write(f"unix_socket_directories = '{self.folder}'\n")

    def spawn(self):
        if not self.data.exists():
            self._init()
        self._spawn(bin_folder() / "postgres", "-D", self.data, "-p", self.port)
        return self

    def start(self):
        return self.spawn().wait_accepting()

    def stop(self, mode="fast", seconds=60.0):
        """mode: "smart" waits for clients, "fast" ends them, "immediate" does without a checkpoint,
        so that the next start recovers as after a crash."""
        number = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode]
        self.child.send_signal(number)
        self.child.wait(seconds)

    def new_database(self):
        name = f"test{next(self._names)}"
        admin = connect(self.port, "postgres")
        with admin.cursor() as cursor:
            cursor.execute(f"create database {name}")
        admin.close()
        return Database(self, name)


class Database:
    """One database of a server, for one test."""

    def __init__(self, server, name):
        self.server, self.name = server, name

    @property
    def url(self):
        return self.url_at(self.server.port)

    def url_at(self, port):
        """The same database by way of another port: a pooler's, a proxy's."""
        return f"postgres://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/{self.name}"

    def connect(self):
        """A psycopg2 connection in autocommit mode, for tests that hold locks or transactions."""
        return connect(self.server.port, self.name)

    def query(self, sql, *values):
        """The rows of a statement, as a list of tuples; %s stands for a value."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, values)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def execute(self, sql, *values):
        """How many rows a statement changed."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, values)
                return cursor.rowcount
        finally:
            connection.close()

    def drop(self):
        """Ends its connections and removes it."""
        admin = connect(self.server.port, "postgres")
        with admin.cursor() as cursor:
            cursor.execute(f"drop database if exists {self.name} with (force)")
        admin.close()


class PgBouncer(_Server):
    """A pooler in transaction mode in front of a server: database.url_at(pooler.port)."""

    def __init__(self, server, pool_size=4):
        super().__init__()
        self.server, self.pool_size = server, pool_size

    def start(self):
        config = self.folder / "pgbouncer.ini"
        users = self.folder / "users.txt"
        users.write_text(f'"{USER}" "{PASSWORD}"\n')
        config.write_text(
            f"[databases]\n* = host=127.0.0.1 port={self.server.port}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\n"
            f"unix_socket_dir =\nauth_type = plain\nauth_file = {users}\n"
            f"pool_mode = transaction\ndefault_pool_size = {self.pool_size}\n"
            "max_client_conn = 500\nserver_login_retry = 1\n")
        program = tools.find("pgbouncer")
        if program.startswith(str(tools.TOOLS)):
            program = tools_folder() / pathlib.Path(program).relative_to(tools.TOOLS)
        self._spawn(program, config)
        return self.wait_accepting()
