# SPDX-License-Identifier: MIT
"""The shared store, a real Postgres: what the daemons of several regions send it is there once,
whatever happens to the server, the way to it, or one of them."""
import pytest

from lib import http
from lib.process import run_once, wait_gone
from lib.wait import wait_until


# Starting.

def test_an_empty_database_gets_its_tables_and_a_restart_finds_them(site, postgres):
    daemon = site.daemon(store=postgres.url).wait_ready()
    assert postgres.query("select program, version > 0 from schema_version") == [("mcpd", True)]
    daemon.stop()
    daemon.start().wait_ready()


def test_two_daemons_on_an_empty_database_both_come_up(site, postgres):
    daemons = [site.daemon(store=postgres.url, start=False).spawn() for _ in range(4)]
    for daemon in daemons:
        daemon.wait_ready()
    assert postgres.query("select count(*) from schema_version") == [(1,)]
    assert sum("store.migrated" in daemon.log() for daemon in daemons) == 1
