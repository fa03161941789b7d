"""Runs a script with one in IN of its unittest cases, other ones in each turn.

    turns.py IN SCRIPT          under a sanitizer, which is slow
    turns.py share SCRIPT       otherwise: IN is 2 with TUTTI_TEST_SHARE=2 or more, as in `make
                                test`, and 1 without it, as in `make test-long`

TUTTI_TEST_TURN, a number (default: 0), selects the cases. IN turns cover all cases, as for programs
(unit_has_turn in unit.h). With "share", a class with one case runs in each turn."""

import os
import runpy
import sys
import unittest
from pathlib import Path
from zlib import crc32

BY_SHARE = sys.argv[1] == "share"
EVERY = min(2, int(os.environ.get("TUTTI_TEST_SHARE", "1"))) if BY_SHARE else int(sys.argv[1])
TURN = int(os.environ.get("TUTTI_TEST_TURN", "0"))
all_names = unittest.defaultTestLoader.getTestCaseNames
had = left = 0      # number of cases: in all turns, and in this one


def names_of_turn(case):
    global had, left
    # so that different classes of one case get different turns
    first = crc32(case.__name__.encode()) + TURN
    names = all_names(case)
    if BY_SHARE and len(names) == 1:
        first = 0
    of_turn = [name for i, name in enumerate(names, first) if i % EVERY == 0]
    had += len(names)
    left += len(of_turn)
    return of_turn


unittest.defaultTestLoader.getTestCaseNames = names_of_turn
sys.argv = sys.argv[2:]
sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    if had and not left:
        print(f"none of the {had} cases of {sys.argv[0]} has its turn")
        sys.exit(77)
