#!/usr/bin/env python3
"""docs/algorithms.md is about all algorithms that there are, its pictures are theirs, and what it says of adding one is so."""

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
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120, check=False)


class Page(unittest.TestCase):
    def test_every_algorithm_is_told_of_and_no_other(self):
        names = {a["name"] for a in json.loads(run(BUILD / "tutti", "info", "--algos", "--json").stdout)}
        table = PAGE.split("## All at a glance", 1)[1].split("\n## ", 1)[0]
        told = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))))
        self.assertEqual(names, told)

    def test_each_family_has_its_idea_below_the_table(self):
        """A family is a file of src/algo that registers something; the text names it, or all of its kind (`*_ring`)."""
        body = PAGE.split("## All at a glance", 1)[1].split("\n## ", 1)[1].split("## Adding one", 1)[0]
        patterns = {word.removesuffix(".c") for word in re.findall(r"`([\w*]+(?:\.c)?)`", body)}
        families = [path.stem for path in (SOURCE / "src" / "algo").glob("*.c") if "const struct tt_algo tt_algo_" in path.read_text()]
        self.assertGreater(len(families), 40)
        self.assertEqual([name for name in sorted(families) if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)], [])

    def test_pictures_are_there_and_up_to_date(self):
        for picture in re.findall(r"\]\((algorithms/\w+\.svg)\)", PAGE):
            self.assertTrue((SOURCE / "docs" / picture).exists(), picture)
        result = run(SOURCE / "scripts" / "draw-algorithms.py", "--check")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))


class Example(unittest.TestCase):
    """The tool with the page's file and line in it, and nothing else changed."""

    def test_it_is_listed(self):
        self.assertIn("broadcast_halves ", run(EXAMPLE, "info", "--algos", "broadcast").stdout)
        self.assertNotIn("broadcast_halves", run(BUILD / "tutti", "info", "--algos", "broadcast").stdout)

    def test_it_is_proven_for_many_ranks_and_roots(self):
        for ranks in (*range(1, 18), 64):
            for root in {0, ranks // 2, ranks - 1}:
                result = run(EXAMPLE, "plan", "congestion", "broadcast", "halves", "--ranks", ranks, "--root", root)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertIn(f"\n{ranks - 1} transfers: ", result.stdout)

    def test_it_runs_and_every_byte_is_right(self):
        result = run(EXAMPLE, "perf", "-n", 4, "broadcast", "--algo", "halves", "--check", "--min", "4", "--max", "1M", "--factor", 64)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"halves")
        self.assertRegex(result.stdout, r"Out of bounds values : 0 OK")


if __name__ == "__main__":
    unittest.main()
