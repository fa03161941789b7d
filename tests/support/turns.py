"""Runs a script under a sanitizer, which is slow: one in IN of its unittest cases, other ones in
each turn.

    turns.py IN SCRIPT

TUTTI_TEST_TURN, a number (default: 0), selects the cases. IN turns cover all cases, as for programs
(unit_has_turn in unit.h)."""

import os
import runpy
import sys
import unittest
from pathlib import Path
from zlib import crc32

EVERY = int(sys.argv[1])
TURN = int(os.environ.get("TUTTI_TEST_TURN", "0"))
all_names = unittest.defaultTestLoader.getTestCaseNames
had = left = 0      # number of cases: in all turns, and in this one


def names_of_turn(case):
    global had, left
    # so that different classes of one case get different turns
    first = crc32(case.__name__.encode()) + TURN
    names = all_names(case)
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
