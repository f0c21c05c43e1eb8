# SPDX-License-Identifier: MIT
"""The commands of the product's page about relays, as they stand there, print what it shows."""
import subprocess

import pytest

from lib.http import post
from lib.ports import is_free
from lib.process import BUILD, clean_environment
from lib.wait import wait_until

CONFIG = ("MCPD_UPSTREAMS=http://mcpd.eu.internal:4317,http://mcpd.us.internal:4317 "
          "mcpd --data /data/mcpd.db config | grep ^relay")
CONFIG_SAYS = ("relay           2 upstream(s) in order, http://mcpd.eu.internal:4317, "
               "http://mcpd.us.internal:4317; each sender's key passed on; "
               "spool at /data/mcpd.spool/relay, 1024 MiB\n")
HEAD = ('curl -s -D - -o /dev/null localhost:4317/v1/ingest -H "content-type: application/json" '
        "-d @batch.json | grep -e ^HTTP -e mcpd-relay")
BODY = 'curl -s localhost:4317/v1/ingest -H "content-type: application/json" -d @batch.json'
EDGE_RELAY = """mcpd relay \\
  --ingest-key $INGEST_KEY \\
  --upstream http://mcpd.eu.internal:4317 \\
  --upstream http://mcpd.us.internal:4317"""


def shell(command, cwd, **env):
    environment = clean_environment({"PATH": f"{BUILD}:/usr/bin:/bin", **env})
    return subprocess.run(["sh", "-c", command], cwd=cwd, env=environment, capture_output=True,
                          text=True, timeout=30, check=False).stdout


@pytest.fixture
def standard_port():
    """The page uses the standard port; another mcpd of this machine may hold it for a while."""
    try:
        wait_until(lambda: is_free(4317), 60, every=0.2)
    except AssertionError:
        pytest.skip("port 4317 is taken on this machine: the page's curl lines were NOT tried")


def test_config_line(tmp_path):
    assert shell(CONFIG, tmp_path) == CONFIG_SAYS
    assert not list(tmp_path.iterdir()), "config creates nothing"


def test_curl_lines(site, standard_port):
    (site.folder / "batch.json").write_text('{"schema":1,"events":[]}')
    relay = site.relay(listen="127.0.0.1:4317", upstream="http://127.0.0.1:9", start=False)
    relay.port = 4317
    relay.start()
    assert shell(HEAD, site.folder).replace("\r\n", "\n") == \
        "HTTP/1.1 202 Accepted\nmcpd-relay: spooled\n"
    assert shell(BODY, site.folder) == '{"accepted":0,"duplicate":0,"rejected":0}'


def test_edge_relay_command(site, standard_port):
    """It runs as it stands, and the key is asked for before anything is written."""
    environment = clean_environment({"PATH": f"{BUILD}:/usr/bin:/bin", "INGEST_KEY": "edge-key-0123456789"})
    with subprocess.Popen(["sh", "-c", "exec " + EDGE_RELAY], cwd=site.folder, env=environment,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            wait_until(lambda: not is_free(4317), 15, "the relay listens")
            assert post(4317, "/v1/ingest", b"{}").status == 401
            key = {"Authorization": "Bearer edge-key-0123456789"}
            assert post(4317, "/v1/ingest", b"{}", headers=key).status == 202
            assert (site.folder / "mcpd.spool" / "relay").is_dir()
        finally:
            child.kill()
