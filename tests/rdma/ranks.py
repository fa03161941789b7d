#!/usr/bin/env python3
"""All-reduce over the verbs transport on emulated RDMA devices, with 2 to 64 ranks."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
TIMEOUT_S = 200


class Ranks(unittest.TestCase):
    def test_all_results_are_exact(self):
        for n in 2, 4, 8, 64:
            with self.subTest(ranks=n):
                done = subprocess.run([TUTTI, "run", "-n", str(n), TUTTI, "perf", "allreduce", "--wire", "verbs", "--min", "8", "--max", "64K",
                                       "--factor", "32", "--iters", "2", "--warmup", "1", "--check"],
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(f"{n} ranks, transport verbs", done.stdout)
                self.assertIn("Out of bounds values : 0 OK", done.stdout)


if __name__ == "__main__":
    sys.exit(unittest.main())
