#!/usr/bin/env python3
"""tutti perf from a user's view: arguments, table, JSON, exit statuses, and ranks started by
others."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
TIMEOUT_S = 100
FIELDS = {
    "coll": str, "ranks": int, "bytes": int, "count": int, "dtype": str, "op": str, "root": int,
    "algo": str, "wire": str,
    "memory": str, "inplace": bool, "iters": int, "time_us": float, "time_us_min": float,
    "time_us_max": float, "time_us_loop": float,
    "algbw_gbs": float, "busbw_gbs": float,
}
COLLECTIVES = ("allreduce", "reduce", "reduce_scatter", "reduce_scatterv", "allgather",
               "allgatherv", "broadcast", "gather",
               "gatherv", "scatter", "scatterv", "alltoall", "alltoallv", "barrier")


def clean_environment():
    return {key: value for key, value in os.environ.items()
            if not key.startswith(("TUTTI_RANK", "TUTTI_SIZE", "OMPI_", "PMI", "SLURM_"))
            and key not in ("RANK", "WORLD_SIZE")}


def perf(*args, environment=None):
    argv = [TUTTI, "perf", *map(str, args)]
    return subprocess.run(argv, env={**clean_environment(), **(environment or {})},
                          stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def rows_of(test, *args):
    done = perf(*args, "--json")
    test.assertEqual(done.returncode, 0, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Arguments(unittest.TestCase):
    def test_invalid_arguments_are_reported_once(self):
        cases = [
            ([], "missing argument: a collective"),
            (["alreduce"], "alreduce"),
            (["allreduce", "reduce"], "reduce"),
            (["send"], "send"),
            (["allreduce", "--ranks", "0"], "--ranks 0"),
            (["allreduce", "--ranks", "two"], "--ranks two"),
            (["allreduce", "--wire", "pigeon"], "pigeon"),
            (["allreduce", "--wire", "shm,"], "--wire"),
            (["allreduce", "--algo", "bruck"], "bruck"),
            (["allreduce", "--min", "8Q"], "8Q"),
            (["allreduce", "--min", "-8"], "-8"),
            (["allreduce", "--min", "99999999999999999999"], "--min"),
            (["allreduce", "--min", "2K", "--max", "1K"], "2048"),
            (["allreduce", "--factor", "1"], "--factor 1"),
            (["allreduce", "--dtype", "f31"], "f31"),
            (["allreduce", "--op", "mean"], "mean"),
            (["allreduce", "--op", "bor"], "f32"),
            (["allreduce", "--quant", "u7"], "--quant u7"),
            (["alltoall", "--quant", "minmax8"], "can be quantized"),
            (["allreduce", "--quant", "minmax8", "--op", "max"], "max"),
            (["allreduce", "--quant", "minmax8", "--dtype", "i32"], "i32"),
            (["reduce", "--root", "2"], "--root"),
            (["allreduce", "--iters", "0"], "--iters 0"),
            (["allreduce", "--mem", "stone"], "stone"),
            (["allreduce", "--in-place", "--out-of-place"], "exclude"),
            (["sendrecv", "--in-place"], "has no in-place form"),
            (["pingpong", "--ranks", "1"], "at least 2"),
            (["allreduce", "--fast"], "--fast"),
        ]
        for args, word in cases:
            with self.subTest(args=args):
                done = perf(*args)
                self.assertEqual(done.returncode, 2)
                self.assertIn(word, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertLessEqual(len(done.stderr.splitlines()), 2, done.stderr)

    def test_help_names_every_option(self):
        text = perf("--help").stdout
        for option in ("ranks", "wire", "algo", "min", "max", "factor", "dtype", "op", "root",
                       "iters", "warmup", "in-place",
                       "check", "json", "mem", "interactive"):
            self.assertIn(f"--{option}", text)

    def test_sizes_increase_by_the_factor(self):
        rows = rows_of(self, "allreduce", "--min", 16, "--max", "3K", "--factor", 8, "--iters", 2,
                       "--out-of-place")
        self.assertEqual([row["bytes"] for row in rows], [16, 128, 1024])

    def test_sizes_rounded_alike_run_once(self):
        rows = rows_of(self, "allgather", "--ranks", 3, "--min", 1, "--max", 24, "--factor", 2,
                       "--iters", 1, "--in-place")
        self.assertEqual([row["bytes"] for row in rows], [12])


class Json(unittest.TestCase):
    def test_every_collective_has_typed_fields(self):
        rows = rows_of(self, "all", "--min", 1000, "--max", 1000, "--iters", 2, "--check")
        for row in rows:
            for field, kind in FIELDS.items():
                self.assertIsInstance(row.get(field), kind, f"{field} of {row}")
            self.assertEqual(row["ranks"], 2)
            self.assertEqual(row["wrong"], 0, row)
            self.assertLessEqual(row["time_us_min"], row["time_us"])
            self.assertLessEqual(row["time_us"], row["time_us_max"])
        self.assertEqual(tuple(dict.fromkeys(row["coll"] for row in rows)), COLLECTIVES)
        outside = {row["coll"] for row in rows if not row["inplace"]}
        inside = {row["coll"] for row in rows if row["inplace"]}
        self.assertEqual(outside, set(COLLECTIVES))
        self.assertEqual(outside - inside, {"barrier"})

    def test_busbw_factors_match_nccl_tests(self):
        factors = {"allreduce": 4 / 3, "allgather": 2 / 3, "reduce_scatter": 2 / 3,
                   "alltoall": 2 / 3, "gather": 2 / 3,
                   "scatter": 2 / 3, "broadcast": 1, "reduce": 1, "sendrecv": 1, "pingpong": 1}
        for coll, factor in factors.items():
            row = rows_of(self, coll, "--ranks", 3, "--min", "96K", "--max", "96K", "--iters", 2,
                          "--out-of-place")[0]
            self.assertEqual(row["bytes"], 96 << 10)
            self.assertAlmostEqual(row["algbw_gbs"], row["bytes"] / row["time_us"] / 1e3,
                                   delta=0.001 + row["algbw_gbs"] / 100)
            self.assertAlmostEqual(row["busbw_gbs"], factor * row["algbw_gbs"], delta=0.001)

    def test_without_check_wrong_is_null(self):
        row = rows_of(self, "allreduce", "--min", 8, "--max", 8, "--iters", 1)[0]
        self.assertIn("wrong", row)
        self.assertIsNone(row["wrong"])

    def test_row_repeats_the_request(self):
        row = rows_of(self, "reduce", "--wire", "tcp", "--algo", "binomial", "--dtype", "bf16",
                      "--op", "max", "--root", 1,
                      "--min", "1K", "--max", "1K", "--iters", 3, "--in-place", "--check", "--mem",
                      "mem_alloc")[0]
        wanted = {"wire": "tcp", "algo": "binomial", "dtype": "bf16", "op": "max", "root": 1,
                  "count": 512, "inplace": True,
                  "wrong": 0, "memory": "mem_alloc"}
        self.assertEqual({key: row[key] for key in wanted}, wanted)

    def test_every_type_and_operation_is_right(self):
        for dtype, op in (("i8", "sum"), ("u8", "bxor"), ("i16", "avg"), ("u16", "min"),
                          ("i32", "band"), ("u32", "prod"),
                          ("i64", "premul_sum"), ("u64", "bor"), ("f16", "avg"), ("bf16", "sum"),
                          ("f64", "premul_sum"),
                          ("f8e4m3", "sum"), ("f8e5m2", "max"), ("f32", "avg")):
            with self.subTest(dtype=dtype, op=op):
                for row in rows_of(self, "allreduce", "--dtype", dtype, "--op", op, "--min", 1000,
                                   "--max", "300K", "--factor",
                                   300, "--iters", 1, "--check"):
                    self.assertEqual(row["wrong"], 0, row)


    def test_spoiled_quantized_numbers_are_detected(self):
        cases = (("allreduce", "minmax8", "f32"), ("reduce", "zero4", "bf16"),
                 ("reduce_scatter", "e5m2", "f64"), ("allgather", "zero8", "f16"),
                 ("broadcast", "minmax4", "f32"))
        for coll, quant, dtype in cases:
            args = (coll, "--quant", quant, "--dtype", dtype, "--check", "--min", "20000", "--max",
                    "20000", "--iters", "1", "--ranks", "2")
            for row in rows_of(self, *args):
                self.assertEqual((row["quant"], row["wrong"]), (quant, 0), row)
            self.assertEqual(perf(*args, "--spoil", "3").returncode, 1)

    def test_iterations_are_at_least_five(self):
        self.assertEqual(rows_of(self, "allreduce", "--max", 8, "--iters", 7)[0]["iters"], 7)
        # a busy machine may be slow with the small one, too: one of several tries shows it
        tried = []
        while not tried or tried[-1][0] <= tried[-1][1] and len(tried) < 5:
            tried.append([row["iters"] for row in rows_of(self, "allreduce", "--min", 8, "--max",
                                                          "8M", "--factor", 1 << 20,
                                                          "--out-of-place")])
            self.assertGreaterEqual(min(tried[-1]), 5)
        # all are five if all is slow
        self.assertTrue(tried[-1][0] > tried[-1][1] or tried == [[5, 5]] * len(tried), tried)


class Table(unittest.TestCase):
    def test_table_has_the_nccl_tests_format(self):
        done = perf("allreduce", "--min", 8, "--max", 512, "--factor", 8, "--iters", 2, "--check")
        lines = done.stdout.splitlines()
        heads = [line.split() for line in lines if line.startswith("#") and " busbw " in line]
        rows = [line.split() for line in lines if not line.startswith("#")]
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(heads, [["#", "size", "count", "type", "redop", "root", "algorithm"] +
                                 ["time", "algbw", "busbw", "#wrong"] * 2])
        self.assertEqual([row[:5] for row in rows], [[str(n), str(n // 4), "f32", "sum", "-1"]
                                                     for n in (8, 64, 512)])
        for row in rows:
            self.assertEqual(len(row), 14)
            self.assertEqual((row[9], row[13]), ("0", "0"))
            self.assertGreater(float(row[6]), 0)
        self.assertTrue(lines[-2].startswith("# Out of bounds values : 0 OK"), lines[-2])
        self.assertTrue(lines[-1].startswith("# Avg bus bandwidth"), lines[-1])

    def test_unmeasured_values_are_not_numbers(self):
        done = perf("sendrecv", "--min", 64, "--max", 64, "--iters", 1)
        row = [line for line in done.stdout.splitlines() if not line.startswith("#")][0].split()
        self.assertEqual(row[9:], ["N/A"] * 5)

    def test_each_collective_begins_with_its_name(self):
        done = perf("all", "--min", 64, "--max", 64, "--iters", 1)
        names = [line[2:].split()[0] for line in done.stdout.splitlines() if line.startswith("# ")
                 and "out-of-place" in line]
        self.assertEqual(tuple(names), COLLECTIVES)

    def test_forced_algorithm_skips_other_collectives(self):
        rows = rows_of(self, "all", "--algo", "ring", "--ranks", 3, "--min", 600, "--max", 600,
                       "--iters", 1, "--check")
        self.assertEqual({row["algo"] for row in rows}, {"ring"})
        self.assertEqual({row["coll"] for row in rows},
                         {"allreduce", "allgather", "allgatherv", "reduce_scatter",
                          "reduce_scatterv"})


class Timers(unittest.TestCase):
    PARTS = ("send_us", "forward_us", "reduce_us", "copy_us", "wire_us", "wait_us")

    def test_phases_of_a_call_are_shown(self):
        for wire in ("shm", "tcp"):
            rows = rows_of(self, "allreduce", "-n", 2, "--wire", wire, "--algo", "ftar", "--min",
                           "1M", "--max", "4M", "--iters", 3, "--timers")
            self.assertEqual([row["bytes"] for row in rows], [1 << 20, 1 << 20, 4 << 20, 4 << 20])
            for row in rows:
                self.assertAlmostEqual(sum(row[part] for part in self.PARTS), row["call_us"],
                                       delta=0.01)
                self.assertGreater(row["reduce_us"], 0)
                self.assertGreater(row["send_us"], 0)

    def test_bytes_in_flight_respect_the_limit(self):
        bounds = {"TUTTI_FTAR_CHUNK_BYTES": "262144", "TUTTI_FTAR_CHUNKS": "2"}
        for wire in ("shm", "tcp"):
            done = perf("allreduce", "-n", 3, "--wire", wire, "--algo", "ftar", "--min", "8M",
                        "--max", "8M", "--iters", 2, "--check", "--timers",
                        "--json", environment=bounds)
            self.assertEqual(done.returncode, 0, done.stderr)
            for row in map(json.loads, done.stdout.splitlines()):
                self.assertEqual(row["wrong"], 0)
                self.assertGreater(row["in_flight_max_bytes"], 0)
                self.assertLessEqual(row["in_flight_max_bytes"], 2 * 262144)

    def test_transfer_and_reduction_sizes_differ(self):
        sizes = {"TUTTI_FTAR_PIECE_BYTES": "100000", "TUTTI_FTAR_REDUCE_BYTES": "16384"}
        for wire in ("shm", "tcp"):
            done = perf("allreduce", "-n", 3, "--wire", wire, "--algo", "ftar", "--min", "2M",
                        "--max", "2M", "--iters", 2, "--check", "--json",
                        environment=sizes)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([row["wrong"] for row in map(json.loads, done.stdout.splitlines())],
                             [0, 0])
        refused = perf("allreduce", "-n", 2, "--min", 8, "--max", 8,
                       environment={"TUTTI_FTAR_REDUCE_BYTES": "10000"})
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("TUTTI_FTAR_REDUCE_BYTES is 10000: must be 0, or a power of two of at "
                      "least 8192", refused.stderr)

    def test_too_short_calls_have_no_phases(self):
        done = perf("allreduce", "-n", 2, "--min", 8, "--max", 8, "--iters", 3, "--timers")
        self.assertIn("out of place: no phases: the call is too short", done.stdout)
        self.assertNotIn("call_us", rows_of(self, "allreduce", "-n", 2, "--min", 8, "--max", 8,
                                            "--iters", 3, "--timers")[0])


class Progress(unittest.TestCase):
    def test_progress_needs_a_terminal(self):
        self.assertEqual(perf("allreduce", "--max", 8, "--iters", 1).stderr, "")
        ours, theirs = os.openpty()
        with subprocess.Popen([TUTTI, "perf", "allreduce", "--max", "8", "--iters", "1"],
                              env=clean_environment(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
                              text=True) as process:
            table = process.communicate(timeout=TIMEOUT_S)[0]
        os.close(theirs)
        said = os.read(ours, 4096).decode()
        os.close(ours)
        self.assertIn("2 of 2: allreduce, 8 bytes, in place", said)
        self.assertNotIn("2 of 2", table)


def numbers_of_refusal(test, done):
    """Needed by all ranks; buffers and memory of the library of each rank; available."""
    found = re.search(r"out of memory: 2 ranks on this host need (\d+) bytes \(each rank (\d+) "
                      r"for buffers and (\d+) for the library\), and (\d+) are available",
                      done.stderr)
    test.assertTrue(found, done.stderr)
    needed, buffers, own, available = map(int, found.groups())
    test.assertEqual(needed, 2 * (buffers + own))
    test.assertLess(available, needed)
    return needed, buffers, own, available


def peak_bytes(*args):
    """The peak memory of a rank, and the announced bytes of a rank."""
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(
            [TUTTI, "perf", *map(str, args)], env={**clean_environment(), "TUTTI_LOG": "info"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log) as process:
        _, status, usage = os.wait4(process.pid, 0)     # with its ranks
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        text = log.read()
    found = re.search(r"memory of a rank: (\d+) bytes of buffers, at most (\d+) of the library",
                      text)
    assert process.returncode == 0 and found, text
    return usage.ru_maxrss * 1024, int(found[1]) + int(found[2])


class Memory(unittest.TestCase):
    def test_oversized_buffers_are_refused_with_numbers(self):
        for memory in ("malloc", "mem_alloc"):
            done = perf("allreduce", "-n", "2", "--min", "1024G", "--max", "1024G", "--mem", memory)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(numbers_of_refusal(self, done)[1], 2 * 2**40)      # two buffers
            self.assertNotIn("SIGKILL", done.stderr)

    def test_oversized_exchanges_are_refused_with_numbers(self):
        for size in ("64G", "1024G"):
            done = perf("a2av", "-n", "2", "--bytes", size)
            self.assertNotEqual(done.returncode, 0)
            numbers_of_refusal(self, done)

    def test_refusal_includes_memory_of_the_library(self):
        """Copies of the input, packed values, and the work buffer of a named algorithm."""
        gib = 2**30
        size = 1024 * gib
        plain = self.refused_own("allreduce", "--op", "sum")
        self.assertGreater(plain, 16 * 2**20)       # regions for received data
        self.assertLess(plain, gib)
        self.assertEqual(self.refused_own("allreduce", "--op", "premul_sum") - plain, size)
        packed = self.refused_own("allreduce", "--quant", "minmax8") - plain
        self.assertGreater(packed, 2 * size // 4)   # src and dst, a byte for each f32
        self.assertLess(packed, 2 * size // 4 * 1.05)
        self.assertGreaterEqual(self.refused_own("alltoall", "--algo", "bruck") - plain, size // 2)

    def refused_own(self, *args):
        done = perf(*args, "-n", "2", "--min", "1024G", "--max", "1024G")
        self.assertNotEqual(done.returncode, 0)
        return numbers_of_refusal(self, done)[2]

    @unittest.skipIf("sanitize" in os.environ.get("CFLAGS", ""), "sanitizers use more memory")
    def test_memory_is_at_most_what_is_announced(self):
        """The peak of a rank, less that of a run without buffers."""
        idle = peak_bytes("barrier", "-n", 4, "--iters", 1)[0]
        for args in (("allreduce", "--wire", "tcp"), ("alltoall", "--wire", "tcp"),
                     ("allreduce", "--op", "premul_sum"), ("allreduce", "--quant", "minmax8"),
                     ("alltoall", "--algo", "bruck", "--wire", "tcp"),
                     ("reduce", "--algo", "binomial")):
            peak, announced = peak_bytes(*args, "-n", 4, "--min", "32M", "--max", "32M", "--iters",
                                         2)
            with self.subTest(args=args, peak=peak, idle=idle, announced=announced):
                self.assertGreater(peak - idle, 2 * 32 * 2**20 * 0.9)
                self.assertLess(peak - idle, announced)


class ExitStatus(unittest.TestCase):
    def test_wrong_elements_are_counted_and_fail(self):
        done = perf("allreduce", "--ranks", 3, "--min", "1K", "--max", "1K", "--iters", 1,
                    "--check", "--spoil", 5, "--json")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 1)
        self.assertEqual([row["wrong"] for row in rows], [15, 15])
        done = perf("allreduce", "--min", "1K", "--max", "1K", "--iters", 1, "--check", "--spoil",
                    5)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("# Out of bounds values : 20 FAILED", done.stdout)

    def test_library_error_is_a_failure(self):
        done = perf("allreduce", "--ranks", 1, environment={"TUTTI_EAGER_BYTES": "many"})
        self.assertEqual(done.returncode, 1)
        self.assertIn('TUTTI_EAGER_BYTES is "many"', done.stderr)

    def test_contradictory_environment_gives_status_2(self):
        done = perf("allreduce", environment={"TUTTI_RANK": "0"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("TUTTI_SIZE", done.stderr)


class Starting(unittest.TestCase):
    def test_one_rank_needs_no_launcher(self):
        row = rows_of(self, "allreduce", "--ranks", 1, "--min", 64, "--max", 64, "--iters", 1,
                      "--check")[0]
        self.assertEqual((row["ranks"], row["wire"], row["busbw_gbs"], row["wrong"]),
                         (1, "self", 0, 0))

    def test_different_rank_count_gives_status_2(self):
        done = perf("allreduce", "--ranks", 4, environment={"TUTTI_RANK": "1", "TUTTI_SIZE": "3",
                                                            "TUTTI_RENDEZVOUS": "tcp://127.0.0.1:1"})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, "tutti perf: --ranks 4 differs from the 3 ranks of the "
                                      "current job\n")

    def test_ranks_of_a_job_are_used(self):
        with tempfile.TemporaryDirectory() as place:
            argv = [TUTTI, "perf", "broadcast", "--ranks", "3", "--min", "64", "--max", "64",
                    "--iters", "1", "--check", "--json"]
            ranks = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={
                **clean_environment(), "TUTTI_RANK": str(rank), "TUTTI_SIZE": "3",
                "TUTTI_RENDEZVOUS": f"file://{place}/meet"})
                for rank in range(3)]
            outputs = [rank.communicate(timeout=TIMEOUT_S)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0, 0])
        self.assertEqual([len(output.splitlines()) for output in outputs], [2, 0, 0])
        self.assertEqual(json.loads(outputs[0].splitlines()[0])["ranks"], 3)


class Exchanges(unittest.TestCase):
    def test_every_method_delivers_its_data(self):
        done = perf("a2av", "--ranks", 3, "--tokens", 20, "--bytes", 100, "--experts", 6, "--top",
                    2, "--skew", 1, "--dealt", "--iters", 1, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["method"]: row for row in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(len(rows), 10)
        self.assertLess(rows["dynamic"]["sent_bytes"], rows["padded"]["sent_bytes"])
        self.assertEqual(rows["dynamic"]["sent_bytes"], rows["replay"]["sent_bytes"])
        for row in rows.values():
            self.assertGreaterEqual(row["busiest_bytes"], row["sent_bytes"])
        # all send the same
        self.assertEqual(rows["padded"]["busiest_bytes"], rows["padded"]["sent_bytes"])
        self.assertGreater(rows["dynamic"]["held_bytes"], 0)
        self.assertGreater(rows["replay"]["tc_us"], 0)
        self.assertGreater(rows["replay"]["cpu_us"], rows["replay"]["tc_us"])

    def test_invalid_arguments_give_status_2(self):
        for args, says in ((["--methods", "dynamic,late"], "late"), (["--top", "0"], "--top 0"),
                           (["--ranks", "1", "--experts", "2", "--top", "3"], "from 3 (--top)")):
            done = perf("a2av", *args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
