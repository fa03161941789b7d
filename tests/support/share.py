"""The share of slow and similar cases that a run tries, for scripts; for programs it is unit_share
in unit.h.

TUTTI_TEST_SHARE=N: one in N of the cases, which `make test` sets; without it, all.
TUTTI_TEST_TURN, a number, selects them."""

import os

SHARE = int(os.environ.get("TUTTI_TEST_SHARE", "1"))
TURN = int(os.environ.get("TUTTI_TEST_TURN", "0"))


def of_turn(cases):
    """The cases of this turn: one in SHARE, and at least one. SHARE turns cover all cases."""
    cases = list(cases)
    every = max(1, min(SHARE, len(cases)))
    return [case for i, case in enumerate(cases) if (i + TURN) % every == 0]
