# SPDX-License-Identifier: MIT
"""SIGTERM under load, many times: nobody who looks at /readyz sees a connection break, and nobody
loses what was answered 2xx."""
import os

from lib.stops import stop_again_and_again

ROUNDS = int(os.environ.get("MCPD_STOPS", "50"))


def test_stop_under_load_again_and_again(site):
    stop_again_and_again(site, ROUNDS)
