# SPDX-License-Identifier: MIT
"""The OpenTelemetry SDK's program of tests/interop, for the tests here that send with it."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "interop"))

from interop.conftest import pytest_terminal_summary, sdk_sender  # noqa: E402,F401
