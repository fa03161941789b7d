#!/usr/bin/env python3
"""tutti ring order: orders for matrices, as text, JSON and a drawing; errors are reported."""

import json
import os
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
# The only fast links are a -> d -> b -> c -> a.
NAMES = ["a", "b", "c & co", "d"]
FAST = {(0, 3), (3, 1), (1, 2), (2, 0)}
MATRIX = {"peers": NAMES,
          "bandwidth_mbit_s": [[None if i == k else 800 if (i, k) in FAST else 80 for k in range(4)]
                               for i in range(4)],
          "latency_ms": [[0 if i == k else 1 for k in range(4)] for i in range(4)]}


def order(*args, text=None):
    return subprocess.run([TUTTI, "ring", "order", *map(str, args)], input=text,
                          capture_output=True, text=True, timeout=120, check=False)


class Ring(unittest.TestCase):
    def found(self, matrix, *args):
        done = order("--matrix", "-", "--json", *args, text=json.dumps(matrix))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_fast_ring_is_worth_the_change(self):
        got = self.found(MATRIX, "--bytes", "8M", "--segment", 0)
        self.assertEqual(got["order"], [0, 3, 1, 2])
        self.assertEqual(got["names"], ["a", "d", "b", "c & co"])
        # 2 MiB at 100 MB/s and 1 ms, six times; the order of the file has links with a tenth of the
        # rate.
        self.assertEqual(got["one_ring_ns"], 6 * (20971520 + 1000000))
        self.assertGreater(got["listed_ns"], 6 * 209715200)
        self.assertTrue(got["proven_best"] and got["worth_changing"])
        self.assertLessEqual(got["bound_ns"], got["one_ring_ns"])

    def test_unused_change_is_not_worth_it(self):
        self.assertFalse(self.found(MATRIX, "--bytes", "8M", "--expected", 0)["worth_changing"])

    def test_fast_uplinks_favour_two_rings(self):
        wide = {**MATRIX, "bandwidth_mbit_s": [[None if i == k else 100 for k in range(4)]
                                               for i in range(4)], "up_mbit_s": [1000] * 4,
                "down_mbit_s": [1000] * 4}
        got = self.found(wide, "--bytes", "8M", "--segment", 0)
        self.assertEqual(got["fastest"], "two rings")
        # a quarter of a half at 12.5 MB/s and 1 ms, six times
        self.assertEqual(got["two_rings_ns"], 6 * ((1 << 20) * 80 + 1000000))
        self.assertEqual(got["one_ring_ns"], 6 * ((2 << 20) * 80 + 1000000))
        self.assertTrue(got["worth_changing"])
        self.assertEqual(self.found({**wide, "up_mbit_s": [100] * 4})["fastest"], "one ring")

    def test_small_messages_favour_trees(self):
        n = 32
        even = {"bandwidth_mbit_s": [[0 if i == k else 1000 for k in range(n)] for i in range(n)],
                "latency_ms": [[0 if i == k else 10 for k in range(n)] for i in range(n)]}
        self.assertEqual(self.found(even, "--bytes", 64)["fastest"], "two trees")
        self.assertNotEqual(self.found(even, "--bytes", "1G")["fastest"], "two trees")

    def test_the_same_seed_finds_the_same(self):
        n = 20
        rough = {"bandwidth_mbit_s": [[0 if i == k else 10 + (i * 37 + k * 91) % 101
                                       for k in range(n)] for i in range(n)],
                 "latency_ms": [[0 if i == k else (i * 17 + k * 29) % 50 for k in range(n)]
                                for i in range(n)]}
        one, two = (self.found(rough, "--seed", 5, "--steps", 3000) for _ in range(2))
        self.assertEqual({**one, "search_s": 0}, {**two, "search_s": 0})
        self.assertEqual(sorted(one["order"]), list(range(n)))

    def test_text_names_peers_drawing_is_xml(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.json"
            path.write_text(json.dumps(MATRIX))
            done = order("--matrix", path, "--svg", Path(folder) / "ring.svg")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("order: a d b c & co\n", done.stdout)
            self.assertIn("change of the order: pays off", done.stdout)
            drawn = ET.parse(Path(folder) / "ring.svg").getroot()
            framed = [e for e in drawn.iter("{http://www.w3.org/2000/svg}rect") if e.get("stroke")
                      == "#d55e00"]
            self.assertEqual(len(framed), 4)
            bad = order("--matrix", path, "--svg", Path(folder) / "none" / "ring.svg")
            self.assertEqual(bad.returncode, 1)
            self.assertIn("cannot write", bad.stderr)

    def test_errors_are_reported(self):
        one_way = {"bandwidth_mbit_s": [[0, 5], [0, 0]], "latency_ms": [[0, 0], [0, 0]]}
        for text, says in ((json.dumps(one_way), "no ring exists over the given links"),
                           ("{", "unexpected end"), ('{"x": 1}', ':1: unknown key "x"')):
            done = order("--matrix", "-", text=text)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(says, done.stderr)
        self.assertIn("/nonexistent", order("--matrix", "/nonexistent").stderr)
        for bad in ((), ("--matrix", "-", "--steps", "x"), ("--matrix", "-", "more")):
            self.assertEqual(order(*bad, text="").returncode, 2)

    def test_one_peer_is_a_ring(self):
        self.assertEqual(self.found({"bandwidth_mbit_s": [[0]], "latency_ms": [[0]]})["order"], [0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
