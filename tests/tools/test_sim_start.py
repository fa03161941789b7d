#!/usr/bin/env python3
"""tutti sim start: its output, its drawing, what it finds, and invalid options."""

import json
import os
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"


def start(*arguments):
    return subprocess.run([TUTTI, "sim", "start", *map(str, arguments)], capture_output=True,
                          text=True, check=False, timeout=300)


class Start(unittest.TestCase):
    def result(self, *arguments, status=0):
        done = start(*arguments, "--json")
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def test_json_has_all_levels(self):
        one = self.result("--ranks", 1024, "--children", 8)
        self.assertEqual((one["ranks"], one["placed"], one["findings"]), (1024, 1024, []))
        names = [level["level"] for level in one["levels"]]
        self.assertEqual((names[:2], names[-1]), (["root", "leaders 1"], "ranks"))
        self.assertEqual(sum(level["processes"] for level in one["levels"]), 1025)
        for level in one["levels"]:
            self.assertGreater(level["messages"], 0)
            for phase in level["phases"].values():
                self.assertLessEqual(phase["first_s"], phase["last_s"])
                self.assertLessEqual(phase["processes"], level["processes"])
        last = max(level["phases"]["placed"]["last_s"] for level in one["levels"])
        self.assertAlmostEqual(one["time_s"], last, places=9)

    def test_text_has_the_same_times(self):
        shown = start("--ranks", 256).stdout
        one = self.result("--ranks", 256)
        self.assertIn(f"all ranks have their result after {one['time_s']:.3f} s", shown)
        for level in one["levels"]:
            self.assertEqual(len(re.findall(rf"^{level['level']} ", shown, re.MULTILINE)), 2)
        self.assertIn("findings: none", shown)

    def test_seed_determines_the_time(self):
        times = [self.result("--ranks", 64, "--seed", seed)["time_s"] for seed in (5, 5, 6)]
        self.assertEqual(times[0], times[1])
        self.assertNotEqual(times[0], times[2])

    def test_topology_has_the_hosts_and_latencies(self):
        description = {"machine": {"ranks_per_host": 4, "hosts_per_rack": 64},
                       "links": {"socket": {"latency_ns": 500, "gbit_s": 400},
                                 "rack": {"latency_ns": 200_000_000, "gbit_s": 100}}}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(description, file)
            file.flush()
            far = self.result("--ranks", 256, "--topo", file.name)
            near = self.result("--ranks", 256, "--ranks-per-host", 4)
            self.assertEqual((far["ranks_per_host"], far["placed"]), (4, 256))
            self.assertGreater(far["time_s"], near["time_s"])
            done = start("--ranks", 256, "--topo", file.name, "--ranks-per-host", 8)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--ranks-per-host 8: the hosts of", done.stderr)

    def test_drawing_has_a_bar_for_each_phase(self):
        with tempfile.TemporaryDirectory() as place:
            svg = Path(place) / "start.svg"
            one = self.result("--ranks", 128, "--svg", svg)
            tree = xml.etree.ElementTree.parse(svg)
            bars = tree.findall("{http://www.w3.org/2000/svg}rect[@class='phase']")
            self.assertEqual(len(bars), sum(len(level["phases"]) for level in one["levels"]))
            for bar in bars:
                self.assertGreaterEqual(float(bar.get("x")), 109)
                self.assertLessEqual(float(bar.get("x")) + float(bar.get("width")), 753)
        done = start("--ranks", 16, "--svg", "/nonexistent/start.svg")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write /nonexistent/start.svg", done.stderr)

    def test_planted_loop_is_found(self):
        found = self.result("--ranks", 1024, "--children", 8, "--plant", "loop")["findings"]
        self.assertEqual({one["kind"] for one in found}, {"loop"})
        self.assertIn("leaders 1", [one["level"] for one in found])

    def test_planted_quadratic_step_is_found(self):
        found = self.result("--ranks", 8192, "--plant", "quadratic")["findings"]
        (one,) = (one for one in found if one["kind"] != "dropped")     # a consequence
        self.assertEqual((one["kind"], one["level"], one["step"]), ("growth", "root", "UP"))
        self.assertIn("grows with exponent", one["text"])

    def test_small_backlog_loses_ranks_only_without_retries(self):
        """All ranks connect to the root at once."""
        flat = ("--ranks", 1024, "--ranks-per-host", 1, "--children", 1024, "--backlog", 64,
                "--spread", "0.001", "--no-growth")
        retried = self.result(*flat)
        self.assertEqual((retried["placed"], retried["lost_ranks"]), (1024, 0))
        self.assertEqual([one["kind"] for one in retried["findings"]], ["dropped"])
        lost = self.result(*flat, "--no-retries", "--timeout", 5, status=1)
        self.assertGreater(lost["lost_ranks"], 0)
        self.assertEqual((lost["placed"], lost["time_s"]), (0, None))
        shown = start(*flat, "--no-retries", "--timeout", 5).stdout
        self.assertIn(f"{lost['lost_ranks']} ranks were lost: a full backlog", shown)

    def test_baseline_is_slower(self):
        one = self.result("--ranks", 4096, "--baseline")
        ratio = one["baseline"]["time_s"] / one["time_s"]
        self.assertAlmostEqual(one["baseline"]["ratio"], ratio, places=6)
        self.assertGreater(ratio, 1)
        more = self.result("--ranks", 16384, "--baseline")
        self.assertGreater(more["baseline"]["ratio"], 2 * ratio)
        self.assertIn("times as long as the tree", start("--ranks", 256, "--baseline").stdout)

    def test_baseline_has_the_latency_of_its_hops(self):
        """With 8 ranks per host, a hop in 8 has the random part, whose mean is 50 us."""
        few, many = (self.result("--ranks", 4096, "--baseline", "--no-growth", "--ranks-per-host",
                                 per_host)["baseline"] for per_host in (8, 1))
        gathers = [one["time_s"] - one["ring_s"] for one in (few, many)]
        self.assertAlmostEqual(gathers[1] - gathers[0], 7 * 4095 * 50e-6 * 7 / 8, delta=0.001)

    def test_json_has_the_model(self):
        model = self.result("--ranks", 16, "--seed", 7, "--message-us", 5)["model"]
        self.assertEqual((model["seed"], model["message_us"], model["children"]), (7, 5, 128))

    def test_small_last_host_is_not_waited_for(self):
        """Half a host: its leader reports when all of its ranks have come."""
        self.assertLess(self.result("--ranks", 4, "--spread", 0.01)["time_s"], 0.3)

    def test_split_takes_a_small_part(self):
        one = self.result("--ranks", 4096, "--split", 10)
        parts = ("connect_s", "gather_s", "sort_s", "agree_s")
        self.assertAlmostEqual(one["split"]["time_s"], sum(one["split"][k] for k in parts))
        self.assertTrue(all(one["split"][k] > 0 for k in parts), one["split"])
        self.assertLess(one["split"]["time_s"] - one["split"]["sort_s"], one["time_s"] / 10)

    def test_measured_steps_take_longer(self):
        plain, measured = (self.result("--ranks", 512, *more) for more in ((), ("--measured",)))
        busy = [one["levels"][0]["steps"]["JOIN"] for one in (plain, measured)]
        self.assertGreater(busy[1]["s"] / busy[1]["n"], busy[0]["s"] / busy[0]["n"])

    def test_invalid_options_are_named(self):
        for arguments, message in (
                (("--ranks", 1), "--ranks 1: must be an integer from 2 to 1048576"),
                (("--ranks", 8, "extra"), 'unexpected argument "extra"'),
                (("--place-bytes", 5), "--place-bytes 5: must be 0, or from 31 to 240"),
                (("--loss", 0.9), "--loss 0.9: must be a number from 0 to 0.5"),
                (("--message-us", 0), "--message-us 0: must be a number from 0.001 to 1e+06"),
                (("--ranks", 8, "--split", 9), "--split 9: must be at most the number of ranks"),
                (("--children", 1), "--children 1: must be an integer from 2 to 1048576"),
                (("--cyclic", "--topo", "x"), "--cyclic and --topo exclude each other"),
                (("--plant", "x"), "--plant x: must be loop or quadratic"),
                (("--topo", "nowhere"), "nowhere")):
            with self.subTest(arguments=arguments):
                done = start(*arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
