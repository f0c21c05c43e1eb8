# SPDX-License-Identifier: MIT
"""`make run` starts what the README shows, its curl lines work as printed, and nothing is left."""
import os
import re
import signal
import subprocess
import sys

from lib.process import BUILD, ROOT, clean_environment
from lib.wait import wait_until


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def test_run_stays_until_it_is_told_to_stop(tmp_path):
    output = tmp_path / "output"
    environment = clean_environment({"MCPD_BUILD": str(BUILD), "TMPDIR": str(tmp_path)})
    with open(output, "wb") as file, subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "demo.py"), "--stay"], env=environment,
            stdin=subprocess.DEVNULL, stdout=file, stderr=file) as demo:
        try:
            wait_until(lambda: "Ctrl-C" in output.read_text() or demo.poll() is not None, 30,
                       output.read_text)
            running = children_of(demo.pid)
            assert len(running) == 3, output.read_text()
            lines = re.search(r"(curl .*?/v1/traces)\n", output.read_text(), re.S)[1]
            send, read = lines.rsplit("\n", 1)

            def say(command):
                return subprocess.run(["sh", "-c", command], capture_output=True, text=True,
                                      timeout=20, check=True).stdout
            assert say(send) == '{"accepted":0,"duplicate":0,"rejected":0}'
            wait_until(lambda: '"hello"' in say(read), 10, "the span is read back at A")
        finally:
            demo.send_signal(signal.SIGINT)
            status = demo.wait(60)
    assert status == 0, output.read_text()
    assert not [pid for pid in running if os.path.exists(f"/proc/{pid}")], "a process is left"
    assert not list(tmp_path.glob("mcpd-demo-*")), "its folder is left"
