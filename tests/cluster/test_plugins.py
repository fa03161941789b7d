#!/usr/bin/env python3
"""Algorithms from plug-ins: they run under the launcher, are listed, and must be equal on all
ranks."""

import os
import subprocess
import unittest
from pathlib import Path

from cluster import BUILD, TUTTI, ClusterTest, environment

SOURCE = Path(os.environ["TUTTI_SOURCE_DIR"])
PLUGIN = str(BUILD / "examples" / "plugin" / "allgather_bothways.so")
CASES = str(BUILD / "tests" / "comm" / "plugin_cases.so")
PLAN = str(SOURCE / "examples" / "plugin" / "allgather_sockets4.json")


def perf(*args, **env):
    return subprocess.run([TUTTI, "perf", *map(str, args)], env=environment(**env),
                          capture_output=True, text=True, timeout=60,
                          check=False)


class Plugins(ClusterTest):
    def test_shared_object_and_plan_gather_correctly(self):
        for algo, ranks in (("bothways", 2), ("bothways", 3), ("sockets4", 4)):
            done = perf("-n", ranks, "--check", "--algo", algo, "--min", "12", "--max", "768K",
                        "--factor", 64, "allgather",
                        TUTTI_ALGORITHMS=f"{PLUGIN},{PLAN}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(algo, done.stdout)

    def test_plan_for_other_ranks_is_unused(self):
        done = perf("-n", 3, "--algo", "sockets4", "--max", "1K", "allgather",
                    TUTTI_ALGORITHMS=PLAN)
        self.assertIn("sockets4 does not support this call", done.stdout)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"nothing was measured: sockets4 supports none of these "
                                      r"calls \(it needs 4 ranks")

    def test_invalid_plug_in_is_reported_once(self):
        for ranks, case in ((2, "forgets its own"), (4, "forgets its own"), (2, "short")):
            done = perf("-n", ranks, "--algo", "star", "--min", "8", "--max", "1K", "broadcast",
                        TUTTI_ALGORITHMS=CASES, TUTTI_TEST_PLUGIN=case)
            self.assertEqual(done.returncode, 1, done.stderr)
            # perf asks first how much memory the largest call needs
            self.assertRegex(done.stderr, '"broadcast_star" is invalid for broadcast of '
                                          r'[0-9]+ bytes')
            self.assertEqual(done.stderr.count(" is invalid for "), 1, done.stderr)
            # for each size, in place and out of place
            self.assertEqual(done.stdout.count("does not support this call"), 8)

    def test_plug_ins_are_listed_with_requirements(self):
        done = subprocess.run([TUTTI, "info", "--algos", "allgather"],
                              env=environment(TUTTI_ALGORITHMS=f"{PLUGIN},{PLAN}"),
                              capture_output=True, text=True, timeout=60, check=True)
        self.assertIn("allgather_bothways", done.stdout)
        self.assertRegex(done.stdout, r"allgather_sockets4[^\n]*\n +needs 4 ranks")

    def test_load_failure_prevents_the_start(self):
        for what, said in (("/nowhere.so", "/nowhere.so"), ("/nowhere.json", "/nowhere.json"),
                           ("mine.so", "is not a path"),
                           (f"{PLUGIN},{PLUGIN}", "duplicate name")):
            done = self.run_tutti("-n", 2, "--", BUILD / "examples" / "hello",
                                  env=environment(TUTTI_ALGORITHMS=what))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)

    def test_ranks_with_other_algorithms_are_named(self):
        program = (f'[ "$TUTTI_LOCAL_RANK" = 2 ] || export TUTTI_ALGORITHMS={PLUGIN}; exec '
                   f'{BUILD / "examples" / "hello"}')
        done = self.run_tutti("-n", 3, "--", "sh", "-c", program)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr,
                         r"the settings of rank 2 differ from those of rank 0 \(1 of 3 ranks "
                         r"differs\): rank 0 has TUTTI_ALGORITHMS=allgather_bothways "
                         r"\([0-9a-f]{16}\); rank 2 has none")


if __name__ == "__main__":
    unittest.main()
