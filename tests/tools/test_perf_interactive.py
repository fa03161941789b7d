#!/usr/bin/env python3
"""tutti perf --interactive: the protocol of bench/peers/PROTOCOL.md, over named pipes with two
ranks."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
NRANKS = 2
DEADLINE_S = 60


class Group:
    """Two ranks and their pipes. The driver holds both ends, so opening never waits."""

    def __init__(self, *args):
        self.place = tempfile.TemporaryDirectory()
        self.reply = self._pipe("reply")
        self.controls = [self._pipe(f"control.{rank}") for rank in range(NRANKS)]
        self.rest = b""
        self.process = subprocess.Popen(
            [TUTTI, "run", "-n", str(NRANKS), "--", TUTTI, "perf", "--interactive", self.place.name,
             *args],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def _pipe(self, name):
        path = Path(self.place.name) / name
        os.mkfifo(path)
        return os.open(path, os.O_RDWR)

    def line(self):
        deadline = time.monotonic() + DEADLINE_S
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.reply], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"no reply in {DEADLINE_S} s")
            self.rest += os.read(self.reply, 1 << 16)
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def send(self, line):
        for control in self.controls:
            os.write(control, line.encode() + b"\n")

    def ask(self, line):
        self.send(line)
        return self.line()

    def close_pipes(self):
        for fd in (*self.controls, self.reply):
            os.close(fd)
        self.controls, self.reply = [], -1

    def wait(self):
        return self.process.wait(DEADLINE_S)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(DEADLINE_S)
        if self.reply >= 0:
            self.close_pipes()
        self.place.cleanup()


class Interactive(unittest.TestCase):
    def start(self, *args):
        group = Group(*args)
        self.addCleanup(group.end)
        return group

    def ready(self, *args):
        group = self.start(*args)
        self.assertTrue(group.line()["ready"])
        return group

    def test_start_line_is_first(self):
        line = self.start("--wire", "shm").line()
        version = subprocess.run([TUTTI, "--version"], capture_output=True, text=True,
                                 check=True).stdout.split()[1]
        self.assertEqual(line, {"ready": True, "name": "Tutti", "version": version,
                                "ranks": NRANKS})

    def test_every_collective_is_measured_and_right(self):
        group = self.ready("--wire", "shm")
        for coll in ("allreduce", "reduce", "reduce_scatter", "allgather", "broadcast", "gather",
                     "scatter", "alltoall",
                     "barrier", "pingpong", "sendrecv"):
            for nbytes in (8, 1000, 100000):
                reply = group.ask(f"{coll} {nbytes} 3 1 2 malloc")
                self.assertEqual(reply["coll"], coll, reply)
                self.assertEqual((reply["ranks"], reply["memory"], reply["wrong"]),
                                 (NRANKS, "malloc", 0))
                self.assertEqual(reply["bytes"], 0 if coll == "barrier" else nbytes)
                self.assertEqual(len(reply["samples_us"]), 3)
                self.assertTrue(all(us > 0 for us in reply["samples_us"]))
                self.assertGreater(reply["first_us"], 0)
                self.assertGreater(reply["time_us_loop"], 0)
                self.assertIsInstance(reply["algo"], str)
        group.send("quit")
        self.assertEqual(group.wait(), 0)

    def test_over_tcp_too(self):
        group = self.ready("--wire", "tcp")
        self.assertEqual(group.ask("allreduce 4096 2 0 0 malloc")["wrong"], 0)

    def test_bytes_are_the_rounded_size(self):
        group = self.ready("--wire", "shm")
        for asked, moved in ((1, 8), (9, 8), (30, 24)):
            self.assertEqual(group.ask(f"alltoall {asked} 1 0 0 malloc")["bytes"], moved)
        for asked, moved in ((1, 4), (9, 8)):
            self.assertEqual(group.ask(f"allreduce {asked} 1 0 0 malloc")["bytes"], moved)

    def test_loop_time_is_null_without_loops(self):
        group = self.ready("--wire", "shm")
        reply = group.ask("allreduce 64 1 0 0 malloc")
        self.assertIn("time_us_loop", reply)
        self.assertIsNone(reply["time_us_loop"])
        self.assertIsNone(group.ask("allreduce 64 1 0 0 malloc")["first_us"])   # the same again

    def test_algorithm_and_memory_can_be_selected(self):
        group = self.ready("--wire", "shm")
        for algo in ("ring", "doubling", "ring"):
            reply = group.ask(f"allreduce/{algo} 4096 1 0 0 malloc")
            self.assertEqual((reply["algo"], reply["wrong"]), (algo, 0))
        reply = group.ask("allreduce 4096 1 0 0 mem_alloc")
        self.assertEqual((reply["memory"], reply["wrong"]), ("mem_alloc", 0))

    def test_in_place_results_are_right(self):
        group = self.ready("--wire", "shm")
        for coll in ("allreduce", "reduce", "reduce_scatter", "allgather", "broadcast", "gather",
                     "scatter", "alltoall"):
            reply = group.ask(f"{coll} 4096 2 0 0 in_place")
            self.assertEqual((reply["coll"], reply["memory"], reply["wrong"]),
                             (coll, "in_place", 0))
        for coll in ("barrier", "pingpong", "sendrecv"):
            self.assertEqual(group.ask(f"{coll} 4096 2 0 0 in_place"),
                             {"error": "this operation has no in-place form"})

    def test_overlapped_allreduce_is_right(self):
        group = self.ready("--wire", "shm")
        for coll in ("overlap/0", "overlap/100", "compute/100"):
            reply = group.ask(f"{coll} 4096 2 0 0 malloc")
            self.assertEqual((reply["coll"], reply["wrong"]), (coll.split("/", 1)[0], 0))
        for bad in ("overlap", "overlap/ring", "compute/-1", "compute/1234567890"):
            self.assertIn("invalid work", group.ask(f"{bad} 4096 2 0 0 malloc")["error"])

    def test_failed_command_leaves_group_ready(self):
        group = self.ready("--wire", "shm")
        for bad in ("", "allreduce", "allreduce 8 1 0 0 stone", "allreduce 8 0 0 0 malloc",
                    "allreduce 8 1 -1 0 malloc",
                    "bread 8 1 0 0 malloc", "allreduce/none 8 1 0 0 malloc",
                    "allreduce eight 1 0 0 malloc"):
            reply = group.ask(bad)
            self.assertEqual(list(reply), ["error"], bad)
            self.assertEqual(group.ask("allreduce 8 1 0 0 malloc")["wrong"], 0)

    def test_quit_gives_status_0(self):
        group = self.ready("--wire", "shm")
        group.send("quit")
        self.assertEqual(group.wait(), 0)

    def test_end_of_pipes_gives_status_0(self):
        group = self.ready("--wire", "shm")
        group.close_pipes()
        self.assertEqual(group.wait(), 0)

    def test_missing_pipe_is_named(self):
        with tempfile.TemporaryDirectory() as place:
            done = subprocess.run([TUTTI, "perf", "--ranks", "1", "--interactive", place],
                                  capture_output=True, text=True,
                                  timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("control.0", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
