#!/usr/bin/env python3
"""Jobs under a small RLIMIT_NOFILE: they run, or fail at once with the limit and the number needed.
They never wait for a descriptor until the deadline of five minutes. Lanes leave descriptors for
control connections."""

import os
import re
import subprocess
import unittest
from pathlib import Path

BUILD = Path(os.environ["TUTTI_BUILD_DIR"])
RANKS = 4
LIMITS = [16, 20, 22, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 36, 40, 48, 64]
LANES = 16
CONTROL = 3         # connections of a rank's control overlay
SPARE = 24          # descriptors that lanes leave free, of the 32 in src/wire/tcp/tcp_offer.c
PROMPT_S = 120      # far below the deadline of the job, which is 300 s


def job(limit, wires):
    script = f'ulimit -n {limit}; exec "$@"'
    return subprocess.run(["sh", "-c", script, "sh", BUILD / "tutti", "run", "-n", str(RANKS), "--",
                           BUILD / "examples/hello"],
                          env={**os.environ, "TUTTI_WIRES": wires}, capture_output=True, text=True,
                          timeout=PROMPT_S, check=False)


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
                found = re.search(r"RLIMIT_NOFILE is (\d+), at least (\d+) needed",
                                  done.stderr)
                self.assertIsNotNone(found, done.stderr)
                self.assertEqual(int(found[1]), limit)
                self.assertGreater(int(found[2]), limit)
        self.assertGreater(ran, 2)

    def test_any_transport_runs_or_names_limit(self):
        self.check("")

    def test_tcp_runs_or_names_limit(self):
        self.check("tcp")


class LimitOfRanks(unittest.TestCase):
    """More ranks, and a limit that does not apply to the launcher."""

    RANKS = 12
    LIMITS = [19, 20, 21, 22, 23, 24, 26]

    def job(self, limit, wires, *command):
        script = f'ulimit -n {limit}; exec "$@"'
        return subprocess.run([BUILD / "tutti", "run", "-n", str(self.RANKS), "--", "sh", "-c",
                               script, "sh", *command],
                              env={**os.environ, "TUTTI_WIRES": wires}, capture_output=True,
                              text=True, timeout=PROMPT_S, check=False)

    def test_starved_start_up_names_limit(self):
        failed = 0
        for limit in self.LIMITS:
            with self.subTest(limit=limit):
                done = self.job(limit, "tcp", BUILD / "examples/hello")
                if done.returncode == 0:
                    continue
                failed += 1
                self.assertIn(f"RLIMIT_NOFILE is {limit}", done.stderr)
                self.assertNotIn("before the deadline", done.stderr)
        self.assertGreater(failed, 2)

    def test_tcp_replaces_shm_that_needs_more(self):
        for limit in (48, 64):
            with self.subTest(limit=limit):
                done = self.job(limit, "shm,tcp", BUILD / "tutti", "perf", "alltoall", "--max",
                                "1K", "--check")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, rf"not enough file descriptors for shared memory "
                                              rf"between {self.RANKS} ranks: RLIMIT_NOFILE is "
                                              rf"{limit}, at least \d+ needed")

    def test_required_shm_names_limit(self):
        call = (BUILD / "tutti", "perf", "alltoall", "--max", "1K", "--check")
        needed = set()
        for limit in (32, 48):
            done = self.job(limit, "shm", *call)
            self.assertNotEqual(done.returncode, 0)
            found = re.findall(rf"RLIMIT_NOFILE is {limit}, at least (\d+) needed",
                               done.stderr)
            self.assertTrue(found, done.stderr)
            needed.update(map(int, found))
        self.assertEqual(len(needed), 1, needed)        # it does not depend on the limit
        done = self.job(needed.pop(), "shm", *call)
        self.assertEqual(done.returncode, 0, done.stderr)


class Lanes(unittest.TestCase):
    """Many lanes to each peer, and a second communicator while the lanes of the first are open."""

    def free(self, limit, connections=0):
        script = f'{limit}; exec "$@"'
        done = subprocess.run([BUILD / "tutti", "run", "-n", str(RANKS), "sh", "-c", script, "sh",
                               BUILD / "tests/cluster/prog_few_descriptors", str(connections)],
                              env={**os.environ, "TUTTI_WIRES": "tcp", "TUTTI_LANES": str(LANES)},
                              capture_output=True, text=True,
                              timeout=PROMPT_S, check=False)
        self.assertEqual((done.returncode, done.stdout.count("both")), (0, RANKS), done.stderr)
        return [int(free) for free in re.findall(r"free (\d+)", done.stdout)]

    def test_lanes_leave_descriptors_for_other_connections(self):
        for limit in (48, 56, 64, 72, 80, 96):
            with self.subTest(limit=limit):
                self.assertGreaterEqual(min(self.free(f"ulimit -n {limit}")), SPARE)

    def test_few_descriptors_reduce_lanes_of_peers(self):
        self.assertGreaterEqual(min(self.free('if [ $TUTTI_RANK = 0 ]; then ulimit -n 48; fi')),
                                SPARE)

    def test_peers_share_available_lanes(self):
        self.free("ulimit -n 84", CONTROL + 2 * (RANKS - 1))

    def test_all_lanes_open_with_enough_descriptors(self):
        self.free("ulimit -n 256", CONTROL + LANES * (RANKS - 1))

    def test_soft_limit_is_raised_to_hard(self):
        self.assertGreater(min(self.free("ulimit -Hn 500; ulimit -Sn 40",
                                         CONTROL + LANES * (RANKS - 1))), 300)


if __name__ == "__main__":
    unittest.main()
