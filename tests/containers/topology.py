# SPDX-License-Identifier: MIT
"""The compose file's services, running, with what a test does to them. Leaving the Topology removes
all it made: containers, networks, volumes."""
import os
import shutil
import subprocess

import psycopg2

import engine
from lib.ports import free_port
from lib.process import ROOT, Relay
from lib.wait import wait_until

FILE = "docker-compose.multi-region.yml"
SERVICES = ("postgres", "daemon-a", "daemon-b", "relay")


class Service(Relay):
    """A container of ours with its port on this machine; probes and metrics as of any process."""

    def __init__(self, topology, name, port):
        super().__init__("container", name, topology.folder, {}, port)
        self.topology = topology

    def is_alive(self):
        return engine.inspect(self.topology.container(self.name), ".State.Running")

    def log(self):
        return self.topology.log(self.name)


class Topology:
    def __init__(self, folder, image, postgres_image):
        self.folder = folder / "compose"
        self.project = f"mcpdtest{os.getpid()}"
        self.ports = {name: free_port() for name in SERVICES[1:]}
        self.env = {**os.environ, "MCPD_IMAGE": image, "POSTGRES_IMAGE": postgres_image,
                    "MCPD_PASS_INTERVAL": "2s",
                    **{f"{name.replace('-', '_').upper()}_PORT": str(port)
                       for name, port in self.ports.items()}}
        self.relay, self.a, self.b = (Service(self, name, self.ports[name])
                                      for name in ("relay", "daemon-a", "daemon-b"))

    def __enter__(self):
        shutil.copytree(ROOT / "compose", self.folder, ignore=shutil.ignore_patterns("secrets"))
        subprocess.run([self.folder / "keys.sh"], env=self.env, check=True, capture_output=True,
                       timeout=120)
        self.compose("up", "-d")
        return self

    def __exit__(self, *_):
        self.compose("down", "--volumes", "--timeout", "5")
        left = [kind for kind in ("container", "network", "volume") if self._of_project(kind)]
        assert not left, f"not removed: {left}"

    def _of_project(self, kind):
        return engine.docker(kind, "ls", "-q", *(["-a"] if kind == "container" else []),
                             "--filter", f"label=com.docker.compose.project={self.project}")

    def compose(self, *arguments, seconds=180):
        command = [*engine.compose_command(), "-p", self.project, "-f", self.folder / FILE,
                   *arguments]
        done = subprocess.run(command, env=self.env, cwd=self.folder, capture_output=True, text=True,
                              timeout=seconds, check=False)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def secret(self, name):
        return (self.folder / "secrets" / name).read_text().strip()

    def container(self, service):
        return engine.docker("ps", "-aq", "--filter", f"label=com.docker.compose.service={service}",
                             "--filter", f"label=com.docker.compose.project={self.project}")

    def log(self, service):
        done = subprocess.run(["docker", "logs", "--tail", "60", self.container(service)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                              check=False)
        return done.stdout

    def logs(self):
        return "\n".join(f"===== {name}\n{self.log(name)}" for name in SERVICES)

    def health(self, service):
        return engine.inspect(self.container(service), ".State.Health.Status")

    def wait_healthy(self, *services, seconds=90.0):
        for service in services or SERVICES:
            wait_until(lambda one=service: self.health(one) == "healthy", seconds,
                       lambda one=service: f"{one} healthy, is {self.health(one)}\n{self.log(one)}",
                       every=0.3)

    # What happens to containers

    def do(self, what, service):
        """stop, start, kill, pause, unpause"""
        engine.docker(what, self.container(service))

    def cut(self, network, service):
        engine.docker("network", "disconnect", f"{self.project}_{network}", self.container(service))

    def mend(self, network, service):
        engine.docker("network", "connect", "--alias", service, f"{self.project}_{network}",
                      self.container(service))

    # The database

    def connect(self):
        """A connection as of lib.postgres.Database, by a network that postgres is in now."""
        networks = engine.inspect(self.container("postgres"), ".NetworkSettings.Networks")
        address = next(one["IPAddress"] for one in networks.values() if one["IPAddress"])
        connection = psycopg2.connect(host=address, dbname="mcpd", user="mcpd", connect_timeout=10,
                                      password=self.secret("postgres-password"))
        connection.autocommit = True
        return connection

    def query(self, sql, *values):
        return self._with_cursor(sql, values, lambda cursor: cursor.fetchall())

    def execute(self, sql, *values):
        return self._with_cursor(sql, values, lambda cursor: cursor.rowcount)

    def _with_cursor(self, sql, values, result):
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql, values)
                return result(cursor)
        finally:
            connection.close()
