"""Runs a script of unittest cases under a sanitizer, where all of them take long: one case in IN, another with each turn.

    turns.py IN SCRIPT

TUTTI_TEST_TURN, a number (none: 0), says which: as many turns are all cases, as for programs (unit_has_turn in unit.h)."""

import os
import runpy
import sys
import unittest
from pathlib import Path
from zlib import crc32

EVERY = int(sys.argv[1])
TURN = int(os.environ.get("TUTTI_TEST_TURN", "0"))
all_names = unittest.defaultTestLoader.getTestCaseNames


def names_of_turn(case):
    first = crc32(case.__name__.encode()) + TURN    # so that not all classes of one case have the same turn
    return [name for i, name in enumerate(all_names(case), first) if i % EVERY == 0]


unittest.defaultTestLoader.getTestCaseNames = names_of_turn
sys.argv = sys.argv[2:]
sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as done:
    if done.code == 5:      # since Python 3.12: there were none
        print(f"none of the cases of {sys.argv[0]} has its turn")
        sys.exit(77)
    raise
