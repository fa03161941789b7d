#!/usr/bin/env python3
"""Slow links of real jobs: four hosts (tests/support/testbed.py), each with one rank, whose pairs
of neighbours reduce in turns over shaped links. tutti profile must name a rank whose link has half
the rate, and a link between two ranks with half the rate, and nothing if all links have the same
rate.

A transfer takes some 50 ms of waiting for the shaped link, or 100 ms, and little time of the
processor, so other programs hardly change it. Skipped if namespaces are not permitted."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from cluster import BUILD, PATIENCE_S, TUTTI, ClusterTest, environment

import hosts        # after cluster, which sets its path
import testbed
from share import of_turn

PROGRAM = str(BUILD / "tests" / "cluster" / "prog_pace")
NHOSTS, MBIT, COUNT, ITERATIONS, WINDOW_S = 4, 20, 32768, 100, 2.5
TRIES = 4


def rate(mbit):
    """The arguments of a class of this rate."""
    return f"htb rate {mbit}mbit ceil {mbit}mbit burst 4096 cburst 4096"


class SlowLinks(ClusterTest):
    def setUp(self):
        why = hosts.why_not(("tc", "iproute2"))
        if why:
            self.skipTest(why)

    def slow_rank(self, rank):
        """Halves the rate of a host's link, in both directions."""
        for host, device in ((f"host{rank}", "eth0"), (testbed.SWITCH, f"port{rank}.0")):
            self.bed.hosts.batch(host, "tc", [f"class change dev {device} parent 1: classid 1:1 "
                                              f"{rate(MBIT / 2)}"])

    def slow_link(self, rank, other):
        """Halves the rate between two hosts."""
        for a, b in ((rank, other), (other, rank)):
            self.bed.hosts.batch(f"host{a}", "tc", [
                f"class add dev eth0 parent 1: classid 1:2 {rate(MBIT / 2)}",
                f"filter add dev eth0 parent 1: protocol ip u32 match ip dst "
                f"{self.bed.address(b)}/32 flowid 1:2"])

    def profile(self):
        with tempfile.TemporaryDirectory() as folder:
            env = environment(TUTTI_TRACE_DIR=folder)
            where = ",".join(f"host{h}:1" for h in range(NHOSTS))
            done = self.run_tutti("-n", NHOSTS, "--hosts", where, "--rsh", self.bed.on, "-x",
                                  "TUTTI_TRACE_DIR", PROGRAM, ITERATIONS, COUNT, env=env,
                                  inside=self.bed.inside(0))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(list(Path(folder).glob("*.jsonl"))), NHOSTS)
            done = subprocess.run([TUTTI, "profile", "--json", "--window", str(WINDOW_S), folder],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def found(self, prepare):
        try:
            with testbed.Testbed(NHOSTS, 1, MBIT) as self.bed:
                prepare(self)
                got = self.profile()
        except hosts.HostsError as trouble:
            self.skipTest(f"a testbed cannot be made here: {trouble}")
        self.assertGreaterEqual(got["windows"], 4, got)
        return [(x["kind"], x["rank"], x["to"]) for x in got["slow"]], got

    def check_case(self, prepare, expected):
        """A starved rank is late for longer than its link takes, so that a measurement on a busy
        machine proves nothing: it is repeated."""
        for _ in range(TRIES):
            found, got = self.found(prepare)
            if found == expected:
                return
        self.assertEqual(found, expected, json.dumps(got, indent=1))

    def test_slow_links_are_named_and_equal_ones_are_not(self):
        for name, prepare, expected in of_turn((
                ("equal links", lambda _: None, []),
                ("one rank has a slow link", lambda t: t.slow_rank(2), [("slow rank", 2, None)]),
                ("a slow link between two ranks", lambda t: t.slow_link(1, 2),
                 [("slow link", 1, 2)]))):
            with self.subTest(name):
                self.check_case(prepare, expected)


if __name__ == "__main__":
    unittest.main()
