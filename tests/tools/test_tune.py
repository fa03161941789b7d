#!/usr/bin/env python3
"""tutti tune on real ranks: its output, and its use by jobs: all ranks, a forced name, other ranks,
invalid files."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path

BUILD = Path(os.environ["TUTTI_BUILD_DIR"]).resolve()
TUTTI = BUILD / "tutti"
TIMEOUT_S = 100
QUICK = ("--min", "1K", "--max", "64K", "--factor", 64, "--rounds", 1)


def environment(**more):
    env = {key: value for key, value in os.environ.items()
           if not key.startswith(("TUTTI_RANK", "TUTTI_SIZE", "TUTTI_TUNE", "OMPI_", "PMI",
                                  "SLURM_")) and key not in ("RANK", "WORLD_SIZE")}
    return {**env, **{key: str(value) for key, value in more.items()}}


def tutti(*args, **env):
    return subprocess.run([TUTTI, *map(str, args)], env=environment(**env),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)


def row(coll, size, algo, **more):
    return {"coll": coll, "bytes": size, "algo": f"{coll}_{algo}", "segment_bytes": 16384,
            "streams": 1, "depth": 4, "median_us": 10,
            "min_us": 9, "max_us": 12, "rounds": 5, **more}


def document(ranks, rows, wires="shm", hosts=None):
    return {"format": "tutti-tune-1", "tutti": "0.1.0", "date": "2026-11-21T00:00:00Z",
            "host": "here", "wires": wires, "ranks": ranks,
            "hosts": hosts or [0] * ranks, "complete": True, "rows": rows}


class TuneTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.file = Path(self.place.name) / "tune.json"

    def write(self, *args, **more):
        self.file.write_text(json.dumps(document(*args, **more)))

    def chosen(self, coll, ranks, *args, **env):
        """The selections of a job's ranks, by size: {bytes: (number of ranks, their messages)}; and
        all of stderr."""
        done = tutti("perf", "-n", ranks, coll, "--out-of-place", "--iters", 1, "--check", *args,
                     **{"TUTTI_TUNE_FILE": self.file, "TUTTI_LOG": "info", **env})
        self.assertEqual(done.returncode, 0, done.stderr)
        said = {}
        for rank, size, what in re.findall(rf"^tutti\[(\d+)\] info: {coll} of (\d+) bytes on \d+ "
                                           rf"ranks \([^)]*\): (.*)$", done.stderr, re.M):
            said.setdefault(int(size), {})[int(rank)] = what
        return said, done.stderr


class Measuring(TuneTest):
    def test_file_has_measurements_and_place(self):
        done = tutti("tune", "-n", 3, "--colls", "allreduce,gather", *QUICK, "-o", self.file)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.place.name), ["tune.json"])
        tune = json.loads(self.file.read_text())
        self.assertEqual((tune["format"], tune["ranks"], tune["hosts"], tune["wires"],
                          tune["complete"]),
                         ("tutti-tune-1", 3, [0, 0, 0], "shm", True))
        groups = {}
        for one in tune["rows"]:
            groups.setdefault((one["coll"], one["bytes"]), []).append(one)
            self.assertGreater(one["min_us"], 0)
            self.assertLessEqual(one["min_us"], one["median_us"])
            self.assertLessEqual(one["median_us"], one["max_us"])
        self.assertEqual(list(groups), [("allreduce", 1024), ("allreduce", 65536), ("gather", 340),
                                        ("gather", 21844)])
        for (coll, _), rows in groups.items():
            kept = [one["median_us"] for one in rows if not one.get("dropped")]
            self.assertEqual(kept, sorted(kept))
            self.assertEqual([bool(one.get("dropped")) for one in rows],
                             sorted(bool(one.get("dropped")) for one in rows))
            self.assertEqual(sum(one.get("untuned", False) for one in rows), 1)
            self.assertTrue(all(one["algo"].startswith(coll + "_") for one in rows))
            self.assertGreater(len(rows), 2)

    def test_job_follows_the_first_rows(self):
        self.assertEqual(tutti("tune", "-n", 2, "--colls", "allgather", "--wire", "tcp", *QUICK,
                               "-o", self.file).returncode, 0)
        rows = json.loads(self.file.read_text())["rows"]
        first = {one["bytes"]: one for one in reversed(rows)}
        said, _ = self.chosen("allgather", 2, "--wire", "tcp", "--min", "1K", "--max", "64K",
                              "--factor", 64)
        for size, one in first.items():
            for rank in range(2):
                self.assertIn(f"{one['algo']} as measured, segments of", said[size][rank])

    def test_plan_why_names_file_and_row(self):
        self.write(2, [row("allreduce", 1024, "onestep"),
                       row("allreduce", 65536, "doubling", median_us=7.5)])
        why = ("plan", "why", "allreduce", "64K", "--json")
        for words in (("--ranks", 2), ()):
            run = (*why, *words) if words else ("run", "-n", 2, "--output", "plain", "--", TUTTI,
                                                *why)
            done = tutti(*run, TUTTI_TUNE_FILE=self.file)
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout)
            self.assertEqual((told["algo"], told["by"], told["tune_file"], told["tune_row"]),
                             ("allreduce_doubling", "measurement", str(self.file), 2))
            self.assertIn(f"row 2 of the tune file {self.file}", told["reason"])
            self.assertEqual({one["algo"] for one in told["candidates"] if one["chosen"]},
                             {"allreduce_doubling"})
        text = tutti("plan", "why", "allreduce", "64K", "--ranks", 2,
                     TUTTI_TUNE_FILE=self.file).stdout
        self.assertIn("without the tune file: ", text)
        text = tutti("plan", "why", "allreduce", "64K", "--ranks", 3,
                     TUTTI_TUNE_FILE=self.file).stdout
        self.assertIn("no tune file of TUTTI_TUNE_FILE matches these ranks: it was measured with 2 "
                      "ranks, not 3", text)
        self.assertIn("the shortest simulated time", text)
        self.assertEqual(tutti("plan", "why", "allreduce", "8",
                               TUTTI_TUNE_FILE="/nowhere.json").returncode, 1)

    def test_show_repeats_the_measured_output(self):
        done = tutti("tune", "--colls", "broadcast", *QUICK, "-o", self.file)
        shown = tutti("tune", "--show", self.file)
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertEqual([line for line in done.stdout.splitlines() if "tune.json" not in line],
                         shown.stdout.splitlines())
        self.assertIn("untuned time / best time", shown.stdout)

    def test_plot_has_one_line_per_algorithm(self):
        self.write(4, [row("reduce", size, algo, median_us=size / 10) for algo in ("flat", "chain")
                       for size in (8, 80, 800)])
        plot = Path(self.place.name) / "plot.svg"
        done = tutti("tune", "--show", self.file, "--colls", "reduce", "--plot", plot)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = xml.etree.ElementTree.parse(plot).findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual([len(line.get("points").split()) for line in lines], [3, 3])
        self.assertEqual(tutti("tune", "--show", self.file, "--colls", "gather", "--plot",
                               plot).returncode, 1)

    def test_interruption_writes_partial_results(self):
        with subprocess.Popen([TUTTI, "tune", "-n", "2", "--colls", "allreduce", "--min", "8",
                               "--max", "32M", "--factor", "2", "--rounds", "20",
                               "-o", self.file], env=environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True) as process:
            while not re.match(r" +\d", process.stdout.readline()):     # the first size is done
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            rest = process.communicate(timeout=TIMEOUT_S)[0]
        self.assertEqual(process.returncode, 130)
        tune = json.loads(self.file.read_text())
        self.assertFalse(tune["complete"])
        self.assertEqual(tune["rows"][0]["bytes"], 8)
        self.assertLess(tune["rows"][-1]["bytes"], 32 << 20)
        self.assertIn("INCOMPLETE", rest)
        self.assertEqual(os.listdir(self.place.name), ["tune.json"])

    def test_invalid_arguments_are_reported_once(self):
        self.write(2, [])
        for args, word in ((["--ranks", "1"], "--ranks 1"),
                           (["--colls", "alltoallv"], "alltoallv cannot be tuned"),
                           (["--colls", "broadcats"], "broadcats"),
                           (["--min", "2K", "--max", "1K"], "2048"),
                           (["--rounds", "0"], "--rounds 0"),
                           (["--plot", "x.svg"], "--show"), (["--wire", "pigeon"], "pigeon"),
                           (["allreduce"], "--colls"),
                           (["-o", "/nowhere/tune.json"], "/nowhere"),
                           (["-o", self.place.name + "/"], "is a directory")):
            with self.subTest(args=args):
                done = tutti("tune", *args)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(word, done.stderr)
                self.assertLessEqual(len(done.stderr.splitlines()), 2, done.stderr)


class Using(TuneTest):
    def test_all_ranks_use_rank_0s_file(self):
        self.write(3, [row("allreduce", 1024, "dtree"), row("allreduce", 65536, "ring")])
        script = ('[ "$TUTTI_LOCAL_RANK" = 0 ] || unset TUTTI_TUNE_FILE; exec "$0" perf allreduce '
                  '--out-of-place --iters 1 --min 64 --max 1M --factor 128 --check')
        done = tutti("run", "-n", 3, "--output", "plain", "--", "sh", "-c", script, TUTTI,
                     TUTTI_TUNE_FILE=self.file, TUTTI_LOG="info")
        self.assertEqual(done.returncode, 0, done.stderr)
        for size, algo in ((64, "dtree"), (8192, "dtree"), (1 << 20, "ring")):
            said = re.findall(rf"^tutti\[(\d)\] info: allreduce of {size} bytes .*: "
                              rf"allreduce_(\w+) as measured", done.stderr, re.M)
            self.assertEqual(sorted(set(said)), [(str(rank), algo) for rank in range(3)])

    def test_files_of_other_ranks_are_ignored(self):
        self.write(2, [row("allreduce", 1024, "dtree")])
        script = ('[ "$TUTTI_LOCAL_RANK" = 1 ] || unset TUTTI_TUNE_FILE; exec "$0" perf allreduce '
                  '--iters 1 --min 64 --max 64 --check')
        done = tutti("run", "-n", 2, "--output", "plain", "--", "sh", "-c", script, TUTTI,
                     TUTTI_TUNE_FILE=self.file, TUTTI_LOG="info")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("as measured", done.stderr)

    def test_a_forced_name_wins(self):
        self.write(2, [row("allreduce", 1024, "dtree")])
        said, _ = self.chosen("allreduce", 2, "--algo", "ring", "--min", "1K", "--max", "1K")
        self.assertEqual(set(said[1024]), {0, 1})
        for what in said[1024].values():
            self.assertIn("allreduce_ring as requested", what)

    def test_unsupported_algorithm_is_skipped(self):
        self.write(2, [row("reduce", 65536, "binomial"), row("reduce", 65536, "chain")])
        said, _ = self.chosen("reduce", 2, "--min", "64K", "--max", "1M", "--factor", 16)
        for rank in range(2):
            self.assertIn("reduce_binomial as measured", said[65536][rank])
            self.assertIn("reduce_chain as measured", said[1 << 20][rank])

    def test_missing_collectives_use_the_default(self):
        self.write(2, [row("allreduce", 1024, "dtree")])
        said, _ = self.chosen("broadcast", 2, "--min", "1K", "--max", "1K")
        self.assertNotIn("as measured", said[1024][1])

    def test_mismatching_file_is_reported_once(self):
        self.write(4, [row("allreduce", 1024, "dtree")])
        for ranks, wire, word in ((2, "shm", "it was measured with 4 ranks, not 2"),
                                  (4, "tcp", "measured over shm, not tcp")):
            with self.subTest(ranks=ranks, wire=wire):
                said, stderr = self.chosen("allreduce", ranks, "--wire", wire, "--min", "1K",
                                           "--max", "1K")
                self.assertNotIn("as measured", said[1024][0])
                self.assertEqual(len(re.findall("warn: .*is not used", stderr)), 1)
                self.assertIn(word, stderr)

    def test_matching_file_of_several_is_used(self):
        other = Path(self.place.name) / "two.json"
        self.write(3, [row("allreduce", 1024, "dtree")])
        other.write_text(json.dumps(document(2, [row("allreduce", 1024, "rabenseifner")])))
        for ranks, algo in ((2, "rabenseifner"), (3, "dtree")):
            said, stderr = self.chosen("allreduce", ranks, "--min", "1K", "--max", "1K",
                                       TUTTI_TUNE_FILE=f"{self.file},{other}")
            self.assertIn(f"allreduce_{algo} as measured", said[1024][1])
            self.assertNotIn("is not used", stderr)

    def test_missing_algorithm_is_reported_once(self):
        self.write(2, [row("allreduce", 1024, "nowhere"), row("allreduce", 1024, "dtree")])
        said, stderr = self.chosen("allreduce", 2, "--min", "1K", "--max", "1K")
        self.assertIn("allreduce_dtree as measured", said[1024][1])
        self.assertEqual(len(re.findall("1 of 2 rows is ignored.*allreduce_nowhere", stderr)), 1)

    def test_invalid_file_prevents_the_start(self):
        self.file.write_text(json.dumps(document(2, [row("allreduce", 64, "ring"),
                                                     row("allreduce", "many", "ring")]), indent=1))
        line = 1 + self.file.read_text().splitlines().index('   "bytes": "many",')
        broken = Path(self.place.name) / "broken.json"
        broken.write_text('{\n"format": ')
        for what, said in ((self.file, rf"tune\.json:{line}: rows\[1\]: \"bytes\" must be a whole "
                                       rf"number"), (broken, r"broken\.json:2:\d+: invalid JSON"),
                           ("/nowhere.json", r"/nowhere\.json: No such file"),
                           (self.place.name, "Is a directory")):
            with self.subTest(file=what):
                done = tutti("perf", "-n", 2, "allreduce", "--max", 8, TUTTI_TUNE_FILE=what,
                             TUTTI_TIMEOUT_MS=10000 * TIMEOUT_S)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, said)
        self.assertIn("TUTTI_TUNE_FILE", tutti("info", "--params").stdout)


if __name__ == "__main__":
    unittest.main()
