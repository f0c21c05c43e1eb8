# SPDX-License-Identifier: MIT
"""The settings file: taken as a whole or not at all, by a daemon that goes on working; what is wrong
is named with its line; a key that was removed lets nobody in any more."""
import datetime
import itertools
import json
import os
import re
import signal
import threading
import time

import pytest

from lib import http, settings
from lib.process import ROOT, run_once
from lib.settings import key
from lib.telemetry import native_request
from lib.wait import wait_until

NUMBERS = itertools.count()
SOON = 10.0  # a change counts within a second; the machine may be busy


def send(daemon, secret, request=None):
    request = request or native_request(next(NUMBERS))
    return http.request(daemon.port, "POST", request.path, request.body,
                        {**request.all_headers(), "x-mcpd-key": secret})


def status(daemon, secret):
    return send(daemon, secret).status


def traces(daemon, secret):
    reply = http.get(daemon.port, "/v1/traces", headers={"x-mcpd-key": secret})
    return reply.status, json.loads(reply.body).get("traces") if reply.status == 200 else None


def until_status(daemon, secret, expected):
    wait_until(lambda: status(daemon, secret) == expected, SOON,
               lambda: f"{expected} for {secret}\n{daemon.log()}")


def lines(daemon, event):
    return [line for line in daemon.log().splitlines() if f" {event} " in line]


# The file as it is checked.

