#!/usr/bin/env python3
"""Invalid command lines: all tools report them in the same way, and exit with status 2."""

import os
import re
import subprocess
import unittest
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"


def tutti(*arguments):
    return subprocess.run([TUTTI, *arguments], capture_output=True, text=True, check=False,
                          timeout=60)


def commands():
    """All commands of `tutti --help`, with their verbs."""
    names = re.findall(r"^  (\w+) ", tutti("--help").stdout, re.MULTILINE)
    verbs = re.findall(r"^  (\w+) ", tutti("plan", "--help").stdout, re.MULTILINE)
    return ([[name] for name in names] + [["plan", verb] for verb in verbs]
            + [["topo", "place"], ["ring", "order"]])


class Usage(unittest.TestCase):
    def test_unknown_option_gives_status_2(self):
        self.assertGreater(len(commands()), 8)
        for command in commands():
            with self.subTest(command=command):
                done = tutti(*command, "--nosuchoption")
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertNotEqual(done.stderr, "")

    def test_help_is_no_mistake(self):
        for command in commands():
            with self.subTest(command=command):
                done = tutti(*command, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_invalid_value_gives_status_2(self):
        for command in (("sim", "allgather", "--ranks", "x"), ("perf", "--ranks", "x"),
                        ("plan", "show", "allgather", "ring", "--ranks", "x"),
                        ("topo", "--ranks", "x"), ("run", "-n", "x"), ("tune", "--ranks", "x")):
            with self.subTest(command=command):
                done = tutti(*command)
                self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_sizes_have_units_up_to_terabytes(self):
        done = tutti("perf", "allreduce", "--ranks", "2", "--min", "1T", "--max", "1T")
        self.assertNotEqual(done.returncode, 2)
        self.assertIn("each rank 2199023255552 for buffers", done.stderr)
        for size in ("1025T", "1P", "1t"):
            with self.subTest(size=size):
                done = tutti("perf", "allreduce", "--ranks", "2", "--min", size)
                self.assertEqual(done.returncode, 2)
                self.assertIn(f"--min {size}: must be a size like 4096, 4K, 16M or 1G, up to 1024T",
                              done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
