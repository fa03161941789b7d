#!/usr/bin/env python3
"""The same algorithm gives bitwise identical results in all runs, on every rank, and over every
transport, although sums round."""

import re
import unittest

from cluster import CALLS, SANITIZED, ClusterTest
from share import of_turn

LINE = re.compile(r"^rank (\d+): (.*): ([0-9a-f]{16})$")


class SameBits(ClusterTest):
    def hashes(self, n, *options, what="hashes"):
        """Runs a job; returns {case: hash} after checking that its ranks agree."""
        done = self.run_tutti("-n", n, "--output", "plain", "--timeout", 60, *options, CALLS, what,
                              timeout=150)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found, lines = {}, 0
        for line in done.stdout.splitlines():
            _, case, value = LINE.match(line).groups()
            self.assertEqual(found.setdefault(case, value), value, f"ranks differ: {line}")
            lines += 1
        self.assertEqual(lines, n * len(found))
        return found

    def test_same_bits_in_runs_and_transports(self):
        for n in (4,) if SANITIZED else of_turn((4, 2, 5)):
            with self.subTest(n=n):
                first = self.hashes(n, "--wires", "shm")
                self.assertGreater(len(first), 20)
                for options in (("--wires", "shm"), ("--wires", "tcp"),
                                ("--wires", "tcp", "-x", "TUTTI_LANES=3")):
                    self.assertEqual(self.hashes(n, *options), first, options)

    def test_same_bits_of_quantized_sums(self):
        for n in (4,) if SANITIZED else of_turn((3, 5)):
            with self.subTest(n=n):
                first = self.hashes(n, "--wires", "shm", what="quantized")
                self.assertGreater(len(first), 10)
                for options in (("--wires", "shm"), ("--wires", "tcp"),
                                ("--wires", "tcp", "-x", "TUTTI_LANES=3")):
                    self.assertEqual(self.hashes(n, *options, what="quantized"), first, options)

    def test_order_of_additions_matters_here(self):
        """Otherwise the tests above could not fail."""
        for what, types in (("hashes", ("f32", "f64")), ("quantized", ("minmax8", "e4m3"))):
            found = self.hashes(5, "--wires", "shm", what=what)
            for dtype in types:
                sums = {value for case, value in found.items() if case.endswith(f"60013 {dtype}")}
                self.assertGreater(len(sums), 1, dtype)


if __name__ == "__main__":
    unittest.main(verbosity=2)
