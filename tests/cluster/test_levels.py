#!/usr/bin/env python3
"""Measured links between hosts, and the resulting groups. Six hosts, with one-way latencies in
milliseconds, which differ enough for any machine to distinguish them:

      [host0] -3- [host1]      [host2] -3- [host3]      [host4] -3- [host5]
           |_________ 24 ___________|                        |
           |________________________ 120 ____________________|

Skipped if namespaces or TUN devices are not permitted."""

import json
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

from cluster import BUILD, CALLS, SLOW, TUTTI, ClusterTest, environment
from hosts import HostsError
from share import of_turn
from wan import Wan, why_not

NAMES = [f"host{i}" for i in range(6)]
NEAR_MS, MIDDLE_MS, FAR_MS = 3, 24, 120
GROUPS = [["host0", "host1"], ["host2", "host3"], ["host4", "host5"]]
CONNECTED = str(BUILD / "tests" / "cluster" / "prog_connected")


def delay_ms(a, b):
    if a // 2 == b // 2:
        return NEAR_MS
    return MIDDLE_MS if max(a, b) < 4 else FAR_MS


def grouped(hosts, level):
    """Names of hosts by their label of a level, or by the level above."""
    found = {}
    for host in hosts:
        found.setdefault((host["labels"].get(level), host["labels"].get("fabric")),
                         []).append(host["host"])
    return sorted(found.values())


