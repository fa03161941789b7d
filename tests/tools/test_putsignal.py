#!/usr/bin/env python3
"""tutti perf putsignal and tutti sim putsignal from a user's view, and the page that
bench/report.py writes from a run."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

SOURCE = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[2]))
TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
sys.path.insert(0, str(SOURCE / "tests" / "support"))

import wan      # noqa: E402

TIMEOUT_S = 250
MODES = ["put-only", "coupled", "decoupled", "ordered", "full"]


def tutti(*arguments):
    return subprocess.run([TUTTI, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


class Case(unittest.TestCase):
    def lines(self, *arguments):
        done = tutti(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def bursts(self, lines, **keys):
        return [line for line in lines if line["what"] == "burst"
                and all(line[key] == value for key, value in keys.items())]


class Arguments(Case):
    BOTH = [
        (["--concurrency", "0"], "--concurrency 0"),
        (["--concurrency", "5..4"], "ranges ascending"),
        (["--concurrency", "many"], "--concurrency many"),
        (["--concurrency", "1,,2"], "--concurrency 1,,2"),
        (["--concurrency", "4K"], "--concurrency 4K"),
        (["--concurrency", "1..2..3"], "1..2..3"),
        (["--concurrency", "1025"], "1 to 1024"),
        (["--concurrency", "1..1024,1..1024"], "the maximum is 16"),
        (["--bytes", "4"], "8 to"),
        (["--bytes", "4K..1Q"], "4K..1Q"),
        (["--bytes", "999999999999G"], "999999999999G"),
        (["--mode", "fast"], '"fast"'),
        (["--mode", "full,"], '""'),
        (["--sources", "0"], "--sources 0"),
        (["--group", "0"], "--group 0"),
        (["--group", "5"], "--group 5: must divide --concurrency (96)"),
        (["--group", "4", "--concurrency", "8,6"], "--group 4: must divide --concurrency (6)"),
        (["--group", "16", "--concurrency", "8"], "--group 16: must divide --concurrency (8)"),
        (["--sideways"], "--sideways"),
        (["sideways"], "unexpected argument"),
    ]
    PERF = [
        (["--ranks", "1"], "--ranks 1"),
        (["--ranks", "2", "--sources", "3"], "--sources 3"),
        (["--wire", "pigeon"], "pigeon"),
        (["--lanes", "fast"], "--lanes fast"),
        (["--blocks", "0"], "--blocks 0"),
        (["--rounds", "65"], "--rounds 65"),
        (["--iters", "0"], "--iters 0"),
        (["--trips", "0"], "--trips 0"),
    ]
    SIM = [
        (["--hosts", "1"], "--hosts 1"),
        (["--ranks-per-host", "0"], "--ranks-per-host 0"),
        (["--latency-us", "-1"], "--latency-us"),
        (["--gbit-s", "0"], "--gbit-s 0"),
        (["--op-ns", "nan"], "--op-ns nan"),
        (["--header", "0"], "--header 0"),
    ]

    def test_invalid_arguments_are_reported_once(self):
        cases = [(command, *case) for command, own in (("perf", self.PERF), ("sim", self.SIM))
                 for case in self.BOTH + own]
        for command, arguments, word in cases:
            with self.subTest(command=command, arguments=arguments):
                done = tutti(command, "putsignal", *arguments)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(word, done.stderr)
                self.assertEqual(done.stderr.count("putsignal: "), 1, done.stderr)

    def test_help_is_no_mistake(self):
        for command in ("perf", "sim"):
            done = tutti(command, "putsignal", "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("--concurrency", done.stdout)


class Simulated(Case):
    def test_lists_and_ranges_are_all_simulated(self):
        lines = self.lines("sim", "putsignal", "--hosts", "2..5", "--concurrency", "1..6",
                           "--bytes", "4K..20K", "--mode", "full")
        self.assertEqual({line["hosts"] for line in lines}, {2, 4, 5})
        self.assertEqual({line["transfers"] for line in lines}, {1, 2, 4, 6})
        self.assertEqual({line["bytes"] for line in self.bursts(lines)}, {4096, 16384, 20480})
        # put-only was not selected
        self.assertTrue(all(line["share"] is None for line in self.bursts(lines)))

    def test_shares_and_fits_match_the_model(self):
        lines = self.lines("sim", "putsignal", "--hosts", 8, "--bytes", "4K..4M", "--latency-us",
                           1000, "--gbit-s", 0.4)
        for mode in MODES:
            only, = self.bursts(lines, mode="put-only", bytes=4096)
            row, = self.bursts(lines, mode=mode, bytes=4096)
            self.assertAlmostEqual(row["share"], only["time_us"] / row["time_us"], places=6)
            fit, = [line for line in lines if line["what"] == "fit" and line["mode"] == mode]
            # A byte takes 0.02 us on the link, in every mode; a coupled transfer also a round trip,
            # and so do 28 of 96 decoupled ones.
            self.assertAlmostEqual(fit["beta_us_per_byte"], 0.02, delta=0.0002)
            self.assertAlmostEqual(fit["alpha_us"],
                                   {"coupled": 2000, "decoupled": 2000 * 28 / 96}.get(mode, 0),
                                   delta=50)
        share, = [row["share"] for row in self.bursts(lines, mode="full", bytes=4096)]
        self.assertGreater(share, 0.95)
        share, = [row["share"] for row in self.bursts(lines, mode="coupled", bytes=4096)]
        self.assertLess(share, 0.1)


class Real(Case):
    def check_counts(self, lines):
        for row in self.bursts(lines):
            self.assertEqual(row["wrong"], 0, row)
            self.assertGreater(row["time_us"], 0)
            signals = 0 if row["mode"] == "put-only" else row["transfers"]
            self.assertEqual(row["signals"], signals, row)
            drains = {"coupled": row["transfers"],
                      "decoupled": row["destinations"]}.get(row["mode"], 0)
            self.assertEqual(row["drains"], drains, row)
            if row["mode"] == "full":
                self.assertEqual(row["fences"], row["destinations"], row)

    def test_modes_deliver_bytes_and_expected_drains(self):
        lines = self.lines("perf", "putsignal", "-n", 3, "--wire", "tcp", "--concurrency", "1,7",
                           "--bytes", "8,600", "--rounds", 1, "--iters", 1, "--check",
                           "--sources", "all")
        self.assertEqual([row["mode"] for row in self.bursts(lines, transfers=7, bytes=600)], MODES)
        self.assertEqual({row["destinations"] for row in self.bursts(lines, transfers=7)}, {2})
        self.assertEqual(len([line for line in lines if line["what"] == "fit"]), 2 * len(MODES))
        self.check_counts(lines)

    def test_excess_blocks_are_reported(self):
        words = ["perf", "putsignal", "-n", 2, "--wire", "tcp", "--concurrency", "1..8", "--bytes",
                 8, "--mode", "full", "--rounds", 1, "--iters", 1]
        blocks = {row["transfers"]: row["blocks"]
                  for row in self.bursts(self.lines(*words, "--blocks", 4))}
        self.assertEqual(blocks, {1: 1, 2: 2, 4: 4, 8: 4})
        for asked, said in ((4, "# fewer transfers than --blocks, so only one block per transfer "
                                "is used: --concurrency 1, 2\n"), (1, "")):
            head = tutti(*words, "--blocks", asked).stdout
            self.assertIn(f"# 1 source with {asked} block{'' if asked == 1 else 's'}, 1 round, 1 "
                          f"burst per mode", head)
            self.assertEqual("one block per transfer" in head, bool(said), head)
            self.assertIn(said, head)

    def test_group_may_span_destinations(self):
        fences = {1: 6, 2: 4, 3: 2, 6: 2}       # three transfers to each of two ranks
        for group, each in fences.items():
            with self.subTest(group=group):
                rows = self.bursts(self.lines("perf", "putsignal", "-n", 3, "--wire", "tcp",
                                              "--concurrency", 6, "--bytes", 3000, "--mode",
                                              "decoupled,full",
                                              "--group", group, "--rounds", 1, "--iters", 1,
                                              "--check"))
                said = {row["mode"]: (row["group"], row["wrong"], row["signals"], row["drains"],
                                      row["fences"]) for row in rows}
                self.assertEqual(said, {"decoupled": (group, 0, 6, each, 0),
                                        "full": (group, 0, 6, 0, each)})
                model = self.bursts(self.lines("sim", "putsignal", "--hosts", 3, "--ranks-per-host",
                                               1, "--concurrency", 6, "--bytes", 3000, "--mode",
                                               "decoupled,full", "--group", group))
                self.assertEqual({row["mode"]: (row["drains"], row["fences"]) for row in model},
                                 {"decoupled": (each, 0), "full": (0, each)})

    def test_mapped_memory_needs_no_proxy(self):
        lines = self.lines("perf", "putsignal", "-n", 2, "--wire", "shm", "--concurrency", 5,
                           "--bytes", "70K", "--rounds", 1, "--iters", 1, "--check")
        for row in self.bursts(lines):
            self.assertEqual((row["wrong"], row["drains"], row["signals"]), (0, 0, 0))

    def test_wrong_bytes_are_counted_and_fail(self):
        done = tutti("perf", "putsignal", "-n", 3, "--wire", "tcp", "--concurrency", 4, "--bytes",
                     64, "--mode", "put-only,full", "--rounds", 1, "--iters", 1,
                     "--check", "--spoil", 5, "--json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual([json.loads(line)["wrong"] for line in done.stdout.splitlines()], [10, 10])

    def test_latency_stands_beside_a_bare_flag(self):
        lines = self.lines("perf", "putsignal", "--latency", "-n", 2, "--wire", "shm", "--rounds",
                           2, "--trips", 10)
        self.assertEqual([line["how"] for line in lines], ["flag", "direct", "proxy"])
        for line in lines:
            self.assertEqual(len(line["samples_us"]), 2)
            self.assertGreater(min(line["samples_us"]), 0)
        self.assertEqual(lines[0]["ratio"], 1)

    def test_oversized_windows_are_refused_with_numbers(self):
        for wire in ("shm", "tcp"):
            done = tutti("perf", "putsignal", "-n", 2, "--wire", wire, "--concurrency", 1024,
                         "--sources", "all", "--bytes", "1G", "--rounds", 1, "--iters", 1)
            self.assertEqual(done.returncode, 1)
            said = re.search(r"out of memory: 2 ranks on this host need (\d+) bytes .*and "
                             r"(\d+) are available", done.stderr)
            self.assertTrue(said, done.stderr)
            self.assertGreaterEqual(int(said[1]), 2 * (2 * 1024 + 1) * 2**30)
            self.assertLess(int(said[2]), int(said[1]))
            self.assertNotIn("SIGKILL", done.stderr)

    def test_latency_without_shared_memory_is_refused(self):
        done = tutti("perf", "putsignal", "--latency", "-n", 2, "--wire", "tcp", "--rounds", 1,
                     "--trips", 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ranks 0 and 1 have no memory that both can map", done.stderr)

    def test_only_other_hosts_are_targets(self):
        why = wan.why_not()
        if why:
            self.skipTest(why)
        with wan.Wan({"hosts": [{"name": "near"}, {"name": "far"}], "delay_ms": 1}) as net:
            done = subprocess.run([str(word)
                                   for word in net.inside(0, TUTTI, "run", "-n", 4, "--hosts",
                                                          "near:2,far:2", "--rsh", net.on,
                                                          "--output", "plain", "--",
                                                          TUTTI, "perf", "putsignal",
                                                          "--concurrency", 8, "--bytes", "4K",
                                                          "--rounds", 1, "--iters", 1,
                                                          "--check", "--json")],
                                  capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual({(row["hosts"], row["destinations"]) for row in lines}, {(2, 2)})
        self.check_counts(lines)


class Default(unittest.TestCase):
    def test_guide_and_header_name_the_same_default_mode(self):
        header = (SOURCE / "include/tutti/device.h").read_text()
        guide = (SOURCE / "docs/one-sided.md").read_text()
        chosen = re.findall(r"TUTTI_DEVICE_DEFAULT = 0,\s+/\* (\w+) or (\w+), chosen", header)
        self.assertEqual(len(chosen), 1)
        cheap, other = chosen[0]
        self.assertRegex(guide, rf"The default is `{cheap}` where [^.]*, and `{other}` elsewhere")
        self.assertIn(f"the default is `{cheap.lower()}` there, and `{other.lower()}` elsewhere",
                      " ".join(guide.split()))


class Page(unittest.TestCase):
    def test_run_becomes_page_and_figure(self):
        with tempfile.TemporaryDirectory() as place:
            rows, page = Path(place) / "putsignal.json", Path(place) / "one-sided.md"
            shutil.copy(SOURCE / "docs" / "one-sided.md", page)
            for argv in ([SOURCE / "bench" / "run", "putsignal", "--only", "^simulated", "--tutti",
                          TUTTI, "--save", rows],
                         [SOURCE / "bench" / "report.py", rows, "--out", page]):
                done = subprocess.run([sys.executable, *argv], capture_output=True, text=True,
                                      timeout=TIMEOUT_S, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("| 16 ", page.read_text())
            tree = xml.etree.ElementTree.parse(page.with_name("putsignal.svg"))
            lines = tree.findall(".//{http://www.w3.org/2000/svg}polyline")
            self.assertEqual([len(line.get("points").split()) for line in lines], [4] * 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
