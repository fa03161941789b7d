#!/usr/bin/env python3
"""Faults of emulated RDMA devices: results remain exact, and each fault happens."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
TIMEOUT_S = 200


def perf(faults, **more):
    environment = {**os.environ, "TUTTI_EMU_RDMA_FAULTS": faults, "TUTTI_LOG": "info", **more}
    environment.pop("TUTTI_EMU_RDMA_STRICT", None)      # receivers are intentionally not ready
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


class Directory(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "fabric"

    def test_of_other_users_is_refused(self):
        self.path.mkdir(mode=0o755)
        done, text = perf("", TUTTI_EMU_RDMA_DIR=str(self.path))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"the directory {self.path} must belong to this user and have mode 0700", text)

    def test_that_is_no_directory_is_refused(self):
        self.path.write_text("")
        done, text = perf("", TUTTI_EMU_RDMA_DIR=str(self.path))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"cannot open the directory {self.path}", text)

    def test_killed_processes_leave_only_the_table(self):
        environment = {**os.environ, "TUTTI_EMU_RDMA_DIR": str(self.path)}
        job = subprocess.Popen([TUTTI, "run", "-n", "2", TUTTI, "perf", "allreduce", "--wire", "verbs", "--min", "8", "--max", "8", "--iters", "10000000"],
                               env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)
        for line in job.stdout:
            if "algorithm" in line:         # the heading: the devices are open
                break
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
        self.assertEqual([entry.name for entry in self.path.iterdir()], ["slots"])
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o700)
        done, text = perf("", TUTTI_EMU_RDMA_DIR=str(self.path))
        self.assertEqual(done.returncode, 0, text)


if __name__ == "__main__":
    sys.exit(unittest.main())
