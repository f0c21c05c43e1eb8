# SPDX-License-Identifier: MIT
"""Waiting for a condition with a deadline; no test sleeps for a fixed time instead."""
import time


def wait_until(condition, seconds=10.0, what="the condition", every=0.02):
    """Calls condition() until it returns something true, which is returned.
    AssertionError with `what` (text, or a function that makes it) when the time is up."""
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() >= end:
            text = what() if callable(what) else what
            raise AssertionError(f"not within {seconds} s: {text}")
        time.sleep(every)
