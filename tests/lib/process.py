# SPDX-License-Identifier: MIT
"""Real mcpd processes for tests, demo and bench. A Site is a folder with processes in it; leaving
the Site ends them all.

    with Site(tmp) as site:
        daemon = site.daemon()
        relay = site.relay(upstream=[daemon.url], spool_max_bytes="64MiB")
        relay.kill9(); relay.start()

Options are given as keywords: spool_max_bytes="64MiB" becomes --spool-max-bytes 64MiB; a list
repeats the flag. start() waits until /readyz answers at all, whatever it says.
"""
import os
import pathlib
import signal
import subprocess

from lib import http
from lib.ports import free_port
from lib.store import PgStore, Store
from lib.wait import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MCPD_BUILD", ROOT / "build")).resolve()


def flags(options):
    """{"spool_max_bytes": "1MiB", "upstream": [a, b]} -> the command line."""
    line = []
    for name, value in options.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            line += ["--" + name.replace("_", "-"), str(one)]
    return line


def clean_environment(extra=None):
    """The environment without MCPD_ settings of whoever runs the tests."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("MCPD_")}
    env.update(extra or {})
    return env


class Process:
    """One mcpd process. port is where its probes answer; url is its address for senders."""

    def __init__(self, role, name, folder, options, port, env=None, binary="mcpd"):
        self.role, self.name, self.folder = role, name, pathlib.Path(folder)
        self.options, self.port, self.env = dict(options), port, dict(env or {})
        self.binary = binary if os.path.isabs(str(binary)) else BUILD / binary
        self.log_path = self.folder / f"{name}.log"
        self.child = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.child.pid

    def command(self):
        return [str(self.binary), self.role, *flags(self.options)]

    def spawn(self):
        """Starts without waiting for anything."""
        assert not self.is_alive(), f"{self.name} runs already"
        with open(self.log_path, "ab") as log:
            log.write(f"--- start: {' '.join(self.command())}\n".encode())
            log.flush()
            # The kernel ends the child should the tests be killed, or the thread that started it
            # end: no other thread than the main one starts processes.
            self.child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.command()], cwd=self.folder,
                env=clean_environment(self.env), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def start(self, seconds=20.0):
        """Starts and waits until /readyz answers with any status."""
        self.spawn()
        wait_until(self._answers_or_died, seconds, lambda: f"{self.name} answers\n{self.log()}",
                   every=0.01)
        assert self.is_alive(), f"{self.name} ended at start: {self.child.returncode}\n{self.log()}"
        return self

    def _answers_or_died(self):
        return not self.is_alive() or self.readyz() is not None

    def is_alive(self):
        return self.child is not None and self.child.poll() is None

    def signal(self, number):
        self.child.send_signal(number)

    def kill9(self):
        """SIGKILL, and gone when this returns."""
        if self.is_alive():
            self.signal(signal.SIGKILL)
        if self.child is not None:
            self.child.wait(20)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def stop(self, seconds=40.0):
        """SIGTERM; returns the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds=40.0):
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end in {seconds} s\n{self.log()}") from None

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def readyz(self):
        """(status, text), or None when nobody answers."""
        try:
            reply = http.get(self.port, "/readyz", timeout=5)
        except OSError:
            return None
        return reply.status, reply.body.decode()

    def wait_ready(self, seconds=20.0):
        """Until /readyz says 200."""
        wait_until(lambda: (self.readyz() or (0,))[0] == 200, seconds,
                   lambda: f"{self.name} ready, says {self.readyz()}\n{self.log()}")
        return self

    def metrics(self):
        """{'mcpd_relay_delivered_total{upstream="...",order="1"}': 3.0, ...}"""
        reply = http.get(self.port, "/metrics")
        assert reply.status == 200, reply
        return parse_metrics(reply.body.decode())

    def metric(self, name):
        """The sum over all series of a metric; 0 where there is none."""
        return sum(value for series, value in self.metrics().items()
                   if series.split("{")[0] == name)

    def wait_metric(self, name, value, seconds=20.0):
        """Until a metric (summed over its series) reaches at least the value."""
        wait_until(lambda: self.metric(name) >= value, seconds,
                   lambda: f"{name} >= {value}, is {self.metric(name)}\n{self.log()}", every=0.05)

    def rss_bytes(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def parse_metrics(text):
    result = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            result[series] = float(value)
    return result


class Daemon(Process):
    """A daemon on an SQLite file of its own, or on a database that the Site made for it."""

    database = None

    @property
    def data(self):
        return self.folder / self.options["data"]

    def store(self):
        """What it has stored, to be read past it."""
        return PgStore(self.database) if self.database else Store(self.data)


class Relay(Process):
    """A relay, or a broker, whose spool lies in the Site's folder."""

    @property
    def spool(self):
        return self.folder / self.options["spool_dir"] / "relay"

    def wait_drained(self, seconds=30.0):
        """Until nothing waits in the spool, and has not for as long as the gauge may lag."""
        empty = [0]

        def is_drained():
            is_empty = self.metric("mcpd_relay_spool_entries") == 0
            empty[0] = empty[0] + 1 if is_empty else 0
            return empty[0] > 8
        wait_until(is_drained, seconds, lambda: f"{self.name} drained, {self.metrics()}\n{self.log()}",
                   every=0.05)


class Site:
    """A folder and the processes started in it. With a postgres_server, daemons for which nothing
    else is said have a database there instead of a file."""

    def __init__(self, folder, postgres_server=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.postgres_server, self.databases = postgres_server, []
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends every process that still runs."""
        for process in self.processes:
            if process.is_alive():
                process.resume()
            process.kill9()
        for database in self.databases:
            database.drop()

    def _add(self, kind, role, options, port, env, binary, name, start):
        number = sum(1 for p in self.processes if p.role == role) + 1
        process = kind(role, name or f"{role}{number}", self.folder, options, port, env, binary)
        self.processes.append(process)
        return process.start() if start else process

    def daemon(self, *, name=None, env=None, binary="mcpd", start=True, **options):
        port = free_port()
        number = sum(1 for p in self.processes if p.role == "daemon") + 1
        options = {"listen": f"127.0.0.1:{port}", "drain_delay": "0s", **options}
        database = None
        if self.postgres_server and not options.keys() & {"store", "data"}:
            database = self.postgres_server.new_database()
            self.databases.append(database)
            options["store"] = database.url
        if "store" not in options:
            options.setdefault("data", f"{name or f'daemon{number}'}.db")
        daemon = self._add(Daemon, "daemon", options, port, env, binary, name, start)
        daemon.database = database
        return daemon

    def relay(self, *, name=None, env=None, binary="mcpd", start=True, **options):
        port = free_port()
        number = sum(1 for p in self.processes if p.role == "relay") + 1
        options = {"listen": f"127.0.0.1:{port}", "spool_dir": f"spool{number}",
                   "drain_delay": "0s", **options}
        return self._add(Relay, "relay", options, port, env, binary, name, start)

    def broker(self, *, name=None, env=None, binary="mcpd", start=True, **options):
        port = free_port()
        options = {"admin_listen": f"127.0.0.1:{port}", "spool_dir": "spool", **options}
        return self._add(Relay, "broker", options, port, env, binary, name, start)

    def gateway(self, broker, *, name=None, env=None, binary="mcpd", start=True, **options):
        """broker: the broker process, or a list of them, found by their ipc sockets."""
        port = free_port()
        brokers = broker if isinstance(broker, (list, tuple)) else [broker]
        options = {"listen": f"127.0.0.1:{port}",
                   "broker": [f"ipc://{b.spool.resolve()}/gateway.sock" for b in brokers],
                   "drain_delay": "0s", **options}
        return self._add(Process, "gateway", options, port, env, binary, name, start)

    def courier(self, broker, *, name=None, env=None, binary="mcpd", start=True, **options):
        port = free_port()
        options = {"admin_listen": f"127.0.0.1:{port}",
                   "broker": f"ipc://{broker.spool.resolve()}/courier.sock", **options}
        return self._add(Process, "courier", options, port, env, binary, name, start)

    def logs(self):
        return "\n".join(f"===== {p.name}: {'running' if p.is_alive() else 'ended'}\n{p.log()}"
                         for p in self.processes)


def run_once(*arguments, env=None, cwd=None, binary="mcpd", seconds=20.0):
    """Runs mcpd to its end; returns the CompletedProcess with text in stdout and stderr."""
    return subprocess.run([str(BUILD / binary), *map(str, arguments)], cwd=cwd,
                          env=clean_environment(env), stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=seconds, check=False)


def wait_gone(pid, seconds=10.0):
    """Until no process has this id."""
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), seconds, f"process {pid} gone")


