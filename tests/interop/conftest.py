# SPDX-License-Identifier: MIT
"""Fixtures of the tests with foreign programs. What cannot be built here is skipped, and the end of
the run says so in words nobody overlooks."""
import pytest

import gobuild

_missing = {}


def _program(name):
    try:
        return gobuild.program(name)
    except gobuild.NotHere as reason:
        _missing[name] = str(reason)
        pytest.skip(f"{name}: {reason}")


@pytest.fixture(scope="session")
def sdk_sender():
    """The path of the program that sends with the OpenTelemetry SDK."""
    return _program("sdk-sender")


@pytest.fixture(scope="session")
def collector_program():
    """The path of the OpenTelemetry Collector."""
    return _program("collector")


def pytest_terminal_summary(terminalreporter):
    for name, reason in _missing.items():
        terminalreporter.section("INTEROP NOT TESTED", sep="!", red=True)
        terminalreporter.line(f"!!! {name} was not built, its tests did not run: {reason}")
