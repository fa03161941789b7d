#!/usr/bin/env python3
"""Faults of emulated RDMA devices: results remain exact, and each fault happens."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
TIMEOUT_S = 200


def perf(faults):
    environment = {**os.environ, "TUTTI_EMU_RDMA_FAULTS": faults, "TUTTI_LOG": "info"}
    environment.pop("TUTTI_EMU_RDMA_STRICT", None)      # receivers are not ready on purpose
    done = subprocess.run([TUTTI, "run", "-n", "2", TUTTI, "perf", "allreduce", "--wire", "verbs", "--min", "8", "--max", "256K", "--factor", "32",
                           "--iters", "200", "--warmup", "1", "--check"],
                          env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return done, done.stdout + done.stderr


class Faults(unittest.TestCase):
    def check_exact(self, faults):
        done, text = perf(faults)
        self.assertEqual(done.returncode, 0, text)
        self.assertIn("Out of bounds values : 0 OK", text)
        return text

    def test_queue_pair_errors_lose_nothing(self):
        self.assertIn("is up again", self.check_exact("qp=300"))

    def test_late_completions_lose_nothing(self):
        self.check_exact("late=10:2000")

    def test_unready_receivers_lose_nothing(self):
        self.check_exact("rnr=20:3")

    def test_port_failures_lose_nothing(self):
        if "," not in os.environ["TUTTI_EMU_RDMA_INTERFACES"]:
            self.skipTest("without a second device, peers are lost while the port is down")
        self.assertIn("port 1, is down", self.check_exact("port=2000:100000"))

    def test_slow_registration_loses_nothing(self):
        self.check_exact("reg=2:20000")

    def test_all_at_once_lose_nothing(self):
        self.assertIn("is up again", self.check_exact("qp=1000,late=50:500,rnr=100:2,reg=2:20000"))

    def test_invalid_setting_is_an_error(self):
        for faults in "bogus=3", "qp", "qp=", "qp=1;", "late=5:", "qp=1,,rnr=2":
            with self.subTest(faults=faults):
                done, text = perf(faults)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("TUTTI_EMU_RDMA_FAULTS: invalid setting at", text)
                self.assertIn("cannot be opened", text)


if __name__ == "__main__":
    sys.exit(unittest.main())
