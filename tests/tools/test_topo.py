#!/usr/bin/env python3
"""tutti topo: this host and described machines, as text, JSON and drawings; orders of ranks for
tutti run."""

import json
import os
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
LAB = {"name": "lab", "rails": 2, "links": {"rack": {"latency_ns": 2000, "gbit_s": 10}},
       "hosts": [{"host": "r*-n*", "rack": "r$1", "slots": 4}]}
HOSTS = "r1-n1,r2-n1,r1-n2,r2-n2"


def topo(*args, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TUTTI_TOPO")
           and k != "TUTTI_RANK"}
    return subprocess.run([TUTTI, "topo", *map(str, args)], env={**env, **environment},
                          capture_output=True, text=True, timeout=60,
                          check=False)


class Topo(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.addCleanup(self.tmp.cleanup)
        self.lab = str(Path(self.tmp.name) / "lab.json")
        Path(self.lab).write_text(json.dumps(LAB))

    def good(self, *args, **environment):
        done = topo(*args, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_unknown_values_are_null(self):
        here = json.loads(self.good("--json"))
        self.assertEqual(here["host"], os.uname().nodename)
        lo = [nic for nic in here["nics"] if nic["name"] == "lo"]
        self.assertEqual([(nic["rail"], nic["bit_s"], nic["socket"]) for nic in lo],
                         [(False, None, None)])
        self.assertNotIn("ranks", here)

    def test_ranks_are_on_hwloc_sockets(self):
        here = json.loads(self.good("--json", "-n", 1, HWLOC_SYNTHETIC="pack:1 core:64 pu:1"))
        self.assertEqual(here["sockets"], 1)
        self.assertEqual(here["cores"], 64)
        self.assertEqual(here["ranks"][0]["socket"], 0)
        self.assertTrue(here["ranks"][0]["why"])

    def test_environment_labels_override_the_description(self):
        Path(self.lab).write_text(json.dumps({"hosts": [{"host": "*", "rack": "of-$1",
                                                         "zone": "z"}]}))
        here = json.loads(self.good("--json", TUTTI_TOPO=self.lab, TUTTI_TOPO_LABELS="zone=mine"))
        self.assertEqual(here["labels"], {"rack": f"of-{os.uname().nodename}"[:47], "zone": "mine",
                                          "building": None, "fabric": None})
        bad = topo(TUTTI_TOPO_LABELS="zone=a,shelf=3")
        self.assertEqual(bad.returncode, 1)
        self.assertIn('"shelf=3"', bad.stderr)

    def test_printed_built_in_can_be_read(self):
        text = self.good("--topo", "four-buildings", "--json")
        Path(self.lab).write_text(text)
        self.assertEqual(self.good("--topo", self.lab, "--json"), text)
        self.assertIn("131,072 ranks", self.good("--topo", "four-buildings"))
        self.assertIn("1:2.8", self.good("--topo", "four-buildings"))

    def test_drawings_are_xml_for_any_names(self):
        Path(self.lab).write_text(json.dumps({"name": "a<b>&'c",
                                              "machine": {"ranks_per_host": 20,
                                                          "hosts_per_rack": 3}}))
        svg = str(Path(self.tmp.name) / "p.svg")
        for args in (["--topo", self.lab], ["--topo", "four-buildings"], ["--topo", "two-sockets"],
                     ["--topo", "uniform"], [], ["-n", 3]):
            with self.subTest(args=args):
                self.good(*args, "--svg", svg)
                root = ET.parse(svg).getroot()
                self.assertGreater(len(list(root.iter("{http://www.w3.org/2000/svg}rect"))), 2)
        bad = topo("--svg", self.tmp.name + "/no/p.svg")
        self.assertEqual(bad.returncode, 1)
        self.assertIn("cannot write", bad.stderr)

    def test_described_hosts_are_drawn_in_groups(self):
        Path(self.lab).write_text(json.dumps({"rails": 2,
                                              "hosts": [{"host": "a1", "rack": "A", "slots": 2},
                                                        {"host": "b1", "rack": "<B>"},
                                                        {"host": "a2", "rack": "A", "slots": 40},
                                                        {"host": "c*", "rack": "C"}]}))
        svg = str(Path(self.tmp.name) / "p.svg")
        self.good("--topo", self.lab, "--svg", svg)
        texts = [t.text for t in ET.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual([t for t in texts if t in ("rack A", "rack <B>", "a1", "a2", "b1")],
                         ["rack A", "a1", "a2", "rack <B>", "b1"])
        self.assertIn("rank 1, rail 1", texts)
        self.assertIn("rank 2, all rails", texts)
        self.assertIn("and 25 more", texts)

    def test_failed_job_reports_only_its_cause(self):
        done = subprocess.run([TUTTI, "run", "-n", "2", "-x", "TUTTI_WIRES=nosuch", "--", TUTTI,
                               "topo"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('unknown transport "nosuch"', done.stderr)
        self.assertNotIn("out of memory", done.stderr)

    def test_invalid_files_and_arguments_are_reported(self):
        for args, status, words in ((["--measure"], 1, ["--measure", "job"]),
                                    (["--write", "x"], 1, ["--write", "job"]),
                                    (["--measure", "--topo", "uniform"], 2,
                                     ["--measure", "--topo"]),
                                    (["--measure", "-n", "3"], 2, ["--measure", "--ranks"]),
                                    (["--hosts", "a"], 2, ["--hosts", "--measure"]),
                                    (["--measure", "--hosts", "a", "--hostfile", "b"], 2,
                                     ["excludes"]),
                                    (["--measure", "--rsh", "ssh"], 2, ["--rsh"]),
                                    (["--measure", "--hosts", "a:x"], 1, ['"x"']),
                                    (["--measure", "--hosts", "a:5000"], 1, ["5000"]),
                                    (["--measure", "--hostfile", "/no/such"], 1, ["/no/such"]),
                                    (["--topo", "/no/such"], 1, ["/no/such"]),
                                    (["--topo", "nosuch"], 1,
                                     ["neither built in (four-buildings, "]),
                                    (["--ranks", "0"], 2, ["--ranks 0"]),
                                    (["--topo", "uniform", "-n", "3"], 2, ["excludes"]),
                                    (["plan"], 2, ['unknown subcommand "plan"'])):
            with self.subTest(args=args):
                done = topo(*args)
                self.assertEqual(done.returncode, status, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)

    def place(self, *args):
        return topo("place", *args)

    def test_torn_group_is_reported_and_fixable(self):
        args = ["--topo", self.lab, "--hosts", HOSTS, "--group", 8, "--within", "rack"]
        torn = self.place(*args)
        self.assertEqual(torn.returncode, 1)
        self.assertIn("ranks 0 to 7", torn.stderr)
        self.assertEqual(torn.stdout, "")
        done = self.place(*args, "--reorder")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()],
                         ["r1-n1", "r1-n2", "r2-n1", "r2-n2"])
        none = self.place(*args, "--reorder", "--group", 16, "--within", "rack")
        self.assertEqual(none.returncode, 1)
        self.assertIn("1 group of 16 ranks, each within one rack, does not fit", none.stderr)

    def test_placement_is_accepted_by_tutti_run(self):
        done = self.place("--hosts", "localhost:3")
        self.assertEqual(done.returncode, 0, done.stderr)
        hostfile = Path(self.tmp.name) / "hosts"
        hostfile.write_text(done.stdout)
        run = subprocess.run([TUTTI, "run", "-n", "3", "--hostfile", hostfile, "--", "sh", "-c",
                              "echo rank $TUTTI_RANK"], capture_output=True,
                             text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.count("rank "), 3)

    def test_invalid_orders_are_reported(self):
        for args, status, words in ((["--hosts", "a"], 1, ["no slots given for host a"]),
                                    ([], 1, ["no hosts"]), (["--group", "8"], 2, ["no --within"]),
                                    (["--hosts", "a:4,a:4"], 1, ["duplicate host a"]),
                                    (["--within", "rack"], 2, ["no preceding --group"]),
                                    (["--hosts", "a:4", "--group", "2", "--within", "shelf"], 2,
                                     ["shelf"]),
                                    (["--hosts", "a:4", "--group", "2", "--within", "rack"], 1,
                                     ['no host has a label for "rack"']),
                                    (["--hosts", "a:0"], 1,
                                     ["tutti topo place: ", "invalid number of slots"]),
                                    (["--hostfile", "/nowhere"], 1,
                                     ["tutti topo place: ", "/nowhere"]),
                                    (["--hosts", "a:4", "-n", "5"], 1, ["do not fit"])):
            with self.subTest(args=args):
                done = self.place(*args)
                self.assertEqual(done.returncode, status, done.stderr)
                for word in words:
                    self.assertIn(word, done.stderr)


class Job(unittest.TestCase):
    def test_rank_0_describes_all_ranks(self):
        done = subprocess.run([TUTTI, "run", "-n", "3", "-o", "plain", "--", TUTTI, "topo",
                               "--json"], capture_output=True, text=True, timeout=60,
                              env={k: v for k, v in os.environ.items()
                                   if not k.startswith("TUTTI_TOPO")}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        ranks = json.loads(done.stdout)["ranks"]
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1, 2])
        self.assertEqual({rank["host_number"] for rank in ranks}, {0})

    def job(self, n, *args):
        return subprocess.run([TUTTI, "run", "-n", str(n), "-o", "plain", "--", TUTTI, "topo",
                               *map(str, args)], capture_output=True, text=True,
                              timeout=60, env={k: v for k, v in os.environ.items()
                                               if not k.startswith("TUTTI_TOPO")}, check=False)

    def test_local_ranks_measure_their_links(self):
        for n in (1, 3):
            done = self.job(n, "--measure", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout)
            self.assertEqual([host["ranks"] for host in told["hosts"]], [n])
            self.assertEqual(told["measured"]["levels"], [])
            near = [link for distance, link in told["links"].items()
                    if distance in ("socket", "host")]
            self.assertEqual(len(near), n > 1)
            for link in near:
                self.assertGreater(link["latency_ns"], 0)
                self.assertGreater(link["gbit_s"], 0)
        self.assertIn("one host", self.job(2, "--measure").stdout)

    def test_unwritable_file_is_reported(self):
        done = self.job(2, "--write", "/no/such/lab.json")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/no/such/lab.json", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
