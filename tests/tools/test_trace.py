#!/usr/bin/env python3
"""tutti perf --trace: every segment of every message is recorded once, on the lane that carried
it."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from collections import Counter
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
TIMEOUT_S = 100
SHORT = 4096    # bytes of a segment that belongs to no collective
LONG = 64 << 10


def clean_environment(**more):
    kept = {key: value for key, value in os.environ.items()
            if not key.startswith(("TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LANES", "OMPI_", "PMI",
                                   "SLURM_")) and key not in ("RANK", "WORLD_SIZE")}
    return {**kept, **{key: str(value) for key, value in more.items()}}


def perf(*args, **environment):
    return subprocess.run([TUTTI, "perf", *map(str, args)], env=clean_environment(**environment),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)


def is_usable(wire):
    said = subprocess.run([TUTTI, "info"], env=clean_environment(), capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=True).stdout
    return any(line.split()[:2] == [wire, "usable"] for line in said.splitlines())


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = Path(self.folder.name) / "trace.json"

    def traced(self, *args, **environment):
        done = perf(*args, "--trace", self.file, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(self.file.read_text()), done

    def sent_and_arrived(self, trace, wire):
        """Sent and received segments, as {(from, to, lane, number, part): bytes}; each occurs once,
        with an end. Barriers at the start and end of tracing may lack one end: they are short.
        verbs and ofi contain a tcp transport, which negotiates links."""
        events = [e for e in trace["traceEvents"] if e["ph"] == "e" or e.get("args", {}).get("wire")
                  == wire]
        begun = [e for e in events if e["ph"] == "b"]
        ended = {(e["pid"], e["id"]): e["ts"] for e in events if e["ph"] == "e"}
        for e in begun:
            self.assertEqual(e["pid"], e["args"]["from"])
            self.assertGreaterEqual(ended.pop((e["pid"], e["id"])), e["ts"])
            if e["args"]["bytes"] >= SHORT:
                self.assertNotIn("completed", e["args"], e)
        if wire == "tcp":
            self.assertEqual(ended, {})
        arrived = [e for e in events if e["ph"] == "i"]
        for e in arrived:
            self.assertEqual(e["pid"], e["args"]["to"])
            self.assertGreaterEqual(e["args"].get("arrived_us", 0), 0, e)
        self.assertLess(len([e for e in arrived if "arrived_us" not in e["args"]]), 100)
        key = lambda e: tuple(e["args"][k] for k in ("from", "to", "lane", "number", "part"))
        for some in begun, arrived:
            self.assertEqual([k for k, n in Counter(map(key, some)).items() if n > 1], [])
        return {key(e): e["args"]["bytes"]
                for e in begun}, {key(e) for e in arrived if "arrived_us" in e["args"]}

    def check_rows(self, trace):
        """Each lane has a row at its sender and one at its receiver, labelled accordingly."""
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["ph"]
                 == "M" and e["name"] == "thread_name"}
        self.assertEqual(len(set((pid, name) for (pid, _), name in names.items())), len(names))
        for e in trace["traceEvents"]:
            if e["ph"] == "b":
                self.assertEqual(names[e["pid"], e["tid"]], e["name"])
                self.assertIn(f"{e['args']['wire']} to rank {e['args']['to']}, lane "
                              f"{e['args']['lane']}", e["name"])
            elif e["ph"] == "i":
                self.assertEqual(names[e["pid"], e["tid"]],
                                 f"{e['args']['wire']} from rank {e['args']['from']}, lane "
                                 f"{e['args']['lane']}")

    def check(self, wire, lanes, total):
        """total: bytes received from each rank's neighbour per call. Returns sent and received
        segments."""
        calls = 3       # a checked one, a timed one, and one in the loop
        trace, _ = self.traced("sendrecv", "--ranks", 3, "--wire", wire, "--min", total, "--max",
                               total, "--iters", 1, "--warmup", 0, "--check", "--out-of-place",
                               # one rail has as many queue pairs as requested
                               TUTTI_LANES=lanes, TUTTI_RDMA_DEVICES="=rxe0")
        self.assertEqual(trace["otherData"]["lost"], [0, 0, 0])
        sent, arrived = self.sent_and_arrived(trace, wire)
        self.check_rows(trace)
        self.assertEqual(arrived - sent.keys(), set())
        for rank in range(3):
            bytes_right = sum(n for (source, to, *_), n in sent.items() if (source, to)
                              == (rank, (rank + 1) % 3))
            # In addition to the calls: barriers, results, and control messages. A duplicate segment
            # would be at least that long.
            self.assertGreaterEqual(bytes_right, calls * total)
            self.assertLess(bytes_right, calls * total + LONG)
        return sent, arrived

    def check_lanes(self, sent, arrived, wanted, of_stream):
        """Long segments use all requested lanes, with one numbering over all lanes of a stream.
        of_stream: the stream of a lane."""
        self.assertEqual({key: n for key, n in sent.items() if n >= SHORT and key not in arrived},
                         {})
        for source in range(3):
            self.assertEqual({lane for (rank, _, lane, *_), n in sent.items() if n >= LONG
                              and rank == source}, set(wanted))
        streams = {}
        for source, to, lane, number, _ in sent:
            streams.setdefault((source, to, of_stream(lane)), []).append(number)
        for numbers in streams.values():
            self.assertEqual(sorted(numbers),
                             list(range(min(numbers), min(numbers) + len(numbers))))


    def lanes_of_device(self, wire, policy, iters):
        """The lanes of long puts of rank 0's device, in order, {to: [lane, ...]}."""
        trace, _ = self.traced("putsignal", "-n", 3, "--wire", wire, "--lanes", policy,
                               "--concurrency", 16, "--bytes", LONG, "--mode", "full", "--rounds",
                               1,
                               "--iters", iters, "--check", TUTTI_LANES=4,
                               TUTTI_RDMA_DEVICES="=rxe0")
        sent, _ = self.sent_and_arrived(trace, wire)
        return {to: [lane for _, lane in sorted((number, lane)
                                                for (_, peer, lane, number, _), n in sent.items()
                                                if peer == to and n >= LONG)] for to in (1, 2)}

    def check_policies(self, wire, first):
        """Devices that bind a peer to a lane, or use lanes in turn, do so; `first` is the number of
        the first of four lanes. Lanes are opened gradually: another one replaces one that is not
        open yet, so the device puts until all are."""
        lanes = set(range(first, first + 4))
        pinned = {to: first + to % 4 for to in (1, 2)}
        for iters in 1, 8, 64:
            used = self.lanes_of_device(wire, "pinned", iters)
            if all(lane in used[to] for to, lane in pinned.items()):
                break
        for to, lane in pinned.items():
            self.assertIn(lane, used[to], used)
            self.assertEqual(set(used[to][used[to].index(lane):]), {lane}, used)
        for iters in 1, 8, 64:
            used = self.lanes_of_device(wire, "round-robin", iters)
            if {*used[1], *used[2]} == lanes:
                break
        self.assertEqual({*used[1], *used[2]}, lanes)


