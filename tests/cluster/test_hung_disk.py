#!/usr/bin/env python3
"""Trace dumps on a file system that does not respond (tests/support/hung_disk.py): a process that
writes to it cannot be ended, not even by SIGKILL. Failed calls, tutti_trace_dump and the end of
each rank must not wait for it, as their output shows, and the job must end."""

import sys
import tempfile
import unittest
from pathlib import Path

from cluster import BUILD, ClusterTest, environment

HUNG_DISK = str(Path(__file__).resolve().parent.parent / "support" / "hung_disk.py")
PROGRAMS = BUILD / "tests" / "cluster"
SKIPPED = 77


class HungDisk(ClusterTest):
    def job(self, *program, **env):
        with tempfile.TemporaryDirectory(prefix="tutti-hung.") as folder:
            done = self.run_tutti("-n", 2, "--survive", *program,
                                  env=environment(TUTTI_TRACE_DIR=f"{folder}/traces", **env),
                                  inside=(sys.executable, HUNG_DISK, folder))
            left = list(Path(folder).iterdir())
        if done.returncode == SKIPPED:
            self.skipTest(done.stdout)
        self.assertEqual(left, [])
        return done

    def test_ranks_end_after_a_failure(self):
        done = self.job(PROGRAMS / "prog_hang", "mismatch", 1, 2, 1, 0, 64, 60000, "/tmp",
                        EXITS="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("MISMATCH"), 2, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("is not complete after 4 s: no call waits for it"), 2,
                         done.stderr)

    def test_a_call_for_a_dump_returns(self):
        done = self.job(PROGRAMS / "prog_pace", 1, 16)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("] TIMEOUT: tutti_trace_dump: "), 2, done.stderr)
        self.assertIn("is not complete after 5 s (the disk does not respond?)", done.stderr)


if __name__ == "__main__":
    unittest.main()
