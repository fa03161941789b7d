#!/usr/bin/env python3
"""Jobs under a small RLIMIT_NOFILE: they run, or fail at once with the limit and the number needed. They never wait for a
descriptor until the deadline of five minutes."""

import os
import re
import subprocess
import unittest
from pathlib import Path

BUILD = Path(os.environ["TUTTI_BUILD_DIR"])
RANKS = 4
LIMITS = [16, 20, 22, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 36, 40, 48, 64]
PROMPT_S = 120      # far below the deadline of the job, which is 300 s


def job(limit, wires):
    script = f'ulimit -n {limit}; exec "$@"'
    return subprocess.run(["sh", "-c", script, "sh", BUILD / "tutti", "run", "-n", str(RANKS), "--", BUILD / "examples/hello"],
                          env={**os.environ, "TUTTI_WIRES": wires}, capture_output=True, text=True, timeout=PROMPT_S, check=False)


class FewDescriptors(unittest.TestCase):
    def check(self, wires):
        ran = 0
        for limit in LIMITS:
            with self.subTest(limit=limit):
                done = job(limit, wires)
                if done.returncode == 0:
                    self.assertEqual(done.stdout.count("the sum is 6"), RANKS, done.stdout)
                    ran += 1
                    continue
                found = re.search(r"RLIMIT_NOFILE is (\d+), and at least (\d+) are needed", done.stderr)
                self.assertIsNotNone(found, done.stderr)
                self.assertEqual(int(found[1]), limit)
                self.assertGreater(int(found[2]), limit)
        self.assertGreater(ran, 3)

    def test_over_any_wire_each_job_runs_or_names_the_limit_and_the_number_needed(self):
        self.check("")

    def test_over_tcp_each_job_runs_or_names_the_limit_and_the_number_needed(self):
        self.check("tcp")


if __name__ == "__main__":
    unittest.main()
