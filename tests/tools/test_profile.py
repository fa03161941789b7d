#!/usr/bin/env python3
"""tutti profile: tables, JSON and the Chrome trace, of small dumps and of a real job."""

import ast
import json
import os
import pickle
import subprocess
import tempfile
import unittest
from collections import defaultdict
from pathlib import Path

from test_analyze import MS, comm, head, op, text

BUILD = Path(os.environ["TUTTI_BUILD_DIR"])
TUTTI = BUILD / "tutti"
PROGRAM = BUILD / "tests" / "tools" / "prog_profile"
TORCH = Path(os.environ["TUTTI_SOURCE_DIR"]) / os.environ.get("TUTTI_TEST_TORCH", "build/torch") / "bin" / "python"
TIMEOUT_S = 250


def ns(event, key="ts"):
    """Microseconds with three decimals, as an integer."""
    return round(event[key] * 1000)


class Profile(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def write(self, rank, *lines):
        (self.folder / f"tutti-trace.9f3c.{rank}.jsonl").write_text(text(*lines))

    def run_tool(self, *args):
        return subprocess.run(
            [TUTTI, "profile", *map(str, args)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def profiled(self, *args):
        done = self.run_tool("--json", *args, self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def traced(self):
        """The events of the Chrome trace, which are checked."""
        path = self.folder / "trace.json"
        done = self.run_tool("--perfetto", path, self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        document = json.loads(path.read_text())
        self.assertEqual(set(document), {"displayTimeUnit", "traceEvents", "otherData"})
        self.assertEqual(document["displayTimeUnit"], "ns")
        self.check_events(document["traceEvents"])
        return document["traceEvents"]

    def check_events(self, events):
        """Each track has a name, its slices nest, and each flow leads forwards from slice to
        slice: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU"""
        tracks, flows, named = defaultdict(list), defaultdict(list), set()
        for e in events:
            self.assertIn(e["ph"], "MXstf")
            self.assertTrue(isinstance(e["pid"], int) and isinstance(e["tid"], int) and e["name"])
            if e["ph"] == "M" and e["name"] == "thread_name":
                named.add((e["pid"], e["tid"]))
            elif e["ph"] == "X":
                self.assertGreaterEqual(ns(e), 0)
                self.assertGreater(ns(e, "dur"), 0)
                tracks[e["pid"], e["tid"]].append((ns(e), ns(e) + ns(e, "dur")))
            elif e["ph"] != "M":
                flows[e["cat"], e["id"]].append(e)
        self.assertEqual(set(tracks), named)
        for slices in tracks.values():
            inside = []
            for begin, end in sorted(slices, key=lambda s: (s[0], -s[1])):
                while inside and inside[-1] <= begin:
                    inside.pop()
                self.assertTrue(not inside or end <= inside[-1], f"{begin} to {end}: {inside}")
                inside.append(end)
        for steps in flows.values():
            phases = "".join(e["ph"] for e in steps)
            self.assertRegex(phases, "^st*f$")
            self.assertEqual([ns(e) for e in steps], sorted(ns(e) for e in steps))
            self.assertEqual(steps[-1]["bp"], "e")
            self.assertEqual(len({e["pid"] for e in steps}), len(steps))
            for e in steps:
                self.assertTrue(any(a <= ns(e) < b for a, b in tracks[e["pid"], e["tid"]]), e)

    def three_ranks(self):
        """Rank 2 calls the second allreduce 40 ms after the others."""
        for rank in range(3):
            late = 40 * MS * (rank == 2)
            self.write(
                rank,
                head(rank, 3, host="a"),
                comm(3),
                op(1, 0),
                op(2, 1, called=1010 * MS + late, started=1010 * MS + late, ended=1060 * MS),
            )

    def test_tables_name_the_late_caller(self):
        self.three_ranks()
        done = self.run_tool(self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("job 9f3c: 3 ranks, 3 dumps, 6 operations in 0.060 s", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^d&p +allreduce +ring +4.0 KiB +6 +24 KiB +112 ms ")
        self.assertRegex(done.stdout, r"(?m)^d&p +2 +a +1/2 +80.0 ms$")
        self.assertTrue(all(len(line) <= 100 for line in done.stdout.splitlines()))

    def test_json_has_exact_sums(self):
        self.three_ranks()
        got = self.profiled()
        self.assertEqual((got["operations"], got["open_operations"]), (6, 0))
        self.assertEqual((got["instances"], got["instances_with_last_caller"]), (2, 2))
        row = got["rows"][0]
        self.assertEqual((row["kind"], row["algorithm"]), ("allreduce", "allreduce_ring"))
        self.assertEqual((row["bytes_from"], row["calls"], row["bytes"]), (4096, 6, 6 * 4096))
        self.assertEqual(row["waited_ns"], 80 * MS)
        self.assertEqual(row["total_ns"], (50 + 50 + 10) * MS + 3 * 500_000)
        late = got["late_callers"]
        self.assertEqual([(x["rank"], x["times_last"], x["lost_ns"]) for x in late], [(2, 1, 80 * MS)])

    def test_trace_shows_stages_and_flows(self):
        self.three_ranks()
        self.write(
            0,
            head(0, 3, host="a"),
            comm(3),
            op(1, 0, started=1000 * MS + 100_000),
            op(2, 1, called=1010 * MS, started=1010 * MS, ended=1060 * MS),
            op(3, 0, kind="send", peer=1, tag=5, called=1070 * MS, started=1070 * MS, ended=1071 * MS),
            op(4, 2, called=1080 * MS, started=1080 * MS, ended=None, status="PENDING"),
        )
        self.write(
            1,
            head(1, 3, host="a"),
            comm(3),
            op(1, 0),
            op(2, 1, called=1010 * MS, started=1010 * MS, ended=1060 * MS),
            op(3, 0, kind="recv", peer=0, tag=5, called=1065 * MS, started=1065 * MS, ended=1072 * MS),
        )
        events = self.traced()
        stages = {(e["pid"], e["name"], ns(e), ns(e, "dur")) for e in events if e.get("cat") == "stage"}
        self.assertEqual(
            stages,
            {
                (1, "queued", 0, 100_000),
                (2, "queued", 0, 10),
                (3, "queued", 0, 10),
                (2, "waits for rank 0", 65 * MS, 5 * MS),
                (1, "waits for rank 2", 10 * MS, 40 * MS),
                (2, "waits for rank 2", 10 * MS, 40 * MS),
            },
        )
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {1: "rank 0", 2: "rank 1", 3: "rank 2"})
        flows = [(e["ph"], e["pid"], ns(e)) for e in events if e["name"] == "message"]
        self.assertEqual(flows, [("s", 1, 70 * MS), ("f", 2, 70 * MS)])
        chains = [e["pid"] for e in events if e["name"] == "collective"]
        self.assertEqual(chains, [1, 2, 3, 1, 2, 3])
        (pending,) = [e for e in events if e.get("args", {}).get("status") == "PENDING"]
        self.assertEqual(ns(pending, "dur"), 61_000 * MS - 1080 * MS)

    def test_operations_at_once_are_on_several_tracks(self):
        lines = [op(i, i, called=1000 * MS + i, started=1000 * MS + i, ended=1001 * MS + i) for i in range(300)]
        setup = op(400, 0, kind="comm_split", called=2000 * MS, ended=2010 * MS)
        inner = op(401, 400, called=2001 * MS, started=2001 * MS, ended=2002 * MS)
        self.write(0, head(0, 1, host="a"), comm(1), *lines, setup, inner)
        path = self.folder / "trace.json"
        done = self.run_tool("--perfetto", path, self.folder)
        self.assertIn("44 operations left out: no valid time, or more than 256 at once", done.stderr)
        events = json.loads(path.read_text())["traceEvents"]
        self.check_events(events)
        slices = [e for e in events if e["ph"] == "X"]
        self.assertEqual(len(slices), 258)
        self.assertEqual({e["tid"] for e in slices}, set(range(1, 257)))
        within = [e["tid"] for e in slices if ns(e) >= 1000 * MS]
        self.assertEqual(len(within), 2)
        self.assertEqual(len(set(within)), 1)

    def test_ranks_without_clock_are_left_out_of_the_trace(self):
        self.three_ranks()
        self.write(2, head(2, 3, host="b", clock={"offset_ns": None, "error_ns": None}), comm(3), op(1, 0))
        path = self.folder / "trace.json"
        done = self.run_tool("--perfetto", path, self.folder)
        self.assertIn("1 ranks left out: their clocks are not comparable", done.stderr)
        events = json.loads(path.read_text())["traceEvents"]
        self.check_events(events)
        self.assertEqual({e["pid"] for e in events}, {1, 2})
        self.assertIn("the last caller is known for 0 of 2 collectives", done.stdout)

    def test_last_operations_are_used(self):
        lines = [op(i, i) for i in range(1000)]
        self.write(0, head(0, 1), comm(1), *lines)
        self.assertEqual(self.profiled()["operations"], 1000)
        few = self.profiled("--last", 100)
        self.assertTrue(100 <= few["operations"] <= 200)
        self.assertEqual(few["operations"] + few["operations_not_read"], 1000)

    def test_hostile_dumps_keep_outputs_valid(self):
        bad = '<"\\\u00e9' * 50 + "\u0001"
        far = 2**63 - 1
        self.write(
            0,
            head(0, 2, host=bad, job=bad, now=-far),
            {**comm(2), "name": bad},
            {**op(1, 0), "kind": bad, "algo": bad},
            op(2, 1, called=-far, ended=far),
            op(3, 2, called=far, started=far, ended=-far),
            op(4, 3, called=5, started=far, ended=None, status="PENDING"),
            op(4, 3, called=5, started=far, ended=None, status="PENDING"),
        )
        path = self.folder / "trace.json"
        done = self.run_tool("--json", "--perfetto", path, "--torchfr", self.folder / "fr", self.folder)
        self.assertEqual(done.returncode, 0)
        json.loads(done.stdout)
        pickle.loads((self.folder / "fr" / "tutti_0").read_bytes())
        self.check_events(json.loads(path.read_text())["traceEvents"])
        self.assertEqual(self.run_tool(self.folder).returncode, 0)

    def paced_job(self, times, sizes=(8, 8, 8, 8)):
        """4 ranks with 600 iterations of 1 ms: an allreduce in each pair of ranks {0, 1}, {1, 2}, ...
        times(rank, pair, iteration, begin): call and end of one rank."""
        for rank in range(4):
            lines = [head(rank, 4, host="a", now=10**12)]
            for pair in range(4):
                members = sorted((pair, (pair + 1) % 4))
                lines.append({"comm": f"a{pair}", "name": f"pair {pair}", "members": f"{members[0]},{members[1]}"})
            for i in range(600):
                for turn, pair in enumerate((0, 2, 1, 3)):
                    if rank not in (pair, (pair + 1) % 4):
                        continue
                    called, ended = times(rank, pair, i, i * MS + (turn // 2) * MS // 2)
                    when = {"called": called, "started": called, "ended": ended}
                    lines.append(op(4 * i + turn, i, comm=f"a{pair}", bytes=sizes[pair], **when))
            self.write(rank, *lines)

    def test_slow_rank_is_named(self):
        self.paced_job(lambda rank, pair, i, at: (at, at + 100_000 * (1 + (i > 100 and 2 in (pair, (pair + 1) % 4)))))
        got = self.profiled()
        self.assertEqual([(x["kind"], x["rank"], x["to"]) for x in got["slow"]], [("slow rank", 2, None)])
        self.assertAlmostEqual(got["slow"][0]["factor"], 2, places=2)
        self.assertLessEqual(got["slow"][0]["first_window"], 4 + 10)
        self.assertIn("  rank 2 is slow: 2.0 times the usual time", self.run_tool(self.folder).stdout)

    def test_slow_link_is_named(self):
        self.paced_job(lambda rank, pair, i, at: (at, at + 100_000 * (1 + (pair == 1))))
        (slow,) = self.profiled("--window", 0.03)["slow"]
        self.assertEqual((slow["kind"], slow["rank"], slow["to"]), ("slow link", 1, 2))
        self.assertEqual(slow["where"], 'collectives of "pair 1"')
        self.assertIn("the link between ranks 1 and 2 is slow", self.run_tool(self.folder).stdout)

    def test_late_caller_is_named(self):
        self.paced_job(lambda rank, pair, i, at: (at + 200_000 * (rank == 3), at + 300_000), sizes=(8, 8, 16, 16))
        slow = self.profiled()["slow"]
        self.assertEqual([(x["kind"], x["rank"]) for x in slow], [("late caller", 3)])
        self.assertGreater(slow[0]["lost_ns"], 0)
        self.assertIn("rank 3 calls later than the others: they waited", self.run_tool(self.folder).stdout)

    def test_steady_job_has_no_slow_rank(self):
        self.paced_job(lambda rank, pair, i, at: (at, at + 100_000 + 997 * (i * (rank + 7) % 31)))
        got = self.profiled()
        self.assertEqual((got["slow"], got["windows"]), ([], 24))
        self.assertIn("no slow rank or link in 24 windows of 25.0 ms", self.run_tool(self.folder).stdout)

    def torchfr(self, *args):
        folder = self.folder / "fr"
        done = self.run_tool("--torchfr", folder, *args, self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return folder

    def torchfrtrace(self, folder):
        """The messages of PyTorch's analyzer, and its collectives as (name, number, is right)."""
        if not TORCH.exists():
            self.skipTest(f"no PyTorch: {TORCH} (scripts/install-torch.sh)")
        program = (
            "import pickle, sys\n"
            "from torch.distributed.flight_recorder.fr_trace import main\n"
            "main([sys.argv[1], '-o', sys.argv[2]])\n"
            "db = pickle.load(open(sys.argv[2], 'rb'))[1]\n"
            "print('result', [(c.collective_name, c.collective_seq_id, c.pass_check) for c in db.collectives])\n"
        )
        done = subprocess.run(
            [TORCH, "-c", program, folder, self.folder / "db"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        messages, _, result = (done.stderr + done.stdout).rpartition("result ")
        return messages, ast.literal_eval(result)

    def test_flight_recorder_has_the_keys_of_pytorch(self):
        self.three_ranks()
        folder = self.torchfr()
        self.assertEqual(sorted(p.name for p in folder.iterdir()), ["tutti_0", "tutti_1", "tutti_2"])
        got = pickle.loads((folder / "tutti_2").read_bytes())
        self.assertEqual((got["version"], got["rank"], got["host_name"]), ("2.10", 2, "a"))
        self.assertEqual(got["pg_config"], {"1f00c2": {"name": "1f00c2", "desc": "d&p", "ranks": "[0, 1, 2]"}})
        self.assertEqual([e["record_id"] for e in got["entries"]], [0, 1])
        self.assertEqual(
            got["entries"][1],
            {
                "record_id": 1,
                "pg_id": 0,
                "process_group": ("1f00c2", "d&p"),
                "collective_seq_id": 1,
                "p2p_seq_id": 0,
                "op_id": 2,
                "is_p2p": False,
                "profiling_name": "c10d:all_reduce",
                "input_sizes": [[1024]],
                "output_sizes": [[1024]],
                "input_dtypes": ["Float"],
                "output_dtypes": ["Float"],
                "state": "completed",
                "time_created_ns": 1050 * MS,
                "time_discovered_started_ns": 1050 * MS,
                "time_discovered_completed_ns": 1060 * MS,
                "retired": True,
                "frames": [],
            },
        )

    def test_flight_recorder_lists_only_communicators_with_collectives(self):
        unused = {"comm": "2f00c2", "name": "unused", "members": "0-1048575"}
        sent = {"comm": "3f00c2", "name": "sent", "members": "0-1048575"}
        message = op(2, 0, comm="3f00c2", kind="send", peer=1, tag=5)
        self.write(0, head(0, 1 << 20), comm(2), unused, sent, op(1, 0), message)
        got = pickle.loads((self.torchfr() / "tutti_0").read_bytes())
        self.assertEqual(list(got["pg_config"]), ["1f00c2"])
        self.assertLess((self.folder / "fr" / "tutti_0").stat().st_size, 2000)

    def test_flight_recorder_has_a_bound(self):
        lines = [head(0, 1 << 20)]
        for i in range(129):
            lines.append({"comm": f"{i + 1:x}", "name": "hostile", "members": "0-1048575"})
            lines.append(op(i, 0, comm=f"{i + 1:x}"))
        self.write(0, *lines)
        done = self.run_tool("--torchfr", self.folder / "fr", self.folder)
        self.assertEqual(done.returncode, 1)
        expected = f"too many entries: {129 << 20} (the maximum is {128 << 20};"
        self.assertIn(expected, done.stderr)
        self.assertFalse((self.folder / "fr").exists())

    def test_times_beyond_64_bits_are_clamped(self):
        far = 2**62
        for rank in range(2):
            times = {"called": rank + 2 - far, "started": far - 2, "ended": far - 1}
            lines = [op(i, i, **times) for i in range(12)]
            self.write(rank, head(rank, 2, host="a"), comm(2), *lines)
        (row,) = self.profiled()["rows"]
        self.assertEqual(row["total_ns"], 2**63 - 1)
        self.assertEqual(row["queued_ns"], 2**63 - 1)

    def test_flight_recorder_begins_with_the_same_collective_on_all_ranks(self):
        for rank in range(2):
            self.write(rank, head(rank, 2), comm(2), *(op(i, i) for i in range(3 * rank, 8)))
        folder = self.torchfr()
        for rank in range(2):
            entries = pickle.loads((folder / f"tutti_{rank}").read_bytes())["entries"]
            self.assertEqual([e["collective_seq_id"] for e in entries], [3, 4, 5, 6, 7])

    def test_pytorch_accepts_a_real_job(self):
        environment = {**os.environ, "TUTTI_TRACE_DIR": str(self.folder)}
        command = [TUTTI, "run", "-n", "4", PROGRAM, "5", "2", "4096"]
        subprocess.run(command, env=environment, check=True, timeout=TIMEOUT_S)
        messages, found = self.torchfrtrace(self.torchfr())
        self.assertNotIn("errors", messages)
        self.assertNotIn("Not all ranks", messages)
        self.assertTrue(all(right for _, _, right in found))
        names = [name for name, _, _ in found]
        # the world's allreduces and one of a split; the allgathers of two halves
        self.assertGreaterEqual(names.count("c10d:all_reduce"), 5)
        self.assertGreaterEqual(names.count("c10d:_all_gather_base"), 2 * 5)

    def test_pytorch_names_the_missing_rank(self):
        for rank in range(3):
            self.write(rank, head(rank), comm(), op(1, 0), op(2, 1, ended=None, status="PENDING"))
        self.write(3, head(3), comm(), op(1, 0))
        messages, found = self.torchfrtrace(self.torchfr())
        self.assertIn("Not all ranks joining collective, sequence number: 1", messages)
        self.assertIn("missing ranks: {3}", messages)
        self.assertEqual(found[0], ("c10d:all_reduce", 0, True))

    def test_stages_of_a_real_job(self):
        environment = {**os.environ, "TUTTI_TRACE_DIR": str(self.folder)}
        for wires in ("shm", "tcp"):
            command = [TUTTI, "run", "-n", "4", "--wires", wires, PROGRAM, "20", "0", "65536"]
            subprocess.run(command, env=environment, check=True, timeout=TIMEOUT_S)
            rows = {(r["name"], r["kind"], r["bytes_from"]): r for r in self.profiled()["rows"]}
            row = rows["world", "allreduce", 262144]
            stages = row["stages"]
            self.assertEqual(stages.pop("calls"), row["calls"])
            self.assertAlmostEqual(sum(stages.values()), row["total_ns"], delta=len(stages))
            self.assertLessEqual(stages["waited_ns"], row["waited_ns"])
            for part in ("send_ns", "reduce_ns", "wire_ns"):
                self.assertGreater(stages[part], 0, part)
            self.assertEqual(rows["low", "allgather", 262144]["stages"]["reduce_ns"], 0)
            table = self.run_tool(self.folder).stdout
            self.assertRegex(table, r"(?m)^world +allreduce +\S+ +256 KiB +80( +\d+\.\d){8}$")
            slices = [e["args"] for e in self.traced() if e["name"] == "allreduce"]
            long = [args for args in slices if args["bytes"] == 262144]
            self.assertTrue(all("queued_us" in args and "wire_us" in args for args in long))
            for dump in list(self.folder.glob("*.jsonl")):
                dump.unlink()

    def test_short_repeated_operations_have_no_stages(self):
        environment = {**os.environ, "TUTTI_TRACE_DIR": str(self.folder)}
        command = [TUTTI, "run", "-n", "4", PROGRAM, "20", "0", "2"]
        subprocess.run(command, env=environment, check=True, timeout=TIMEOUT_S)
        rows = {(r["name"], r["kind"], r["bytes_from"]): r for r in self.profiled()["rows"]}
        row = rows["world", "allreduce", 8]
        self.assertGreaterEqual(row["calls"], 80)
        self.assertIsNone(row["stages"])

    def test_errors_and_usage(self):
        empty = self.run_tool(self.folder)
        self.assertEqual(empty.returncode, 1)
        self.assertIn("tutti profile: no dump could be read", empty.stderr)
        self.assertEqual(self.run_tool().returncode, 2)
        self.three_ranks()
        done = self.run_tool("--perfetto", self.folder / "none" / "x.json", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write", done.stderr)
        done = self.run_tool("--torchfr", self.folder / "none" / "fr", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot create", done.stderr)

    def test_real_job_names_its_late_rank(self):
        environment = {**os.environ, "TUTTI_TRACE_DIR": str(self.folder)}
        subprocess.run(
            [TUTTI, "run", "-n", "4", PROGRAM, "20", "2", "4096"],
            env=environment,
            check=True,
            timeout=TIMEOUT_S,
        )
        got = self.profiled()
        self.assertEqual((got["dumps"], got["complete_dumps"], got["open_operations"]), (4, 4, 0))
        self.assertEqual(got["instances"], got["instances_with_last_caller"])
        rows = {(r["name"], r["kind"], r["bytes_from"]): r for r in got["rows"]}
        row = rows["world", "allreduce", 16384]
        self.assertEqual((row["calls"], row["bytes"], row["failed"]), (80, 80 * 16384, 0))
        self.assertEqual(rows["low", "allgather", 16384]["calls"], 40)
        self.assertEqual(rows["world", "send", 16384]["calls"], 80)
        events = self.traced()
        last = {}
        for e in events:
            if e["ph"] == "X" and e["name"] == "allreduce" and e["args"]["bytes"] == 16384:
                seq = e["args"]["seq"]
                last[seq] = max(last.get(seq, (0, 0)), (ns(e), e["pid"] - 1))
        self.assertEqual([rank for _, rank in last.values()], [2] * 20)
        chains = [e for e in events if e["name"] == "collective" and e["ph"] == "f"]
        self.assertEqual(len(chains), len({(e["cat"], e["id"]) for e in chains}))
        messages = [e for e in events if e["name"] == "message" and e["ph"] == "s"]
        # a repeated short call records its time some tens of ns after its first message
        self.assertTrue(0 < len(messages) <= 80 + 60)


if __name__ == "__main__":
    unittest.main()
