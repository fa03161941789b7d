#!/usr/bin/env python3
"""tutti plan why: it prints the algorithm that the library really selects, on all ranks, and the
reason."""

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

TUTTI = str(Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti")
FOUR_BUILDINGS = str(Path(os.environ["TUTTI_SOURCE_DIR"]) / "docs/simulation/four-buildings-1024.json")


def run(*args, env=None, expect=0):
    done = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **(env or {})})
    if done.returncode != expect:
        raise AssertionError(f"{args}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def why(*args, env=None):
    return json.loads(run(TUTTI, "plan", "why", *args, "--json", env=env).stdout)


class Why(unittest.TestCase):
    def test_the_choice_is_the_fastest_candidate(self):
        for coll in ("allreduce", "broadcast", "allgather", "alltoall", "reduce_scatter"):
            for size in ("64", "32K", "1M"):
                told = why(coll, size, "--ranks", "8")
                self.assertEqual(told["by"], "simulation")
                simulated = [c for c in told["candidates"] if "simulated_us" in c]
                chosen, = [c for c in told["candidates"] if c["chosen"]]
                self.assertEqual(chosen["algo"], told["algo"])
                self.assertLessEqual(chosen["simulated_us"],
                                     1.06 * min(c["simulated_us"] for c in simulated))
                self.assertTrue(all(c["bound"] and c["simulated_us"] > 0 for c in simulated))

    def test_segments_and_lanes_have_their_reason(self):
        compared = 0
        for coll, size, *where in (("allreduce", "64"), ("allreduce", "256K"), ("allreduce", "1M"),
                                   ("broadcast", "1M"), ("allgather", "256K")):
            told = why(coll, size, "--ranks", "8", *where)
            of_algo = [c for c in told["candidates"] if c["algo"] == told["algo"]]
            chosen, = [c for c in of_algo if c["chosen"]]
            others = [c["simulated_us"] for c in of_algo if not c["chosen"] and "simulated_us" in c]
            reason = told["segments_reason"]
            if not others:
                self.assertEqual(reason, "the defaults; no alternatives were tried")
                continue
            compared += 1
            if reason.startswith("the defaults; no alternative that"):
                self.assertLessEqual(chosen["simulated_us"], min(others))
            elif reason.startswith("the defaults; the best"):
                less, wanted = map(float, re.search(r"takes ([\d.]+) % less time \(must be at "
                                                    r"least (\d+) %\)$", reason).groups())
                self.assertAlmostEqual(less, 100 * (1 - min(others) / chosen["simulated_us"]),
                                       delta=0.1)
                self.assertGreater(min(others), chosen["simulated_us"] * (1 - wanted / 100) - 0.01)
            else:
                found = re.match(r"(\d+) % less time than with the defaults \((\d+) B", reason)
                less, ruled = map(int, found.groups())
                by_rule = [c["simulated_us"] for c in of_algo if c["segment_bytes"] == ruled
                           and not c["chosen"] and "simulated_us" in c]
                self.assertTrue(any(abs(less - 100 * (1 - chosen["simulated_us"] / us)) < 1
                                    for us in by_rule), told)
        self.assertGreater(compared, 0)     # otherwise no reason was compared with any numbers
        self.assertIn("the defaults; no alternatives were tried",
                      run(TUTTI, "plan", "why", "allreduce", "64", "--ranks", "8").stdout)

    def test_closed_forms_apply_if_requested(self):
        self.assertEqual(why("allreduce", "1M", env={"TUTTI_TUNE": "model"})["by"], "formula")
        many = why("allreduce", "1M", "--ranks", "65", "--cores", "4")
        self.assertEqual(many["by"], "formula")
        self.assertIn("too many ranks", many["reason"])
        self.assertEqual(why("allgather", "4K", "--topo", "four-buildings", "--ranks", "1024",
                             env={"TUTTI_TUNE": "model"})["by"], "formula")

    def test_unsimulated_candidates_are_not_claimed(self):
        for args in (("allreduce", "1M", "--ranks", "1"), ("barrier", "--ranks", "4"),
                     ("allreduce", "1M", "--ranks", "65", "--cores", "4")):
            told = run(TUTTI, "plan", "why", *args).stdout
            self.assertIn("selected by cost formulas", told)
            self.assertNotIn("; simulated with", told)
        self.assertIn("; simulated with 1024 B", run(TUTTI, "plan", "why", "allreduce", "1K",
                                                     "--ranks", "4").stdout)

    def test_described_machine_is_simulated(self):
        told = why("allgather", "1M", "--topo", "four-buildings", "--ranks", "32")
        self.assertEqual(told["hosts"] * 8, 32)
        self.assertEqual(told["by"], "simulation")

    def test_many_ranks_on_hosts_are_walked(self):
        for coll, size in (("allgather", "4K"), ("allreduce", "1M"), ("broadcast", "64K")):
            told = why(coll, size, "--topo", "four-buildings", "--ranks", "1024")
            self.assertEqual(told["by"], "walk")
            self.assertIn("walked time", told["reason"])
            walked = [c for c in told["candidates"] if "walked_us" in c]
            chosen, = [c for c in told["candidates"] if c["chosen"]]
            self.assertLessEqual(chosen["walked_us"], 1.02 * min(c["walked_us"] for c in walked))
            self.assertFalse(any("simulated_us" in c for c in told["candidates"]))
        text = run(TUTTI, "plan", "why", "allgather", "4K", "--topo", "four-buildings", "--ranks",
                   "1024").stdout
        self.assertIn("walked us", text)
        self.assertNotIn("simulated us", text)

    def test_walked_candidates_can_be_simulated(self):
        told = why("allgather", "64", "--topo", FOUR_BUILDINGS, "--ranks", "128", "--simulate")
        both = [c for c in told["candidates"] if "walked_us" in c]
        self.assertGreater(len(both), 3)
        for c in both:
            self.assertLess(c["walked_us"], 2 * c["simulated_us"])
            self.assertGreater(c["walked_us"], c["simulated_us"] / 2)

    def test_machine_description_is_logged_once(self):
        for where in (("--topo", "four-buildings", "--ranks", "32"), ("--ranks", "4")):
            done = run(TUTTI, "run", "-n", "3", "--output", "plain", "--", TUTTI, "plan", "why",
                       "allgather", "64K", *where)
            self.assertEqual(done.stdout.count("because: "), 1, done.stdout)

    def test_job_uses_the_printed_selection(self):
        job = [TUTTI, "run", "-n", "3", "--", TUTTI]
        told = run(*job, "plan", "why", "allreduce", "64K").stdout
        taken = run(*job, "perf", "allreduce", "--min", "64K", "--max", "64K", "--out-of-place",
                    "--json").stdout
        line = next(line for line in told.splitlines() if "because" not in line
                    and "allreduce of" in line)
        named = line.split(": ")[-1].strip()
        rows = [json.loads(line[line.index("{"):]) for line in taken.splitlines() if "{" in line]
        algos = ({row["algo"] for row in rows if "algo" in row}
                 | {p["algo"] for row in rows for p in row.values() if isinstance(p, dict)
                    and "algo" in p})
        self.assertTrue(algos, taken)
        # each job measures the constants again, so near ties may have other results; but each is
        # one of the candidates
        candidates = {c["algo"] for c in why("allreduce", "64K", "--ranks", "3")["candidates"]}
        self.assertIn(named, candidates)
        for algo in algos:
            self.assertIn("allreduce_" + algo.removeprefix("allreduce_"), candidates)

    def test_ranks_agree_on_selection_method(self):
        # rank 0's setting applies to all; if ranks followed their own, calls would end with
        # MISMATCH
        for first, others in (("sim", "model"), ("model", "sim")):
            script = f'[ "$TUTTI_LOCAL_RANK" = 0 ] && export TUTTI_TUNE={first} || export TUTTI_TUNE={others}; ' \
                     f'exec {TUTTI} perf all --min 64 --max 64K --factor 32 --iters 2 --warmup 0 --check'
            done = run(TUTTI, "run", "-n", "4", "--", "sh", "-c", script)
            self.assertNotIn("MISMATCH", done.stderr)
            self.assertIn("0 OK", done.stdout)

    def test_ranks_share_their_host_cores(self):
        cores = sorted(os.sched_getaffinity(0))[:2]
        bound = (f"exec taskset -c $(( TUTTI_LOCAL_RANK % 2 ? {cores[-1]} : {cores[0]} )) {TUTTI} "
                 f"plan why allreduce 64 --json")
        for ranks in (2, 3):
            told = json.loads(run(TUTTI, "run", "-n", str(ranks), "--bind", "none", "--output",
                                  "plain", "--", "sh", "-c", bound).stdout)
            self.assertEqual(told["cores"], len(cores))
        alike = f"exec taskset -c {cores[0]} {TUTTI} plan why allreduce 64 --json"
        told = json.loads(run(TUTTI, "run", "-n", "2", "--bind", "none", "--output", "plain", "--",
                              "sh", "-c", alike).stdout)
        self.assertEqual(told["cores"], 1)

    def test_single_items_have_no_plural(self):
        told = run(TUTTI, "plan", "why", "allreduce", "64", "--ranks", "1", "--cores", "1").stdout
        self.assertIn("64 B by 1 rank on 1 host: ", told)
        self.assertRegex(told, r"  1 core per host; a switch to|one core per rank")
        self.assertNotRegex(told, r"\b1 (ranks|streams|hosts|cores|rounds)\b")

    def test_invalid_arguments_are_reported(self):
        for args, word in (((), "a collective and a size are needed"),
                           (("allreduce", "x"), "must be a size"),
                           (("sum", "8"), "unknown collective"),
                           (("allgatherv", "8"), "not supported"),
                           (("broadcast", "8", "--root", "9"), "invalid root: 9"),
                           (("allreduce", "8", "--wire", "smoke"), "shm or tcp"),
                           (("allreduce", "8", "ring"), 'unexpected argument "ring"')):
            done = subprocess.run([TUTTI, "plan", "why", *args], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertNotEqual(done.returncode, 0, args)
            self.assertIn(word, done.stderr, args)
        done = run(TUTTI, "perf", "barrier", "-n", "2", env={"TUTTI_TUNE": "maybe"}, expect=1)
        self.assertIn('invalid TUTTI_TUNE "maybe"', done.stderr)


if __name__ == "__main__":
    unittest.main()
