#!/usr/bin/env python3
"""bench/report.py: pages match the rows of their benchmarks; the page about the simulator has a
part for each of two."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

BUILD = Path(os.environ["TUTTI_BUILD_DIR"])
BENCH = Path(os.environ["TUTTI_SOURCE_DIR"]) / "bench"
sys.path.insert(0, str(BENCH))
sys.dont_write_bytecode = True

import bench_gemm  # noqa: E402
import bench_moe  # noqa: E402
import bench_predict  # noqa: E402
import bench_putsignal  # noqa: E402
import bench_rails  # noqa: E402
import bench_rdma  # noqa: E402
import bench_sim  # noqa: E402
import bench_tuner  # noqa: E402
from lib import fabric, proxies, rails, report_putsignal, rounds, say  # noqa: E402

MACHINE = {"date": "2026-01-02", "commit": "c0ffee", "cpu": "a processor", "cores": 2,
           "memory_gib": 8, "system": "a system",
           "kernel": "6.1", "congestion_control": "cubic", "busy_cores_before": 0,
           "versions": {"tutti": "0.1.0"}}


def predicted(measured_us, predicted_us):
    """A row in the format of bench/run predict."""
    what = bench_predict.what_of(rails.Shape(2, 2, 2, 100, "cubic"), "allgather", "ring", 4 << 20)
    return {"what": what, "value": round(abs(100 * (predicted_us / measured_us - 1)), 2),
            "reach": 15, "unit": "%", "better": "lower",
            "against": "tutti perf on the testbed", "predicted_us": predicted_us,
            "measured_us": measured_us, "spread": [-8.0, 3.0],
            "cpu": 0.5, "busy": 0.97, "rail_mib": [], "network": {},
            "samples": {"measured_us": [measured_us], "predicted_us": [predicted_us]}}


class Rounds(unittest.TestCase):
    """bench/lib/rounds.py: the stop condition for the rounds of a row."""

    def measured(self, times, nrounds=6, most=25, fails_at=None):
        """The entries of two contestants with these turn times, and failures."""
        entries = [rounds.Entry("tutti"), rounds.Entry("openmpi")]
        started = []

        def turn(stable, case, entry, turn_us, is_first):
            started.append(entry.name)
            if len(entry.turns_us) == fails_at and entry.key == "openmpi":
                raise say.Problem("it ended")
            entry.turns_us.append(times[entry.key](len(entry.turns_us)))

        def settled(some):
            if len(some) < 2:
                return True
            ours, theirs = sorted(some, key=lambda e: e.key != "tutti")
            return rounds.side([t / o for t, o in zip(theirs.turns_us, ours.turns_us)], 1) != 0

        with mock.patch.multiple(rounds, _heat=lambda *_: None, _warm=lambda *_: None, _round=turn):
            kept, failed = rounds.measure(None, None, entries, nrounds, 1, most, settled)
        return kept, failed, started[::2]

    def test_sign_test_has_no_bias(self):
        self.assertEqual(rounds.side([2] * 6, 1), 1)
        self.assertEqual(rounds.side([0.5] * 6, 1), -1)
        self.assertEqual(rounds.side([2] * 5, 1), 0)
        self.assertEqual(rounds.side([2] * 8 + [0.5] * 2, 1), 0)
        self.assertEqual(rounds.side([2] * 9 + [0.5], 1), 1)

    def test_unclear_results_get_more_rounds(self):
        kept, _, starts = self.measured({"tutti": lambda i: 1, "openmpi": lambda i: 2})
        self.assertEqual([len(e.turns_us) for e in kept], [6, 6])
        self.assertEqual(starts, ["openmpi", "tutti"] * 3)      # in turn
        kept, _, _ = self.measured({"tutti": lambda i: 1, "openmpi": lambda i: 2 if i % 2 else 0.5})
        self.assertEqual([len(e.turns_us) for e in kept], [25, 25])

    def test_late_failure_keeps_earlier_turns(self):
        kept, failed, _ = self.measured({"tutti": lambda i: 1, "openmpi": lambda i: 2 if i % 2
                                         else 0.5}, fails_at=9)
        self.assertEqual([len(e.turns_us) for e in kept], [9, 9])
        self.assertEqual(failed, {"openmpi": "it ended"})
        kept, _, _ = self.measured({"tutti": lambda i: 1, "openmpi": lambda i: 2}, fails_at=3)
        self.assertEqual([e.key for e in kept], ["tutti"])


class Report(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.page = self.place / "page.md"

    def report(self, benchmark, rows):
        data = self.place / f"{benchmark}.json"
        data.write_text(json.dumps({"benchmark": benchmark, "machine": MACHINE, "rows": rows}))
        return subprocess.run([sys.executable, BENCH / "report.py", data, "--out", self.page],
                              capture_output=True, text=True, check=False)

    def cells(self, case):
        """Cells of the page's only table line that starts with it."""
        (line,) = [line for line in self.page.read_text().splitlines()
                   if line.startswith(f"| {case} ")]
        return [cell.strip() for cell in line.strip("|").split("|")][1:]

    def sim_rows(self):
        """Real ones, for cases that take no time."""
        program, options = str(BUILD / "tutti"), argparse.Namespace(runs=2)
        return [bench_sim.form_row(program, bench_sim.FORMS[0]),
                *bench_sim.scale_rows(program, options, ("allgather", "ring", 16,
                                                         ["--block", "64"])),
                *bench_sim.scale_rows(program, options, ("allgather", "nosuch", 16,
                                                         ["--block", "64"]))]

    def test_simulator_rows_become_two_tables(self):
        rows = self.sim_rows()
        done = self.report("sim", rows)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        form, wall, processor, memory, events = rows[:5]
        sample = form["samples"]
        self.assertEqual(self.cells("allgather ring, 64 ranks, 1024 a block"),
                         [f"{sample['simulated_us']:.3f}", f"{sample['formula_us']:.3f}",
                          f"{form['value']:.3f} %", "ok"])
        cells = self.cells("allgather ring, 16 ranks, 64 a block")
        self.assertAlmostEqual(float(cells[0]), wall["value"], delta=0.001)
        self.assertAlmostEqual(float(cells[1]), processor["value"], delta=0.001)
        self.assertAlmostEqual(float(cells[2]), memory["value"], delta=0.001)
        self.assertEqual(f"{cells[3]} events", events["against"])
        self.assertEqual(cells[5], "ok")
        self.assertIn("- allgather nosuch, 16 ranks, 64 a block: wall time: ",
                      self.page.read_text())

    def test_value_beyond_target_is_short(self):
        rows = self.sim_rows()[1:5]
        rows[0]["value"] = 61
        self.report("sim", rows)
        self.assertEqual(self.cells("allgather ring, 16 ranks, 64 a block")[5], "time short")
        rows[2]["value"] = 9
        self.report("sim", rows)
        self.assertEqual(self.cells("allgather ring, 16 ranks, 64 a block")[5],
                         "time and memory short")

    def test_benchmarks_keep_each_others_parts(self):
        self.report("predict", [predicted(200000, 190000)])
        first = self.page.read_text()
        self.assertIn("| -5.0 % |", first)
        self.assertIn("No run of `bench/run sim` is in the repository.", first)
        self.report("sim", self.sim_rows())
        both = self.page.read_text()
        self.assertIn("| -5.0 % |", both)
        self.assertNotIn("No run of", both)
        self.assertIn("allgather ring, 16 ranks", both)
        self.report("predict", [predicted(200000, 260000)])
        last = self.page.read_text()
        self.assertNotIn("| -5.0 % |", last)
        self.assertRegex(last, r"\| \+30\.0 %[^\n]*\| short +\|")
        self.assertIn("| 97 % | 50 %", last)
        self.assertEqual(last.split("<!-- bench/run predict -->")[0],
                         both.split("<!-- bench/run predict -->")[0])

    def test_one_command_writes_both_results(self):
        paths = [self.place / name for name in ("sim.json", "predict.json")]
        for path, rows in zip(paths, (self.sim_rows(), [predicted(200000, 190000)])):
            path.write_text(json.dumps({"benchmark": path.stem, "machine": MACHINE, "rows": rows}))
        done = subprocess.run([sys.executable, BENCH / "report.py", *paths, "--out", self.page],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        page = self.page.read_text()
        self.assertLess(page.index("allgather ring, 16 ranks"), page.index("| -5.0 % |"))
        self.assertNotIn("No run of", page)

    def test_selections_are_counted_and_listed(self):
        def chosen(wire, chosen_us, best_us):
            entries = [bench_tuner.Entry("ring", turns_us=chosen_us),
                       bench_tuner.Entry("direct", turns_us=best_us)]
            return bench_tuner.row_of(rounds.Case("allgather", 4096, wire, 4), "ring", entries, {})

        rows = [chosen("shm", [10, 10, 10], [40, 40, 40]), chosen("shm", [8, 16, 12], [5, 8, 8]),
                chosen("tcp", [10, 11, 10], [10, 10, 10]),
                {"what": "allgather tcp 8 B, 4 ranks: chosen over best", "skipped": "a rank died"}]
        rows += bench_tuner.summary_rows("all", rows)
        done = self.report("tuner", rows)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.cells("all"), ["3", f"{1.6 ** (1 / 3):.3f}", "1.60", "1",
                                             "allgather of 4 KiB: ring instead of direct"])
        self.assertEqual(self.cells("TCP, 4 ranks"), ["1", "1.000", "1.00", "0", ""])
        self.assertIn("| ring   | direct | 1.60  | 1.50 to 2.00 | short |", self.page.read_text())
        self.assertIn("3 cases, 3 rounds.", self.page.read_text())
        self.assertIn("- allgather tcp 8 B, 4 ranks: chosen over best: a rank died",
                      self.page.read_text())
        self.assertEqual(self.report("tuner", rows[3:4]).returncode, 1)

    def rails_rows(self, per_host, rounds):
        """The rows of one size and one time, with this number of rounds."""
        def turns(us, cpu, mib):
            return rails.Turns([rails.Turn(us, cpu, [[mib, mib / 2]])] * rounds)

        shape = rails.Shape(4, 4, 2, 100, "cubic")
        rows = bench_rails.case_rows(shape, 4 << 20)
        ours, theirs = turns(1000.0, 0.5, 3.0), turns(2000.0, 0.97, 3.75)
        us = [9.0] * max(1, rounds - 2)
        return [bench_rails.share_row(shape, rows[0], "allgather", 4 << 20, ours, [400.0] * rounds),
                bench_rails.faster_row(rows[2], ours, theirs, "Open MPI allgather/ring"),
                {"what": "time of allgather ring 4 MiB", "against": None, "value": 9.0,
                 "samples": {"us": us}, "collective": "allgather", "algo": "ring",
                 "size": 4 << 20, "cpu": 0.1, "rail_mib": [],
                 "network": {"hosts": 8, "ranks_per_host": per_host, "rails": 1, "rate_mbit": 100,
                             "goodput_mbit": 95.0, "ping_rtt_us": 60.0}}]

    def test_quick_rails_run_is_marked(self):
        self.assertEqual(self.report("rails", self.rails_rows(4, 2)).returncode, 0)
        page = self.page.read_text()
        self.assertIn("nothing of: 16 MiB, 64 MiB, 2048 x 2048, 4096 x 4096, times on hosts of one "
                      "rank and one rail.", page)
        self.assertIn("It has fewer rounds: 1 of 3, 2 of 5.", page)
        self.assertEqual(self.cells("allgather 4 MiB"), ["Open MPI allgather/ring", "3.75", "3.00",
                                                         "1.25 x", "2.00 x", "50 %", "97 %"])
        self.assertEqual(self.report("rails", self.rails_rows(1, 5)).returncode, 0)
        self.assertNotIn("one rank and one rail.", self.page.read_text())
        self.assertNotIn("fewer rounds", self.page.read_text())

    def test_expert_ratios_name_missed_targets(self):
        def place(name, text):
            return f"<!-- bench/run {name} -->\n\n{text}\n\n<!-- end of bench/run {name} -->\n"

        def turn(dynamic, padded):
            return {way: {"time_us": us, "cpu_us": us * os.cpu_count() / 8, "busiest_bytes": sent}
                    for way, us, sent in (("dynamic", dynamic, 100), ("known", 100, 100),
                                          ("padded", padded, 400), ("padded_seen", 200, 200))}

        options, case = argparse.Namespace(tokens=512, bytes=4096, mbit=400, only=None), (4, 1, 0.0)
        rows = list(bench_moe.rows_of(options, case, [turn(100, 300), turn(120, 300)]))
        whats = bench_moe.whats_of(options, case)
        self.page.write_text("before\n" + place("moe: exchanges", "old")
                             + place("moe: cost", "kept") + "after\n")
        done = self.report("moe", rows)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        page = self.page.read_text()
        self.assertEqual(self.cells(whats["padded"]), ["two allgathers and an alltoall", "2.75 x",
                                                       "2.50 to 3.00", "3.60", "short", "4.00", ""])
        self.assertEqual(self.cells(whats["known"]), ["tutti_alltoallv", "1.10 x", "1.00 to 1.20",
                                                      "1.10", "ok", "", "0.500"])
        options.mbit = None
        self.assertEqual([bench_moe.mbit_of(options, nranks) for nranks in (4, 8, 16, 32)],
                         [400, 400, 100, 100])
        for said in ("before\n", "\nafter\n", "\nkept\n", "commit c0ffee, 2026-01-02; 2 rounds",
                     f"2 of 3 rows meet their targets. Not met: {whats['padded']}.\n"):
            self.assertIn(said, page)
        self.assertNotIn("\nold\n", page)
        self.page.write_text(place("gemm", "old"))
        what = bench_gemm.what("allgather-GEMM", 4)
        done = self.report("gemm", [{"what": what, "value": 1.5, "reach": 1.3, "unit": "x",
                                     "better": "higher", "against": "apart", "spread": [1.4, 1.6],
                                     "product": 4096, "link_mbit": 143,
                                     "communication_over_computation": 1.26,
                                     "samples": {"overlapped_ms": [1, 2, 3]}}])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.cells(what), ["apart", "1.50 x", "1.40 to 1.60", "1.30", "ok", "4096",
                                            "143", "1.26"])
        self.assertEqual(self.report("moe", rows).returncode, 1)

    def test_rdma_modes_become_a_table(self):
        def lines(wrong):
            yield {"what": "burst", "mode": "full", "bytes": 4096, "wrong": wrong, "drains": 0,
                   "fences": 2, "signals": 12, "destinations": 2, "transfers": 12,
                   "samples_us": [1.0, 2.0]}
            yield {"what": "fit", "mode": "full", "alpha_us": 123.4, "alpha_error_us": 6.0,
                   "beta_us_per_byte": 0.5, "beta_error_us_per_byte": None}

        case = ("verbs", 4, "pinned", "full")
        skipped = {"what": proxies.what("ofi", 1, "pinned", "full"), "skipped": "no libfabric"}
        rows = [proxies.mode_row(case, list(lines(0))), skipped,
                {"what": "another row", "skipped": "why"}]
        self.page.write_text("before\n\n<!-- bench/run rdma: putsignal -->\n\nold\n\n<!-- end of "
                             "bench/run rdma: putsignal -->\n\nafter\n")
        done = self.report("rdma", rows)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.cells("verbs"), ["4", "pinned", "full", "0", "2", "123 +- 6",
                                               "512.0"])
        self.assertIn("no libfabric", self.cells(skipped["what"]))
        self.report("rdma", [{**rows[0], "error": 70.0}])
        self.assertEqual(self.cells("verbs")[5:], ["noise", "512.0"])
        self.report("rdma", rows)
        page = self.page.read_text()
        self.assertTrue(page.startswith("before\n") and page.endswith("after\n")
                        and "old" not in page and "another row" not in page)
        with self.assertRaises(say.Problem):
            proxies.mode_row(case, list(lines(1)))
        self.page.write_text("a page without a place\n")
        self.assertEqual(self.report("rdma", rows).returncode, 1)
        self.assertEqual(self.page.read_text(), "a page without a place\n")

    def test_rdma_parts_stay_between_marks(self):
        def place(name, text):
            return (f"<!-- bench/run rdma: {name} -->\n\n{text}\n\n<!-- end of bench/run rdma: "
                    f"{name} -->\n")

        of = {"lanes": 4, "segment_bytes": 128 << 10, "outstanding": 4}
        rows = [bench_rdma.row(bench_rdma.slow_names(0.5, "4 outstanding")[0], 0.5, 0.95, "higher",
                               "all", of),
                {"what": fabric.what(8, "fi_pingpong"), "value": 1.25, "reach": None, "unit": "x",
                 "better": "lower", "against": "fi_pingpong", "spread": [1.2, 1.5],
                 "samples": {"ofi": [1, 2, 3], "fi_pingpong": [1, 2, 3]}},
                {"what": bench_rdma.case_name("latency", 8), "skipped": "no machine"}]
        self.page.write_text("".join(place(name, f"old {name}")
                                     for name in ("lanes", "verbs", "ofi", "putsignal")))
        done = self.report("rdma", rows)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.cells(rows[0]["what"]), ["4 lanes, 4 of 128 KiB", "all", "0.500 x",
                                                       "0.950", "short"])
        self.assertEqual(self.cells(rows[1]["what"]), ["fi_pingpong", "1.25 x", "1.20 to 1.50", "",
                                                       ""])
        self.assertEqual(self.cells(rows[2]["what"])[1], "skipped")
        page = self.page.read_text()
        self.assertIn("3 rounds", page)
        self.assertIn("old putsignal", page)
        self.assertNotIn("old ofi", page)
        self.assertEqual(self.report("rdma", []).returncode, 1)
        self.assertEqual(self.page.read_text(), page)

    def test_lane_policies_have_their_tables(self):
        options = argparse.Namespace(max=64, only="")
        reaches = bench_putsignal.lanes_names(options)

        def lines(slower):
            for mode, each in (("put-only", 1), ("full", slower)):
                for nbytes in (4096, 16384, 65536):
                    us = [nbytes * each, nbytes * each * 1.1]
                    yield {"what": "burst", "mode": mode, "transfers": 96, "bytes": nbytes,
                           "hosts": 8, "destinations": 28, "time_us": us[0], "drains": 0,
                           "fences": 28, "samples_us": us}
                yield {"what": "fit", "mode": mode, "hosts": 8, "alpha_us": 10 * each,
                       "alpha_error_us": 1, "beta_us_per_byte": each / 96,
                       "beta_error_us_per_byte": 0}

        of = {"sequenced": list(lines(1.25)), "pinned": list(lines(2)),
              "round-robin": list(lines(2.5))}
        rows = [row for policy, some in of.items()
                for row in bench_putsignal.policy_rows(reaches, policy, some, of["round-robin"])]
        self.assertEqual({row["what"] for row in rows}, set(reaches))
        beside = {row["policy"]: row["value"] for row in rows
                  if row["what"].endswith("of 64 KiB: times as long as round-robin")}
        self.assertEqual(beside, {"sequenced": 0.5, "pinned": 0.8})
        shares_of, costs = report_putsignal.lanes_tables(rows)[1::2]
        self.assertRegex(shares_of, r"\| 64 KiB +\| 0\.800 [^|]+\| 0\.500 [^|]+\| 0\.400 ")
        self.assertRegex(costs, r"\| pinned +\| 0 +\| 1 +\| 20\.0 \+- 1\.0 +\| 0\.02083 [^|]+\| "
                                r"10\.0 ")
        # the other tables have other rows
        self.assertEqual(report_putsignal.parts_of({"rows": rows}), ({}, {}, {}))
        self.assertEqual(report_putsignal.lanes_tables([]), [])

    def test_drains_and_fences_are_shown(self):
        costs = {"coupled": (96, 0), "decoupled": (28, 0), "ordered": (0, 96), "full": (0, 28)}
        by_count = {count: {mode: {"drains": drains, "fences": fences, "destinations": 28}
                            for mode, (drains, fences) in costs.items()} for count in (1, 96)}
        said, table = report_putsignal.counted(by_count)
        self.assertIn("96 transfers to 28 ranks", said)
        self.assertRegex(table, r"(?s)\| coupled +\| 96 +\| 0 .*\| decoupled +\| 28 +\| 0 .*\| "
                                r"ordered +\| 0 +\| 96 .*\| full +\| 0 +\| 28 ")
        # before they were recorded
        self.assertEqual(report_putsignal.counted({96: {"full": {"value": 1}}}), [])
        self.assertEqual(report_putsignal.counted({}), [])

    def test_benchmark_without_page_is_reported(self):
        done = self.report("nosuch", [])
        self.assertEqual(done.returncode, 1)
        self.assertIn("nosuch, which has no page", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
