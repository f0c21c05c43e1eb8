# SPDX-License-Identifier: MIT
"""What cannot work is refused at start, with one line that says what is wrong and what is allowed."""
import os
import socket

import pytest

from lib.ports import free_port
from lib.process import run_once

UPSTREAM = ["--upstream", "http://127.0.0.1:9"]


def refused(*arguments, cwd, env=None):
    """The one line a start that must fail says."""
    result = run_once(*arguments, cwd=cwd, env=env)
    assert result.returncode != 0, result
    lines = [line for line in result.stderr.splitlines() if line and " info " not in line]
    assert len(lines) == 1, result.stderr
    return lines[0]


def relay(*arguments, cwd, env=None):
    return refused("relay", "--listen", f"127.0.0.1:{free_port()}", *arguments, cwd=cwd, env=env)


def test_relay_without_upstream(tmp_path):
    assert "--upstream" in relay(cwd=tmp_path)


@pytest.mark.parametrize("arguments, words", [
    (["--no-such-flag", "1"], ["--no-such-flag"]),
    (["--workers", "0"], ["--workers", "1", "1024"]),
    (["--workers", "many"], ["--workers", "many"]),
    (["--workers"], ["--workers"]),
    (["--spool-max-bytes", "12parsecs"], ["--spool-max-bytes", "12parsecs"]),
    (["--request-timeout-seconds", "99999"], ["--request-timeout-seconds", "3600"]),
    (["--keep-alive=perhaps"], ["--keep-alive", "on", "off"]),
    (["perhaps"], ["perhaps"]),
    (["--log-format", "xml"], ["--log-format", "text", "json"]),
    (["--listen", "nowhere"], ["--listen", "nowhere"]),
    (["--broker", "ipc:///x"], ["--broker"]),
])
def test_wrong_option(tmp_path, arguments, words):
    line = relay(*UPSTREAM, *arguments, cwd=tmp_path)
    for word in words:
        assert word in line
    assert not list(tmp_path.iterdir()), "a refused start leaves nothing behind"


def test_upstream_of_another_kind(tmp_path):
    line = relay("--upstream", "gopher://x", cwd=tmp_path)
    assert "gopher://x" in line and "http://" in line


def test_wrong_value_in_the_environment(tmp_path):
    line = relay(*UPSTREAM, cwd=tmp_path, env={"MCPD_WORKERS": "0"})
    assert "MCPD_WORKERS" in line or "--workers" in line


def test_unknown_variable_does_not_stop_the_start(site):
    """Kubernetes injects such variables for a service called mcpd."""
    process = site.relay(upstream="http://127.0.0.1:9",
                         env={"MCPD_SERVICE_HOST": "10.0.0.1", "MCPD_PORT_4317_TCP": "tcp://x",
                              "MCPD_NO_SUCH": "1"})
    log = process.log()
    assert "MCPD_NO_SUCH" in log
    assert "MCPD_SERVICE_HOST" not in log and "MCPD_PORT_4317_TCP" not in log


def test_spool_smaller_than_a_few_bodies_names_the_least_that_would_do(tmp_path):
    """4 × (1 MiB + 64 KiB)."""
    line = relay(*UPSTREAM, "--max-body-bytes", "1MiB", "--spool-max-bytes", "4MiB", cwd=tmp_path)
    assert "--spool-max-bytes" in line and "--max-body-bytes" in line
    assert str(4 * (1024 + 64) * 1024) in line or f"{4 * (1024 + 64)} KiB" in line


def test_port_in_use(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = run_once("relay", *UPSTREAM, "--listen", f"127.0.0.1:{port}", cwd=tmp_path)
    assert result.returncode != 0
    assert str(port) in result.stderr and "in use" in result.stderr


def test_spool_that_cannot_be_written(tmp_path):
    place = "/proc/mcpd" if os.getuid() == 0 else str(tmp_path / "locked")
    if os.getuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
    result = run_once("relay", *UPSTREAM, "--listen", f"127.0.0.1:{free_port()}", "--spool-dir",
                      place, cwd=tmp_path)
    assert result.returncode != 0 and place in result.stderr, result.stderr


def test_second_relay_on_the_same_spool(site):
    """It stops at the lock, says so, and harms nobody."""
    first = site.relay(upstream="http://127.0.0.1:9")
    result = run_once("relay", *UPSTREAM, "--listen", f"127.0.0.1:{free_port()}", "--spool-dir",
                      first.options["spool_dir"], cwd=site.folder)
    assert result.returncode != 0
    assert "spool" in result.stderr and ("lock" in result.stderr or "in use" in result.stderr)
    assert first.readyz()[0] == 200


def test_second_daemon_on_the_same_file(site):
    first = site.daemon()
    result = run_once("daemon", "--listen", f"127.0.0.1:{free_port()}", "--data",
                      first.options["data"], cwd=site.folder)
    assert result.returncode != 0 and first.options["data"] in result.stderr, result.stderr


def test_listening_for_all_without_a_key(tmp_path):
    """Beyond loopback a sender must show a key, unless the operator says otherwise."""
    line = refused("relay", *UPSTREAM, "--listen", f"0.0.0.0:{free_port()}", cwd=tmp_path)
    assert "--ingest-key" in line and "--allow-anonymous" in line


def test_keys_do_not_stay_on_the_command_line(site):
    process = site.relay(upstream="http://127.0.0.1:9", ingest_key="very-secret-ingest-key",
                         upstream_key="very-secret-upstream-key")
    with open(f"/proc/{process.pid}/cmdline", "rb") as line:
        assert b"very-secret" not in line.read()
    own_lines = [line for line in process.log().splitlines() if not line.startswith("--- start")]
    assert not any("very-secret" in line for line in own_lines)
