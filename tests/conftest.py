# SPDX-License-Identifier: MIT
"""Fixtures of all system tests: `site` starts real processes in a folder of the test's own; all of
them are ended afterwards, and their logs are shown when the test failed. The folders of failed tests
stay; the others together would take a gigabyte of /tmp."""
import shutil

import pytest

from lib.process import Site
from lib.upstream import Upstream


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        item.user_properties.append(("failed", report.when))
    funcargs = getattr(item, "funcargs", {})
    site = funcargs.get("site") or funcargs.get("any_site")
    if report.when == "call" and report.failed and site is not None:
        report.sections.append(("processes", site.logs()[-20000:]))


@pytest.fixture
def tmp_path(tmp_path, request):
    yield tmp_path
    if not request.node.user_properties:
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def site(tmp_path):
    with Site(tmp_path) as the_site:
        yield the_site


@pytest.fixture(params=["sqlite", "postgres"])
def any_site(request, tmp_path):
    """A site whose daemons keep what they take in a file, and again one with a database for each:
    for what is promised of every store."""
    is_postgres = request.param == "postgres"
    server = request.getfixturevalue("postgres_server") if is_postgres else None
    with Site(tmp_path, server) as the_site:
        yield the_site


@pytest.fixture
def a():
    """The first upstream of a relay; answers as the test scripts it."""
    with Upstream() as upstream:
        yield upstream


@pytest.fixture
def b():
    """The second."""
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(scope="session")
def postgres_server():
    """One server for all tests of the run; most tests want `postgres`, a database of their own, or
    `any_site`."""
    from lib import postgres  # pylint: disable=import-outside-toplevel
    if not postgres.is_available():
        pytest.skip("THERE IS NO POSTGRES SERVER: `make setup` fetches one")
    with postgres.PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(postgres_server):
    """A fresh database: daemon = site.daemon(store=postgres.url)."""
    if not postgres_server.is_alive():
        postgres_server.start()
    database = postgres_server.new_database()
    yield database
    database.drop()
