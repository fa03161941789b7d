#!/usr/bin/env python3
"""tutti sim: what it prints is a result, and mistakes are told."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

TUTTI = Path(os.environ.get("TUTTI_BUILD_DIR", "build/release")) / "tutti"


def sim(*arguments):
    return subprocess.run([TUTTI, "sim", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)


class Sim(unittest.TestCase):
    def result(self, *arguments):
        done = sim(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_a_result_has_time_bandwidth_links_and_events(self):
        (one,) = self.result("allgather", "--ranks", 64, "--topo", "four-buildings", "--algo", "doubling", "--block", "1K")
        self.assertEqual((one["ranks"], one["bytes"], one["algo"]), (64, 65536, "allgather_doubling"))
        self.assertAlmostEqual(one["algbw_gbs"], one["bytes"] / one["time_us"] / 1000, places=6)
        self.assertAlmostEqual(one["busbw_gbs"], one["algbw_gbs"] * 63 / 64, places=6)
        self.assertEqual(sum(link["bytes"] for link in one["links"].values()), 64 * 63 * 1024)
        self.assertGreater(one["events"], 0)

    def test_the_same_seed_gives_the_same_time_and_another_one_another(self):
        arguments = ("allreduce", "--ranks", 100, "--algo", "ring", "--jitter-ns", 1000)
        times = [self.result(*arguments, "--seed", seed)[0]["time_us"] for seed in (5, 5, 6)]
        self.assertEqual(times[0], times[1])
        self.assertNotEqual(times[0], times[2])

    def test_a_ring_of_the_uniform_network_is_what_the_formula_says(self):
        (one,) = self.result("allgather", "--ranks", 8, "--algo", "ring", "--block", "1000", "--copy-gbs", "1e9")
        self.assertAlmostEqual(one["time_us"] * 1000, 7 * (300 + 1000 / 12.5 + 1000 + 200), delta=1)

    def test_a_sweep_draws_each_algorithm(self):
        with tempfile.TemporaryDirectory() as place:
            plot = Path(place) / "plot.svg"
            rows = self.result("allgather", "--ranks", 16, "--algo", "ring,doubling", "--sweep", "1K:1M:32", "--plot", plot)
            self.assertEqual([row["bytes"] for row in rows], [1024, 32768, 1048576] * 2)
            tree = xml.etree.ElementTree.parse(plot)
            lines = tree.findall("{http://www.w3.org/2000/svg}polyline")
            self.assertEqual([len(line.get("points").split()) for line in lines], [3, 3])

    def test_more_latency_or_a_fault_takes_longer(self):
        base = ("allgather", "--ranks", 32, "--topo", "four-buildings", "--algo", "direct", "--bytes", "8M")
        whole = self.result(*base)[0]["time_us"]
        for fault in ("slow-rail=1.3:4", "dead-rail=1.3", "slow-rank=3:50", "late-rank=3:1000"):
            self.assertGreater(self.result(*base, "--fault", fault)[0]["time_us"], whole, fault)

    def test_a_host_without_nics_is_reported(self):
        faults = [argument for rail in range(8) for argument in ("--fault", f"dead-rail=1.{rail}")]
        done = sim("barrier", "--ranks", 32, "--topo", "four-buildings", *faults)
        self.assertEqual(done.returncode, 1)
        self.assertIn("dead NICs", done.stderr)

    def test_mistakes_are_told(self):
        for arguments, said in (
                ((), "which collective"),
                (("allgather", "broadcast"), "one collective"),
                (("gossip",), "no collective \"gossip\""),
                (("alltoallv",), "equal blocks"),
                (("allgather", "--ranks", "0"), "--ranks 0"),
                (("allgather", "--ranks", "999999999"), "--ranks"),
                (("allgather", "--bytes", "1X"), "--bytes 1X"),
                (("allgather", "--bytes", "1K", "--block", "1K"), "not both"),
                (("allgather", "--algo", "nosuch", "--ranks", "4"), "no algorithm \"nosuch\""),
                (("allgather", "--topo", "nosuch"), "nosuch"),
                (("allgather", "--topo", "two-sockets"), "does not tell"),
                (("allgather", "--ranks", "131073", "--topo", "four-buildings"), "131072"),
                (("allgather", "--ranks", "4", "--fault", "flood"), "--fault flood"),
                (("allgather", "--ranks", "4", "--fault", "slow-rail=9.0:2"), "rail 0 of host 9"),
                (("allgather", "--ranks", "4", "--fault", "slow-rank=1:nan"), "--fault"),
                (("allgather", "--ranks", "4", "--segment", "1000"), "--segment 1000"),
                (("allgather", "--ranks", "4", "--sweep", "1K"), "--sweep 1K"),
                (("barrier", "--ranks", "4", "--sweep", "1K:2K"), "no size"),
                (("broadcast", "--ranks", "4", "--root", "4"), "--root 4"),
                (("allgather", "--ranks", "131072", "--algo", "direct"), "GiB"),
                (("allgather", "--ranks", "4", "--sweep", "1K:2K", "--plot", "/nowhere/x.svg"), "/nowhere/x.svg"),
        ):
            done = sim(*arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(said, done.stderr, arguments)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
