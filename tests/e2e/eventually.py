"""Waiting for what a server does in its own time."""

import time

DEADLINE_S = 60


def eventually(condition):
    """Asks until `condition()` is true; fails after DEADLINE_S. For states that a server reaches by itself, such as freeing
    what a vanished client held: there is no event to wait for from outside."""
    end = time.monotonic() + DEADLINE_S
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, f"still not so after {DEADLINE_S} s: {condition}"
