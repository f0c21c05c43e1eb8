# SPDX-License-Identifier: MIT
"""A real OpenTelemetry Collector as a process: OTLP/HTTP in, OTLP/HTTP out, with a queue in memory or
in its file_storage extension."""
import json
import pathlib

from lib import http
from lib.ports import free_port
from lib.process import Process
from lib.wait import wait_until

NEVER_GIVE_UP = {"enabled": True, "initial_interval": "100ms", "max_interval": "1s",
                 "randomization_factor": 0, "max_elapsed_time": "0s"}


class Collector(Process):
    """Between `port` and `endpoint`. queue and exporter change the exporter's settings; storage:
    None, or {"fsync": True}."""

    def __init__(self, program, folder, endpoint, *, name="collector", storage=None, queue=None,
                 exporter=None):
        super().__init__("collector", name, folder, {}, free_port(), binary=str(program))
        self.settings = self._settings(endpoint, storage, queue or {}, exporter or {})
        self.settings_path = self.folder / f"{name}.yaml"

    def command(self):
        return [str(self.binary), "--config", f"file:{self.settings_path}"]

    def spawn(self):
        # JSON is YAML.
        self.settings_path.write_text(json.dumps(self.settings, indent=1), encoding="utf-8")
        return super().spawn()

    def start(self, seconds=30.0):
        self.spawn()
        wait_until(lambda: not self.is_alive() or self._takes_nothing(), seconds,
                   lambda: f"{self.name} answers\n{self.log()}", every=0.05)
        assert self.is_alive(), f"{self.name} ended: {self.child.returncode}\n{self.log()}"
        return self

    def _takes_nothing(self):
        """Whether a request without any item is answered."""
        try:
            return http.post(self.port, "/v1/traces", b"", "application/x-protobuf",
                             timeout=5).status == 200
        except OSError:
            return False

    def _settings(self, endpoint, storage, queue, exporter):
        signals = ("traces", "logs", "metrics")
        settings = {
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{self.port}"}}}},
            "exporters": {"otlp_http": {
                "endpoint": endpoint, "retry_on_failure": NEVER_GIVE_UP, **exporter,
                "sending_queue": {"enabled": True, "queue_size": 100000, **queue}}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}, "logs": {"level": "info"}},
                "pipelines": {signal: {"receivers": ["otlp"], "exporters": ["otlp_http"]}
                              for signal in signals}}}
        if storage is not None:
            folder = pathlib.Path(self.folder) / f"{self.name}.queue"
            settings["extensions"] = {"file_storage": {
                "directory": str(folder), "create_directory": True, **storage}}
            settings["service"]["extensions"] = ["file_storage"]
            settings["exporters"]["otlp_http"]["sending_queue"]["storage"] = "file_storage"
        return settings

    def complaints(self):
        """Its log's lines about data it dropped or that a peer took in part only."""
        words = ("Dropping data", "artial success", "Exporting failed. No more retries")
        return [line for line in self.log().splitlines() if any(word in line for word in words)]