def test_check_says_that_a_file_is_in_order(tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[key("a")], projects={"shop": {}})
    done = run_once("check", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (f"{path}: in order, 1 key(s), 1 project(s), 0 scorer(s); "
                           f"sha256 {settings.digest(path)}\n")


def test_check_tells_which_keys_have_expired(tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[
        key("a"), key("b", name="old", expires="2020-01-01"), key("c", expires="2199-01-01")])
    done = run_once("check", path)
    assert done.returncode == 0 and "in order, 3 key(s)" in done.stdout
    assert done.stderr == f"{path}: note: keys[1].expires: old has expired\n"


@pytest.mark.parametrize("text, reason", [
    ("version: 1\nkeys:\n- {name: a, scope: in, sha256: hunter2}\n",
     "line 3: keys[0].sha256: this is not 64 hex digits, the SHA-256 of the key"),
    (f"version: 1\nkeys:\n- {{name: a, sha256: {'ab' * 32}, expires: 2027-02-31}}\n",
     "line 3: keys[0].expires: '2027-02-31' is not a date or time such as 2027-01-01 or "
     "2027-01-01T12:00:00Z"),
    ("version: 1\nmonitors: []\n", "line 2: the section 'monitors' is not known to this version"),
    ("version: 1\nkeyz: []\n", "line 2: 'keyz' is unknown; allowed are version, keys, projects, "
     "scorers, settle"),
    ("version: 1\n" + "a: &a [x, x]\n" * 2, "line 2: anchors (&), aliases (*) and tags (!) are not "
     "taken; a text that begins so needs quotes"),
    ("version: " + "[" * 100000, "line 1: more than 8 levels deep"),
    ("#" * (1024 * 1024 + 1), "is larger than 1048576 bytes"),
], ids=["secret", "date", "later section", "unknown section", "anchor", "depth", "size"])
def test_check_names_the_line_and_what_is_allowed(tmp_path, text, reason):
    path = settings.write_text(tmp_path / "mcpd.yaml", text)
    done = run_once("check", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{path}: {reason}\n"
    assert "hunter2" not in done.stderr


def test_the_documentations_example_is_in_order(tmp_path):
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(version: 1\n.*?)```", page, re.S).group(1)
    path = settings.write_text(tmp_path / "mcpd.yaml", example.replace("<64 hex digits>", "a" * 64))
    done = run_once("check", path)
    assert done.returncode == 0, done.stderr
    assert "1 key(s), 1 project(s), 1 scorer(s)" in done.stdout


def test_check_of_no_file(tmp_path):
    done = run_once("check", tmp_path / "absent")
    assert done.returncode == 2
    assert "cannot be read: No such file or directory" in done.stderr
    assert run_once("check").returncode == 2


def test_check_notes_variables_that_are_not_set_here(tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", scorers=[
        {"name": "s", "judge": {"url": "http://127.0.0.1:1/", "key_env": "JUDGE_KEY"}}])
    done = run_once("check", path)
    assert done.returncode == 0
    assert "scorers[0].judge.key_env: JUDGE_KEY is not set here" in done.stderr
    assert run_once("check", path, env={"JUDGE_KEY": "sesame"}).stderr == ""


def test_config_prints_the_files_line(tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[key("a"), key("b")])
    printed = run_once("config", env={"MCPD_CONFIG": str(path)}).stdout
    assert f"\nsettings        {path}; 2 key(s), 0 project(s), 0 scorer(s); sha256 " in printed
    assert "\nsettings        off, no --config\n" in run_once("config").stdout
    settings.write_text(path, "version: 3\n")
    printed = run_once("config", env={"MCPD_CONFIG": str(path)}).stdout
    assert f"\nsettings        {path}; refused: line 1: version: '3' is not" in printed


def test_a_new_key_comes_with_its_line(tmp_path):
    secret, line = run_once("key", "new", "--sha256", "--project", "shop").stdout.splitlines()
    path = settings.write_text(tmp_path / "mcpd.yaml", "version: 1\nkeys:\n" + line + "\n")
    assert run_once("check", path).returncode == 0
    assert key(secret)["sha256"] in line and secret not in line


# The daemon starts with it or says why not.

@pytest.mark.parametrize("sections, env, reason", [
    ({"keys": [{"name": "a"}]}, {}, "line 4: keys[0]: 'scope' is missing"),
    ({"scorers": [{"name": "s", "judge": {"url": "http://j/", "key_env": "JUDGE_KEY"}}]}, {},
     "scorers[0].judge.key_env: the variable JUDGE_KEY is not set"),
], ids=["fields", "variable"])
def test_a_daemon_does_not_start_with_a_file_that_is_wrong(site, tmp_path, sections, env, reason):
    path = settings.write(tmp_path / "mcpd.yaml", **sections)
    daemon = site.daemon(config=path, env=env, start=False).spawn()
    assert daemon.wait() == 1
    assert "start.failed" in daemon.log() and reason in daemon.log()


def test_beyond_loopback_the_file_must_have_keys(site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", projects={})
    daemon = site.daemon(config=path, start=False)
    daemon.options["listen"] = f"0.0.0.0:{daemon.port}"
    assert daemon.spawn().wait() == 1
    assert "nor a section 'keys'" in daemon.log()
    settings.write(path, keys=[key("edge")])
    daemon.start()
    assert (status(daemon, "edge"), status(daemon, "other")) == (200, 401)
    # The door is never opened by a change of the file.
    settings.write(path, projects={})
    wait_until(lambda: lines(daemon, "settings.refused"), SOON, daemon.log)
    assert (status(daemon, "edge"), status(daemon, "other")) == (200, 401)


# Keys.

def test_keys_of_the_file_have_project_and_scope(site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[
        key("shop-in", "in", "shop"), key("shop-rd", "rd", "shop"), key("lab-ad", "ad", "lab")])
    daemon = site.daemon(config=path, ingest_key="shop/rd=of-the-options")
    assert send(daemon, "shop-in").status == 200
    assert traces(daemon, "shop-in")[0] == 403
    assert send(daemon, "shop-rd").status == 403
    assert len(traces(daemon, "shop-rd")[1]) == len(traces(daemon, "of-the-options")[1]) > 0
    assert traces(daemon, "lab-ad") == (200, [])
    assert status(daemon, "nobody") == 401
    assert "shop-in" not in daemon.log()


def test_a_mistyped_key_is_told_only_where_keys_are_asked_for(site, tmp_path):
    good = run_once("key", "new").stdout.strip()
    mistyped = good[:-1] + ("A" if good[-1] != "A" else "B")
    path = settings.write(tmp_path / "mcpd.yaml")
    daemon = site.daemon(config=path)
    assert status(daemon, mistyped) == 200
    settings.write(path, keys=[key("edge")])
    until_status(daemon, mistyped, 401)
    assert b"key_mistyped" in send(daemon, mistyped).body
    assert b"unauthorized" in send(daemon, "other").body


def test_an_empty_section_of_keys_lets_nobody_in(site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[])
    daemon = site.daemon(config=path)
    assert (status(daemon, "any"), status(daemon, "")) == (401, 401)
    settings.write(path)
    until_status(daemon, "any", 200)


def test_a_key_counts_until_it_expires(site, tmp_path):
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=4)
    path = settings.write(tmp_path / "mcpd.yaml", keys=[
        key("old", expires="2020-01-01"), key("now", expires=until.strftime("%Y-%m-%dT%H:%M:%SZ")),
        key("long", expires="2199-01-01")])
    daemon = site.daemon(config=path)
    assert status(daemon, "old") == 401
    wait_until(lambda: status(daemon, "now") == 401, 30, "the key has expired")
    assert time.time() >= int(until.timestamp())
    assert status(daemon, "long") == 200


def rename_into_place(path, **sections):
    settings.write(path, **sections)


def write_over(path, **sections):
    path.write_text(json.dumps({"version": 1, **sections}))


def swap_links(path, **sections):
    """As Kubernetes does it: FILE -> ..data/FILE, ..data -> a folder of its own for each version."""
    folder = path.parent / f"..{time.time_ns()}"
    folder.mkdir()
    write_over(folder / path.name, **sections)
    os.symlink(folder.name, path.parent / "..data_tmp")
    os.replace(path.parent / "..data_tmp", path.parent / "..data")
    if not path.is_symlink():
        path.unlink(missing_ok=True)
        os.symlink(f"..data/{path.name}", path)


@pytest.mark.parametrize("change", [rename_into_place, write_over, swap_links])
def test_a_removed_key_is_refused_without_a_restart(site, tmp_path, change):
    path = tmp_path / "mcpd.yaml"
    change(path, keys=[key("stays"), key("goes")])
    daemon = site.daemon(config=path)
    assert (status(daemon, "stays"), status(daemon, "goes")) == (200, 200)
    change(path, keys=[key("stays"), key("comes")])
    changed_at = time.monotonic()
    until_status(daemon, "goes", 401)
    print(f"refused after {time.monotonic() - changed_at:.2f} s")
    assert (status(daemon, "stays"), status(daemon, "comes")) == (200, 200)


def test_a_request_under_way_keeps_the_key_it_came_with(site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[key("edge", "in", "shop")])
    daemon = site.daemon(config=path)
    request = native_request(next(NUMBERS))
    data = http.build("POST", request.path, request.body,
                      {**request.all_headers(), "x-mcpd-key": "edge", "Expect": "100-continue"})
    head, body = data[:-len(request.body)], data[-len(request.body):]
    with http.Connection(daemon.port) as connection:
        connection.send(head)
        assert connection.reply().status == 100  # so the key was looked at
        settings.write(path, keys=[key("reader", "rd", "shop")])
        until_status(daemon, "edge", 401)
        connection.send(body)
        assert connection.reply().status == 200
    sent = json.loads(request.body)["events"][0]["trace_id"]
    assert sent in {one["trace_id"] for one in traces(daemon, "reader")[1]}


def test_senders_notice_nothing_of_reloads(site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[key("edge")])
    daemon = site.daemon(config=path)
    answers, is_over = [], threading.Event()

    def load():
        while not is_over.is_set():
            answers.append(status(daemon, "edge"))
    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(5):
        settings.write(path, keys=[key("edge"), key(f"other-{number}")])
        until_status(daemon, f"other-{number}", 200)
    is_over.set()
    for thread in threads:
        thread.join()
    assert len(answers) > 20 and set(answers) == {200}


# A file that is wrong changes nothing.

def test_a_wrong_file_keeps_the_old_settings_and_is_told_once(site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[key("edge")])
    daemon = site.daemon(config=path)
    assert daemon.metric("mcpd_config_last_reload_success") == 1
    loaded_at = daemon.metric("mcpd_config_last_reload_success_timestamp_seconds")
    assert abs(loaded_at - time.time()) < 60
    settings.write_text(path, "version: 1\nkeys:\n- {name: other}\n")
    wait_until(lambda: lines(daemon, "settings.refused"), SOON, daemon.log)
    assert "line 3: keys[0]: 'scope' is missing" in lines(daemon, "settings.refused")[0]
    assert daemon.metric("mcpd_config_last_reload_success") == 0
    assert status(daemon, "edge") == 200
    # Told again only for another change; a second one proves that the daemon has looked since.
    path.unlink()
    wait_until(lambda: len(lines(daemon, "settings.refused")) == 2, SOON, daemon.log)
    assert "No such file" in lines(daemon, "settings.refused")[1]
    assert status(daemon, "edge") == 200
    settings.write(path, keys=[key("other")])
    until_status(daemon, "other", 200)
    assert status(daemon, "edge") == 401
    assert daemon.metric("mcpd_config_last_reload_success") == 1
    assert len(lines(daemon, "settings.refused")) == 2


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_refused_and_holds_nobody_up(site, tmp_path, put):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[key("edge")])
    daemon = site.daemon(config=path)
    path.unlink()
    put(path)
    wait_until(lambda: any("it is no plain file" in line for line in lines(daemon, "settings.refused")),
               SOON, daemon.log)
    assert status(daemon, "edge") == 200
    assert daemon.stop() == 0


def test_sighup_reads_the_file_again(site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[key("edge")])
    daemon = site.daemon(config=path)
    assert len(lines(daemon, "settings.loaded")) == 1
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: len(lines(daemon, "settings.loaded")) == 2, SOON, daemon.log)
    settings.write_text(path, "version: 9")
    wait_until(lambda: lines(daemon, "settings.refused"), SOON, daemon.log)
    told = len(lines(daemon, "settings.refused"))
    daemon.signal(signal.SIGHUP)
    wait_until(lambda: len(lines(daemon, "settings.refused")) > told, SOON, daemon.log)
    assert status(daemon, "edge") == 200
    assert daemon.stop() == 0


def test_sighup_without_a_file_is_harmless(site):
    daemon = site.daemon()
    daemon.signal(signal.SIGHUP)
    assert status(daemon, "any") == 200
    assert daemon.metric("mcpd_config_last_reload_success") == 1
    assert daemon.stop() == 0


def test_sighup_to_a_relay_is_ignored(site):
    relay = site.relay(upstream="http://127.0.0.1:1")
    relay.signal(signal.SIGHUP)
    request = native_request(next(NUMBERS))
    assert http.post(relay.port, request.path, request.body).status == 202
    assert relay.stop() == 0


def test_replicas_tell_the_hash_of_their_file(site, tmp_path):
    path = settings.write(tmp_path / "mcpd.yaml", keys=[key("ops", "ad")])
    daemon = site.daemon(config=path, pass_interval="1s")

    def told():
        reply = http.get(daemon.port, "/v1/replicas", headers={"x-mcpd-key": "ops"})
        return [one.get("config_hash") for one in json.loads(reply.body)["replicas"]]
    wait_until(lambda: told() == [settings.digest(path)], SOON, daemon.log)
    settings.write(path, keys=[key("ops", "ad"), key("more")])
    wait_until(lambda: told() == [settings.digest(path)], SOON, daemon.log)
