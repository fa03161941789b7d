#!/usr/bin/env python3
"""train_elastic has the loss curve of one process, whoever comes, leaves and is killed while it trains (docs/training.md)."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

import test_elastic
from cluster import BUILD, SLOW, wait_until

TEXT = Path(os.environ["TUTTI_SOURCE_DIR"]) / "README.md"
EXAMPLES = BUILD / "examples"
TOLERANCE = 2e-3    # of a loss, after some thousand steps; a member's share that is missing or counted twice is a hundred times that
BATCH = 300


def curve_of(lines):
    return [(int(step), float(loss)) for step, loss in (line.split() for line in lines)]


class Training(unittest.TestCase):
    setUp, tearDown = test_elastic.Elastic.setUp, test_elastic.Elastic.tearDown
    start, start_coordinator = test_elastic.Elastic.start, test_elastic.Elastic.start_coordinator

    def trainer(self):
        self.env["TUTTI_COORDINATOR"] = self.address
        return self.start(EXAMPLES / "train_elastic", TEXT, "--steps", 10000000, "--batch", BATCH)

    def await_view(self, member, members, act):
        """Until it has trained in a view of so many that came after the act."""
        mark = len(member.errors)
        result = act()
        wait_until(lambda: any(f": {members} members" in line for line in member.errors[mark:]), f"{members} members: {member.errors}")
        steps = len(member.lines)
        wait_until(lambda: len(member.lines) > steps + 20, "steps in this view")
        return result

    def test_members_come_leave_and_are_killed_and_the_curve_is_that_of_one_process(self):
        first = self.trainer()
        wait_until(lambda: len(first.lines) > 5, "its first steps alone")
        second = self.await_view(first, 2, self.trainer)
        third = self.await_view(first, 3, self.trainer)
        self.await_view(first, 2, second.process.kill)
        fourth = self.await_view(first, 3, self.trainer)
        self.await_view(first, 2, third.process.terminate)
        for member in (first, fourth):
            member.process.terminate()
        for member in (first, third, fourth):
            self.assertEqual(member.process.wait(timeout=60), 0, member.errors[-5:])
            for reader in member.readers:
                reader.join()
        curve = curve_of(first.lines)
        reference = subprocess.run([str(word) for word in (EXAMPLES / "train_alone", TEXT, "--steps", len(curve), "--batch", BATCH)],
                                   capture_output=True, text=True, timeout=120, check=True)
        expected = curve_of(reference.stdout.splitlines())
        self.assertEqual([step for step, _ in curve], [step for step, _ in expected])   # each once, and in order
        for (step, loss), (_, there) in zip(curve, expected):
            self.assertAlmostEqual(loss, there, delta=TOLERANCE, msg=f"at step {step} of {len(curve)}: {first.errors}")


if __name__ == "__main__":
    if SLOW:
        print("skipped: under the thread sanitizer, which has nothing to find here that it does not in tests of the calls")
        sys.exit(77)
    unittest.main(verbosity=2)
