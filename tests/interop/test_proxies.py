# SPDX-License-Identifier: MIT
"""The proxies' settings in docs/running.md, as they stand there but for the ports: two relays behind
one of them, one is stopped under load, and no sender sees anything but success."""
import contextlib
import getpass
import re
import subprocess
import time

import pytest

from lib import http, tools
from lib.ports import free_port
from lib.process import ROOT
from lib.sender import Load, paced
from lib.store import Comparison, Store
from lib.telemetry import endless
from lib.wait import wait_until

MAX_BODY = 16 << 20
NGINX_AROUND = """user {user};
pid {folder}/nginx.pid;
daemon off;
events {{ worker_connections 1024; }}
http {{
access_log off;
client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
{settings}
}}
"""


def documented(language, ports):
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    settings = re.search(rf"```{language}\n(.*?)```", page, re.S).group(1)
    for shown, port in zip(("127.0.0.1:4317", "127.0.0.1:4417", "127.0.0.1:8317", "127.0.0.1:8318"),
                           (*ports, ports[-1])):
        settings = settings.replace(shown, f"127.0.0.1:{port}")
    return settings


def haproxy(program, folder, settings):
    (folder / "haproxy.cfg").write_text(settings)
    return [program, "-f", folder / "haproxy.cfg"]


def nginx(program, folder, settings):
    (folder / "nginx.conf").write_text(NGINX_AROUND.format(
        user=getpass.getuser(), folder=folder, settings=settings))
    return [program, "-e", "stderr", "-c", folder / "nginx.conf"]


@contextlib.contextmanager
def running(command, port):
    child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)],
                             env=tools.environment(), stdin=subprocess.DEVNULL)

    def passes():
        assert child.poll() is None, "the proxy ended"
        with contextlib.suppress(OSError):
            return http.post(port, "/v1/traces", b"", "application/x-protobuf").status == 200
    try:
        wait_until(passes, 20, "a request comes through", every=0.1)
        yield
    finally:
        child.terminate()
        child.wait(20)


@pytest.mark.parametrize("name,make", [("haproxy", haproxy), ("nginx", nginx)])
def test_no_sender_notices_that_a_relay_is_restarted(site, name, make):
    program = tools.find(name)
    if program is None:
        pytest.skip(f"NO {name} (`make setup` fetches it): its settings in docs/running.md were not tested")
    daemon = site.daemon()
    relays = [site.relay(upstream=daemon.url, drain_delay="5s") for _ in range(2)]
    front = free_port()
    settings = documented(name, [*(relay.port for relay in relays), front])
    with running(make(program, site.folder.resolve(), settings), front):
        assert http.post(front, "/v1/ingest", b"x" * (10 << 20), "text/plain").status == 202
        load = Load(front, paced(endless(), 150), connections=16, timeout=30).start()
        wait_until(lambda: len(load.accepted) > 50, 20, "load is running")
        for relay in relays:
            assert relay.stop() == 0
            relay.start()
            relay.wait_ready()
            time.sleep(2)  # the proxy's own interval until it sees it again
        load.stop()
    assert load.statuses().keys() == {200, 202}, load.statuses()
    for relay in relays:
        relay.wait_drained()
    Comparison(load.sent, Store(daemon.data)).check()