class Levels(ClusterTest):
    @classmethod
    def setUpClass(cls):
        why = why_not()
        if why:
            raise unittest.SkipTest(f"hosts that are far from each other cannot be made here: {why}")
        cls.far = Wan({"hosts": [{"name": name} for name in NAMES],
                       "delay_ms": [[0 if a == b else delay_ms(a, b) for b in range(len(NAMES))]
                                    for a in range(len(NAMES))]})
        try:
            cls.far.__enter__()
        except (OSError, HostsError) as error:
            raise unittest.SkipTest(f"hosts that are far from each other cannot be made here: "
                                    f"{error}")

    @classmethod
    def tearDownClass(cls):
        cls.far.__exit__()

    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.path = str(Path(self.tmp.name) / "lab.json")

    def job(self, nhosts, *args, each=1, **variables):
        """A job of `each` ranks on each host, started from host0."""
        exports = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
        return self.run_tutti("-n", nhosts * each, "-o", "plain", "--hosts",
                              ",".join(f"{name}:{each}" for name in NAMES[:nhosts]),
                              "--rsh", self.far.hosts.on, "--timeout", 60, *exports, *args,
                              inside=self.far.inside(0))

    def topo(self, nhosts, *args, **more):
        done = self.job(nhosts, TUTTI, "topo", "--json", *args, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_unlabelled_hosts_are_grouped_by_measurement(self):
        svg = str(Path(self.tmp.name) / "p.svg")
        told, _ = self.topo(6, "--measure", "--svg", svg, "--write", self.path, each=2)
        levels = told["measured"]["levels"]
        self.assertEqual([level["distance"] for level in levels], ["building", "fabric", "wan"],
                         told)
        self.assertEqual([level["pairs"] for level in levels], [3, 4, 8])
        self.assertEqual(told["measured"]["pairs"], 15)
        self.assertEqual(grouped(told["hosts"], "building"), GROUPS)
        self.assertEqual(grouped(told["hosts"], "fabric"), [GROUPS[0] + GROUPS[1], GROUPS[2]])
        for distance, least_ms, most_ms in (("building", NEAR_MS, MIDDLE_MS),
                                            ("fabric", MIDDLE_MS, FAR_MS), ("wan", FAR_MS, 2000)):
            latency_ms = told["links"][distance]["latency_ns"] / 1e6
            self.assertTrue(least_ms <= latency_ms < most_ms, f"{distance}: {latency_ms} ms")
        self.assertGreater(told["links"]["rack"]["gbit_s"], 0)
        texts = [t.text for t in ET.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}text")]
        for text in [*NAMES, "fabric f0", "fabric f1", "building b2", "rank 11, wan0"]:
            self.assertIn(text, texts)
        self.check_what_was_written(told)

    def check_what_was_written(self, told):
        """The next job reads everything from the file, and measures nothing."""
        again, log = self.topo(6, TUTTI_TOPO=self.path, TUTTI_LOG="info")
        self.assertEqual([host["labels"] for host in again["hosts"]],
                         [host["labels"] for host in told["hosts"]])
        self.assertNotIn("measured", again)
        for distance in ("building", "fabric", "wan"):
            self.assertEqual(again["links"][distance]["latency_ns"],
                             told["links"][distance]["latency_ns"])
        self.assertIn("links between ranks (described)", log)
        self.assertIn("6 ranks on 6 hosts, 1 rail each, 3 buildings, 2 fabrics", log)
        placed = self.run_place("--group", 4, "--within", "fabric")
        self.assertIn("host4 slots=2    # ranks 8 to 9 building=b2 fabric=f1", placed)

    def run_place(self, *args):
        done = subprocess.run([TUTTI, "topo", "place", "--topo", self.path, *map(str, args)],
                              capture_output=True, text=True, timeout=60,
                              env=environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_labels_take_precedence_over_measurement(self):
        Path(self.path).write_text(json.dumps({"links": {"zone": {"latency_ns": 123456,
                                                                  "oversubscription": 2}},
                                               "hosts": [{"host": "host0", "rack": "x"},
                                                         {"host": "host2", "rack": "x"},
                                                         {"host": "host*", "rack": "y"}]}))
        told, _ = self.topo(4, "--measure", TUTTI_TOPO=self.path)
        self.assertEqual([host["labels"]["rack"] for host in told["hosts"]], ["x", "y", "x", "y"])
        # 0-2 and 1-3
        self.assertGreaterEqual(told["links"]["rack"]["latency_ns"], MIDDLE_MS * 1e6)
        self.assertEqual(told["links"]["zone"]["latency_ns"], 123456)
        self.assertEqual(told["links"]["zone"]["oversubscription"], 2)

    def test_rank_0_settings_control_the_measurement(self):
        """The other ranks have another environment: they receive the settings, and no rank waits
        without end."""
        Path(self.path).write_text(json.dumps({"links": {"rack": {"latency_ns": 7654321}}}))
        script = (f'if [ $TUTTI_RANK = 0 ]; then export TUTTI_TOPO_MEASURE=1 '
                  f'TUTTI_TOPO={self.path}; fi; exec {TUTTI} topo --json')
        done = self.job(2, "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual(told["links"]["rack"]["latency_ns"], 7654321)
        self.assertEqual(told["measured"]["pairs"], 1)
        self.assertGreaterEqual(told["measured"]["levels"][0]["least_ns"], NEAR_MS * 1e6)

    def choice(self, each=1, **variables):
        """The basis of the selection by ranks of three hosts: the latency between hosts, and how
        rank 0 determined it."""
        done = self.job(3, TUTTI, "plan", "why", "allreduce", 64, "--json", each=each,
                        TUTTI_LOG="info", **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["far_latency_ns"] / 1e6, done.stderr

    def test_two_ranks_measure_the_host_latency(self):
        """The nearest two: 0 and 1. All ranks use it, also those that did not measure."""
        for each in (1, 2):
            latency_ms, log = self.choice(each)
            self.assertTrue(0.9 * NEAR_MS <= latency_ms < MIDDLE_MS, latency_ms)
            self.assertIn("the latency of a short message between two hosts is", log)
        latency_ms, log = self.choice(TUTTI_TOPO_MEASURE="0")
        self.assertLess(latency_ms, 0.9 * NEAR_MS)
        self.assertNotIn("between two hosts", log)
        Path(self.path).write_text(json.dumps({"links": {"rack": {"latency_ns": 7654321}}}))
        latency_ms, log = self.choice(TUTTI_TOPO=self.path)
        self.assertEqual(latency_ms, 7.654321)
        self.assertNotIn("between two hosts", log)

    def test_measurement_adds_no_other_connections(self):
        for variables, connected in (({}, [1, 1, 0]), ({"TUTTI_TOPO_MEASURE": "0"}, [0, 0, 0])):
            done = self.job(3, CONNECTED, **variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(done.stdout.split()),
                             sorted(f"{rank}:{n}" for rank, n in enumerate(connected)))

    def test_given_hosts_start_a_measuring_job(self):
        """A busy machine can delay all messages of a measurement by more than the difference of two
        levels: only then it is repeated."""
        found = []
        while not any(a == b != c == d for a, b, c, d in found) and len(found) < 10:
            done = self.run_of_topo("--measure", "--hosts", "host0,host1,host2,host3", "--rsh",
                                    self.far.hosts.on, "--write", "-")
            self.assertEqual(done.returncode, 0, done.stderr)
            hosts = json.loads(done.stdout)["hosts"]
            self.assertEqual([host["host"] for host in hosts], NAMES[:4])
            found.append([host["fabric"] for host in hosts])
        self.assertTrue(any(a == b != c == d for a, b, c, d in found), found)

    def run_of_topo(self, *args):
        return subprocess.run([*self.far.inside(0), TUTTI, "topo", *map(str, args)],
                              capture_output=True, text=True, timeout=100,
                              env=environment(), check=False)


class OnOneHost(ClusterTest):
    def test_collectives_work_after_a_measurement(self):
        for wires in of_turn(("shm", "tcp")):
            with self.subTest(wires=wires):
                env = environment(TUTTI_TOPO_MEASURE="1", TUTTI_WIRES=wires,
                                  TUTTI_TIMEOUT_MS="100000")
                done = self.run_tutti("-n", 2 if SLOW else 4, CALLS, env=env, timeout=200)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