class OverTcp(Case):
    def test_segments_appear_once_per_lane(self):
        for lanes in 1, 4:
            with self.subTest(lanes=lanes):
                sent, arrived = self.check("tcp", lanes, 4 << 20)
                self.check_lanes(sent, arrived, range(lanes), lambda lane: 0)

    def test_devices_use_the_named_lanes(self):
        self.check_policies("tcp", 0)


class OverVerbs(Case):
    def test_segments_appear_once_per_queue_pair(self):
        if not is_usable("verbs"):
            self.skipTest("no RDMA device here: see scripts/rdma-vm")
        sent, arrived = self.check("verbs", 4, 4 << 20)
        # lane 0 is for urgent messages
        self.check_lanes(sent, arrived, range(1, 5), lambda lane: min(lane, 1))
        self.check_policies("verbs", 1)


class OverOfi(Case):
    def test_writes_and_records_appear_once(self):
        if not is_usable("ofi"):
            self.skipTest("no libfabric here")
        for lanes in 1, 4:
            with self.subTest(lanes=lanes):
                sent, arrived = self.check("ofi", lanes, 1 << 20)
                # the receiver only sees records
                self.assertEqual({part for *_, part in arrived}, {0})
                # lane 0 is for urgent messages
                self.assertLessEqual({lane for _, _, lane, *_ in sent}, set(range(1 + lanes)))
                self.assertLessEqual({lane for _, _, lane, _, part in sent if part == 0}, {0, 1})
                parts = Counter((source, to, min(lane, 1), number, part)
                                for source, to, lane, number, part in sent)
                self.assertEqual({n for n in parts.values()}, {1})
                for source, to, stream, number, part in parts:
                    if part > 1:
                        self.assertIn((source, to, stream, number, part - 1), parts)
                self.assertGreater(max(part for *_, part in sent), 1)

    def test_devices_use_the_named_lanes(self):
        if not is_usable("ofi"):
            self.skipTest("no libfabric here")
        self.check_policies("ofi", 1)


class Files(Case):
    def test_svg_name_gives_a_drawing(self):
        self.file = Path(self.folder.name) / "trace.svg"
        done = perf("putsignal", "-n", 2, "--wire", "tcp", "--concurrency", 8, "--bytes", "64K",
                    "--mode", "full", "--rounds", 1, "--iters", 1, "--trace", self.file)
        self.assertEqual(done.returncode, 0, done.stderr)
        picture = xml.etree.ElementTree.parse(self.file).getroot()
        space = {"svg": "http://www.w3.org/2000/svg"}
        self.assertIn("rank 0: tcp to rank 1, lane 0",
                      [text.text for text in picture.findall("svg:text", space)])
        titles = [title.text for title in picture.findall("svg:g/svg:title", space)]
        self.assertGreaterEqual(len([title for title in titles
                                     if ", 65536 bytes, completed after " in title]), 8, titles)

    def test_unwritable_file_prevents_the_measurement(self):
        self.file = Path(self.folder.name) / "none" / "trace.json"
        done = perf("allreduce", "--wire", "tcp", "--min", 8, "--max", 8, "--iters", 1, "--json",
                    "--trace", self.file)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr.count("--trace"), 1, done.stderr)
        self.assertIn("No such file", done.stderr)

    def test_overflow_keeps_the_newest_events(self):
        trace, done = self.traced("putsignal", "-n", 2, "--wire", "tcp", "--concurrency", 1024,
                                  "--bytes", 8, "--mode", "full", "--rounds", 1, "--iters", 40)
        self.assertIn("newest 131072 events", done.stderr)
        self.assertGreater(trace["otherData"]["lost"][0], 0)
        self.assertGreater(len([e for e in trace["traceEvents"] if e["ph"] == "b"]), 30000)

    def test_shared_memory_has_no_segments(self):
        trace, done = self.traced("allreduce", "--wire", "shm", "--min", 8, "--max", 8, "--iters",
                                  1)
        self.assertIn("empty trace", done.stderr)
        self.assertEqual({e["ph"] for e in trace["traceEvents"]}, {"M"})


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
