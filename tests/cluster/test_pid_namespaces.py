#!/usr/bin/env python3
"""Ranks of one host in different pid namespaces, like containers that share a network. They share
memory, but a rank can read another's memory only if that process is visible to it:

      [outer]  rank 0 ---- reads ----> rank 1  [inner]        rank 1 does not see rank 0's process
      [one]    rank 0                  rank 1  [another]      neither sees the other's process

Data that cannot be read directly goes through slots. Skipped if namespaces are not permitted, or if
no process may read another."""

import re
import subprocess
import unittest

from cluster import CALLS, ClusterTest, environment

ANOTHER = "unshare --pid --fork --kill-child"
UNREADABLE = re.compile(r"tutti\[(\d)\] info: shm: cannot read the memory of rank (\d)")


class PidNamespaces(ClusterTest):
    @classmethod
    def setUpClass(cls):
        made = subprocess.run([*ANOTHER.split(), "true"], capture_output=True, text=True,
                              check=False)
        if made.returncode:
            raise unittest.SkipTest(f"pid namespaces cannot be made here: {made.stderr.strip()}")

    def unreadable(self, of_rank_0, of_rank_1):
        """Runs and checks every collective, over shared memory with single copies where possible;
        the ranks are started by these commands. Returns the pairs (reader, read) without single
        copies."""
        env = environment(TUTTI_CMA="2", TUTTI_LOG="info")
        done = self.run_tutti("-n", 2, "-o", "plain", "--wires", "shm", "--timeout", 60, "sh", "-c",
                              f'if [ $TUTTI_RANK = 0 ]; then exec {of_rank_0} "$0"; else exec '
                              f'{of_rank_1} "$0"; fi', CALLS,
                              env=env, timeout=150)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2 is right", done.stdout)
        return {(int(reader), int(read)) for reader, read in UNREADABLE.findall(done.stderr)}

    def setUp(self):
        if self.unreadable("", ""):
            self.skipTest("processes may not read each other's memory here")

    def test_mutually_invisible_ranks_copy_twice(self):
        self.assertEqual(self.unreadable(ANOTHER, ANOTHER), {(0, 1), (1, 0)})

    def test_inner_rank_is_only_readable(self):
        self.assertEqual(self.unreadable("", ANOTHER), {(1, 0)})


if __name__ == "__main__":
    unittest.main(verbosity=2)
