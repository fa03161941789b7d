#!/usr/bin/env python3
"""Start-up of many ranks on many hosts over real sockets. prog_start: all ranks get the records of
all, no process sends the table to more than a few others, and killed hosts are named. prog_tree:
the tree alone, with more ranks."""

import json
import os
import random
import subprocess
import unittest
from pathlib import Path

PROGRAMS = Path(os.environ["TUTTI_BUILD_DIR"]) / "tests" / "boot"
RECORD = 512


def run(name, *arguments, **variables):
    command = [PROGRAMS / name, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False,
                          env=os.environ | variables)
    if done.returncode:
        raise AssertionError(f"{name} {arguments}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def start(nranks, per_host, **variables):
    return run("prog_start", nranks, 2, RECORD, per_host, **variables)


class Start(unittest.TestCase):

    def test_servers_have_servers(self):
        """81 hosts: the 8 children of the root have children, and these too."""
        self.assertEqual(start(81, 1)["ranks"], 81)

    def test_last_host_is_smaller(self):
        self.assertEqual(start(50, 3)["ranks"], 50)

    def test_overlay_connects_by_doubling(self):
        """All links of all ranks are up, in a job whose ranks request the records of others."""
        self.assertEqual(start(300, 8, TUTTI_OVERLAY_DOUBLING="1")["ranks"], 300)

    def test_no_process_sends_much(self):
        """60 hosts. Sent to each of these by the root, the table takes 590 KB even packed, and the
        reports of the hosts 100 KB. In the tree, and with some reports repeated, this is half."""
        values = start(240, 4)
        self.assertLess(values["busiest_bytes"], 450_000, values)

    def test_one_rank_of_a_host_connects_to_the_server(self):
        """8 hosts of 32. Rank 0 accepts the ranks of its own host, and one or two of each host: the
        rank that gets the id of the start-up, and the leader. Some may connect again."""
        values = start(256, 32)
        self.assertLess(values["accepted"], 32 + 2 * 8 + 30, values)


class Killed(unittest.TestCase):
    """A process with all ranks of a host is killed during start-up. All others return at the
    deadline, and name its ranks; or if the server is lost, rank 0, or the first rank of their host,
    which tries to reach it."""

    LATE_S = 60     # the machine may be slow

    def kill(self, process, after_us):
        values = run("prog_start", 512, 64, RECORD, 8, "-", 3000, process, after_us)
        with self.subTest(process=process, after_us=after_us, values=values):
            self.assertEqual((values["started"], values["failed"]), (0, 504))
            self.assertEqual(values["unnamed"], 0)
            self.assertLess(values["late_s"], self.LATE_S)
            named = rf"missing: {8 * process}-{8 * process + 7}\b"
            if process == 0:
                named = "rank 0 is missing|the first rank of this host"
            self.assertRegex(values["error"], named)

    def test_host_is_killed(self):
        for _ in range(2):
            self.kill(random.randrange(1, 64), random.randrange(1_000_000))

    def test_host_of_the_server_is_killed(self):
        self.kill(0, random.randrange(1_000_000))


class KilledRank(unittest.TestCase):
    """One rank is killed at a drawn moment: a server, i.e. the first rank of a host, or another
    one. The others have their result, or end at the deadline with a message that names it; nobody
    hangs. Either all have the result or none, with two exceptions. If rank 0 is killed, the root
    may have sent the result to some. If the leader of a host is killed and the root has ended,
    ranks below it may have no result, and cannot reach the root: docs/start-up.md, "Not done". Any
    rank can be the leader: it is the one that comes first. TUTTI_TEST_KILLS is the number of draws
    (default 3), TUTTI_TEST_SEED the first seed."""

    DRAWS = int(os.environ.get("TUTTI_TEST_KILLS", "3"))
    SEED = int(os.environ.get("TUTTI_TEST_SEED", random.randrange(1_000_000)))
    LATE_S = 60     # the machine may be slow
    CUT_OFF = 127   # twice the ranks of a host and of the 7 hosts below it: some have more

    def kill(self, seed, rank, after_s, usual_s):
        """The timeout suffices for a start-up without a fault on a slow machine."""
        timeout_ms = round(1000 * max(10, 10 * usual_s))
        values = run("prog_start", 512, 33, RECORD, 8, "-", timeout_ms, f"rank:{rank}",
                     round(after_s * 1e6))
        with self.subTest(seed=seed, rank=rank, after_s=after_s, values=values):
            self.assertEqual(values["started"] + values["failed"], 511)
            self.assertLessEqual(values["cut_off"], self.CUT_OFF)
            if rank != 0 and values["started"]:
                self.assertEqual(values["failed"], values["cut_off"])
            self.assertEqual(values["unnamed"], 0)
            self.assertLess(values["late_s"], self.LATE_S)
        return values

    def test_rank_is_killed(self):
        usual_s = start(512, 8)["seconds"]
        found = []
        for seed in range(self.SEED, self.SEED + self.DRAWS):
            draw = random.Random(seed)
            leader = 8 * draw.randrange(64)
            rank = leader if seed % 2 else leader + draw.randrange(1, 8)
            found.append(self.kill(seed, rank, draw.random() ** 2 * usual_s, usual_s))
        print(f"{sum(one['failed'] == 511 for one in found)} of {len(found)} start-ups failed, "
              f"{sum(one['cut_off'] > 0 for one in found)} left ranks without a result; the last "
              f"rank {max(one['late_s'] for one in found):.3f} s after the deadline")

    def test_rank_0_is_killed(self):
        """It has the root. The others cannot know which other ranks have come."""
        self.kill(0, 0, 0.05, 1)


class Tree(unittest.TestCase):

    def test_servers_have_servers(self):
        """256 hosts with 8 leaders at each server, so that three levels are above the hosts."""
        values = run("prog_tree", 1024, 4, 4, 8)
        self.assertEqual(values["ranks"], 1024)
        self.assertGreater(values["root_message_us"], 0)

    def test_last_host_is_smaller(self):
        self.assertEqual(run("prog_tree", 1001, 2, 8)["ranks"], 1001)

    def test_bytes_grow_with_the_ranks(self):
        """The busiest process has at most 2.1 times the bytes for twice the ranks."""
        less, more = (run("prog_tree", nranks, 4) for nranks in (1024, 4096))
        self.assertLess(more["busiest_bytes"], 2.1**2 * less["busiest_bytes"], (less, more))
        self.assertLess(more["received_max"], 8000, more)


if __name__ == "__main__":
    unittest.main(verbosity=2)
