#!/usr/bin/env python3
"""tutti sim: its output is a result, and errors are reported."""

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

TUTTI = Path(os.environ.get("TUTTI_BUILD_DIR", "build/release")) / "tutti"


def sim(*arguments):
    return subprocess.run([TUTTI, "sim", *map(str, arguments)], capture_output=True, text=True,
                          check=False, timeout=120)


def sim_on_a_terminal(*arguments):
    """Its output on a terminal that is its standard error."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([TUTTI, "sim", *map(str, arguments)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=theirs) as run:
        os.close(theirs)
        shown = b""
        try:
            while some := os.read(ours, 4096):
                shown += some
        except OSError:         # EIO: the other end is closed
            pass
    os.close(ours)
    return run.returncode, shown.decode()


class Sim(unittest.TestCase):
    def result(self, *arguments):
        done = sim(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_result_has_all_fields(self):
        (one,) = self.result("allgather", "--ranks", 64, "--topo", "four-buildings", "--algo",
                             "doubling", "--block", "1K")
        self.assertEqual((one["ranks"], one["bytes"], one["algo"]),
                         (64, 65536, "allgather_doubling"))
        self.assertAlmostEqual(one["algbw_gbs"], one["bytes"] / one["time_us"] / 1000, places=6)
        self.assertAlmostEqual(one["busbw_gbs"], one["algbw_gbs"] * 63 / 64, places=6)
        self.assertEqual(sum(link["bytes"] for link in one["links"].values()), 64 * 63 * 1024)
        self.assertGreater(one["events"], 0)

    def test_seed_determines_the_time(self):
        arguments = ("allreduce", "--ranks", 100, "--algo", "ring", "--jitter-ns", 1000)
        times = [self.result(*arguments, "--seed", seed)[0]["time_us"] for seed in (5, 5, 6)]
        self.assertEqual(times[0], times[1])
        self.assertNotEqual(times[0], times[2])

    def test_terminal_shows_a_temporary_bar(self):
        """A bar appears after 200 ms; the number of ranks for that depends on the machine."""
        bars, ranks = [], 256
        while len(bars) < 3 and ranks < 8192:
            ranks *= 2
            case = ("allgather", "--ranks", ranks, "--topo", "uniform", "--algo", "ring", "--block",
                    "64")
            status, shown = sim_on_a_terminal(*case)
            self.assertEqual(status, 0, shown)
            bars = shown.split("\r\x1b[K")[1:]
        self.assertGreaterEqual(len(bars), 3, shown)
        self.assertEqual(bars.pop(), "")
        shares = []
        for bar in bars:
            found = re.fullmatch(rf"allgather_ring on {ranks} ranks \[(#*) *\] +(\d+) %  \d+ s",
                                 bar)
            self.assertTrue(found, repr(bar))
            self.assertEqual(len(bar[bar.index("[") + 1:bar.index("]")]), 30)
            self.assertAlmostEqual(len(found[1]), int(found[2]) * 0.3, delta=1.2)
            shares.append(int(found[2]))
        self.assertEqual(shares, sorted(shares))
        self.assertLessEqual(shares[-1], 100)
        self.assertEqual(sim_on_a_terminal(*case, "--quiet"), (0, ""))

    def test_many_ranks_show_progress_at_once(self):
        self.assertTrue(sim("barrier", "--ranks", 16384).stderr.startswith("barrier_dissemination on 16384 ranks: 0 % after "))
        self.assertEqual(sim("barrier", "--ranks", 16384, "--quiet").stderr, "")

    def test_uniform_ring_matches_the_formula(self):
        (one,) = self.result("allgather", "--ranks", 8, "--algo", "ring", "--block", "1000",
                             "--copy-gbs", "1e9")
        self.assertAlmostEqual(one["time_us"] * 1000, 7 * (300 + 1000 / 12.5 + 1000 + 200), delta=1)

    def test_a_sweep_draws_each_algorithm(self):
        with tempfile.TemporaryDirectory() as place:
            plot = Path(place) / "plot.svg"
            rows = self.result("allgather", "--ranks", 16, "--algo", "ring,doubling", "--sweep",
                               "1K:1M:32", "--plot", plot)
            self.assertEqual([row["bytes"] for row in rows], [1024, 32768, 1048576] * 2)
            tree = xml.etree.ElementTree.parse(plot)
            lines = tree.findall("{http://www.w3.org/2000/svg}polyline")
            self.assertEqual([len(line.get("points").split()) for line in lines], [3, 3])

    def topology(self, text):
        """A file with a description, removed after the test."""
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump(text, file)
        self.addCleanup(os.unlink, file.name)
        return file.name

    def test_latency_counts_once_per_step(self):
        times = []
        for latency_ns in (1000, 5000):
            topo = self.topology({"links": {"rack": {"latency_ns": latency_ns, "gbit_s": 100}},
                                  "machine": {"hosts_per_rack": 32}})
            times.append(self.result("allgather", "--topo", topo, "--algo", "doubling", "--block",
                                     64)[0]["time_us"])
        self.assertAlmostEqual(times[1] - times[0], 5 * 4, places=3)

    def test_a_fault_takes_longer(self):
        base = ("allgather", "--ranks", 32, "--topo", "four-buildings", "--algo", "direct",
                "--bytes", "8M")
        whole = self.result(*base)[0]["time_us"]
        for fault in ("slow-rail=1.3:4", "dead-rail=1.3", "slow-rank=3:50", "late-rank=3:1000"):
            self.assertGreater(self.result(*base, "--fault", fault)[0]["time_us"], whole, fault)

    def test_default_algorithm_depends_on_local_links(self):
        slow = {"latency_ns": 500, "gbit_s": 400}
        topo = self.topology({"links": {"rack": {"latency_ns": 1000, "gbit_s": 400}, "host": slow,
                                        "socket": slow}, "rails": 8,
                              "machine": {"hosts_per_rack": 2, "ranks_per_host": 64}})
        base = ("allgather", "--topo", topo, "--block", 64)
        best = min(row["time_us"] for row in self.result(*base, "--algo", "all"))
        self.assertLess(self.result(*base)[0]["time_us"], 2 * best)

    def test_a_sweep_ends_where_sizes_do(self):
        rows = self.result("allgather", "--ranks", 2, "--algo", "ring", "--sweep",
                           "1K:1048576G:1048576", "--segment", "1048576G",
                           "--plot", os.devnull)
        self.assertEqual([row["bytes"] for row in rows], [1 << 10, 1 << 30, 1 << 50])

    def test_equal_calls_are_simulated_once(self):
        base = ("allgather", "--ranks", 64, "--algo", "ring", "--plot", os.devnull)
        self.assertEqual([row["bytes"] for row in self.result(*base, "--sweep", "1:1K:2")],
                         [256, 512, 1024])
        self.assertEqual([row["bytes"] for row in self.result(*base, "--sweep", "1:4:2")], [256])

    def test_layers_without_links_are_not_idle(self):
        base = ("allgather", "--topo", "four-buildings", "--ranks", 64, "--algo", "direct",
                "--block", 64)
        links = self.result(*base)[0]["links"]
        self.assertIn("busiest", links["rack"])
        self.assertNotIn("busiest", links["zone"])
        zone = next(line for line in sim(*base).stdout.splitlines() if line.startswith("#   zone"))
        self.assertTrue(zone.endswith("; links: -"), zone)

    def test_a_host_without_nics_is_reported(self):
        faults = [argument for rail in range(8) for argument in ("--fault", f"dead-rail=1.{rail}")]
        done = sim("barrier", "--ranks", 32, "--topo", "four-buildings", *faults)
        self.assertEqual(done.returncode, 1)
        self.assertIn("dead NICs", done.stderr)

    def test_errors_are_reported(self):
        for arguments, said in (
                ((), "missing argument: a collective"),
                (("allgather", "broadcast"), "one collective"),
                (("gossip",), "unknown collective \"gossip\""),
                (("alltoallv",), "equal blocks"),
                (("allgather", "--ranks", "0"), "--ranks 0"),
                (("allgather", "--ranks", "999999999"), "--ranks"),
                (("allgather", "--bytes", "1X"), "--bytes 1X"),
                (("allgather", "--bytes", "0"), "--bytes 0"),
                (("allgather", "--block", "0"), "--block 0"),
                (("alltoall", "--ranks", "4096", "--block", "1048576G"), "on 4096 ranks"),
                (("allgather", "--bytes", "1K", "--block", "1K"), "excludes --block"),
                (("allgather", "--algo", "nosuch", "--ranks", "4"), "unknown algorithm \"nosuch\""),
                (("allgather", "--algo", "ring,nosuch", "--ranks", "4"),
                 "unknown algorithm \"nosuch\""),
                (("allgather", "--algo", "ring,", "--ranks", "4"), "unknown algorithm \"\""),
                (("allgather", "--topo", "nosuch"),
                 "unknown topology \"nosuch\": neither built in (four-buildings, "),
                (("allgather", "--topo", "./nosuch"), "the topology ./nosuch"),
                (("allgather", "--topo", "two-sockets"), "lacks links"),
                (("allgather", "--ranks", "131073", "--topo", "four-buildings"), "131072"),
                (("allgather", "--ranks", "4", "--fault", "flood"), "--fault flood"),
                (("allgather", "--ranks", "4", "--fault", "slow-rail=9.0:2"), "rail 0 of host 9"),
                (("allgather", "--ranks", "4", "--fault", "slow-rank=1:nan"), "--fault"),
                (("allgather", "--ranks", "4", "--fault", "slow-rank=1:1e12"),
                 "FACTOR must be from 1e-06 to 1e+06"),
                (("allgather", "--ranks", "4", "--fault", "slow-rail=0.0:1e-60"),
                 "FACTOR must be from 1e-06 to 1e+06"),
                (("allgather", "--ranks", "4", "--fault", "late-rank=1:1e10"),
                 "MICROSECONDS must be from 0 to 1e+09"),
                (("allgather", "--ranks", "4", "--fault", "slow-rank=-1:2"),
                 "like slow-rank=RANK:FACTOR"),
                (("allgather", "--ranks", "4", "--fault", "slow-rank=4294967299:2"),
                 "like slow-rank=RANK:FACTOR"),
                (("allgather", "--ranks", "4", "--fault", "slow-rank=1:2x"),
                 "like slow-rank=RANK:FACTOR"),
                (("allgather", "--ranks", "4", "--fault", "dead-rail=1.0:2"),
                 "like dead-rail=HOST.RAIL"),
                (("allgather", "--ranks", "4", "--fault", "slow-uplink=attic.0:2"),
                 "like slow-uplink=LEVEL.GROUP:FACTOR"),
                (("allreduce", "--ranks", "16", "--bytes", "1G", "--copy-gbs", "1e-6",
                  "--reduce-gbs", "1e-6", "--fault", "slow-rank=3:1e6"), "53 days"),
                (("allgather", "--ranks", "4", "--segment", "1000"), "--segment 1000"),
                (("allgather", "--ranks", "4", "--sweep", "1K"), "--sweep 1K"),
                (("barrier", "--ranks", "4", "--sweep", "1K:2K"), "no size"),
                (("broadcast", "--ranks", "4", "--root", "4"), "--root 4"),
                (("allgather", "--ranks", "131072", "--algo", "direct"), "GiB"),
                (("allgather", "--ranks", "4", "--sweep", "1K:2K", "--plot", "/nowhere/x.svg"),
                 "/nowhere/x.svg"),
        ):
            done = sim(*arguments)
            self.assertIn(done.returncode, (1, 2), arguments)
            self.assertIn(said, done.stderr, arguments)
            if "--sweep" not in arguments:
                self.assertEqual(done.stdout, "", arguments)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
