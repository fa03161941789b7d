#!/usr/bin/env python3
"""docs/algorithms.md describes all algorithms, its drawings are current, and its instructions for
adding one work."""

import fnmatch
import json
import os
import re
import subprocess
import unittest
from pathlib import Path

BUILD = Path(os.environ["TUTTI_BUILD_DIR"])
SOURCE = Path(os.environ["TUTTI_SOURCE_DIR"])
PAGE = (SOURCE / "docs" / "algorithms.md").read_text()
EXAMPLE = BUILD / "tests" / "tools" / "tutti_with_example"


def run(*args):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120,
                          check=False)


class Page(unittest.TestCase):
    def test_exactly_all_algorithms_are_described(self):
        names = {a["name"] for a in json.loads(run(BUILD / "tutti", "info", "--algos",
                                                   "--json").stdout)}
        table = PAGE.split("## All at a glance", 1)[1].split("\n## ", 1)[0]
        told = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()
                                                  if line.startswith("| `"))))
        self.assertEqual(names, told)

    def test_each_family_has_a_description(self):
        """A family is a file of src/algo that registers algorithms; the text names it, or all of
        its kind (`*_ring`)."""
        body = PAGE.split("## All at a glance", 1)[1].split("\n## ",
                                                            1)[1].split("## Adding one", 1)[0]
        patterns = {word.removesuffix(".c") for word in re.findall(r"`([\w*]+(?:\.c)?)`", body)}
        families = [path.stem for path in (SOURCE / "src" / "algo").glob("*.c")
                    if "const struct tt_algo tt_algo_" in path.read_text()]
        self.assertGreater(len(families), 40)
        self.assertEqual([name for name in sorted(families)
                          if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)], [])

    def test_drawings_exist_and_are_current(self):
        for picture in re.findall(r"\]\((algorithms/\w+\.svg)\)", PAGE):
            self.assertTrue((SOURCE / "docs" / picture).exists(), picture)
        result = run(SOURCE / "scripts" / "draw-algorithms.py", "--check")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))


class Example(unittest.TestCase):
    """The tool with the page's file and line, and no other change."""

    def test_example_is_listed(self):
        self.assertIn("broadcast_halves ", run(EXAMPLE, "info", "--algos", "broadcast").stdout)
        self.assertNotIn("broadcast_halves", run(BUILD / "tutti", "info", "--algos",
                                                 "broadcast").stdout)

    def test_example_is_proven_for_many_ranks(self):
        for ranks in (*range(1, 18), 64):
            for root in {0, ranks // 2, ranks - 1}:
                result = run(EXAMPLE, "plan", "congestion", "broadcast", "halves", "--ranks", ranks,
                             "--root", root)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertIn(f"\n{ranks - 1} transfers: ", result.stdout)

    def test_example_runs_correctly(self):
        result = run(EXAMPLE, "perf", "-n", 4, "broadcast", "--algo", "halves", "--check", "--min",
                     "4", "--max", "1M", "--factor", 64)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"halves")
        self.assertRegex(result.stdout, r"Out of bounds values : 0 OK")


if __name__ == "__main__":
    unittest.main()
