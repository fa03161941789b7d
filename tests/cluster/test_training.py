#!/usr/bin/env python3
"""The training examples learn, and with any number of ranks they learn the same as one process
(docs/training.md)."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cluster import BUILD, SLOW, ClusterTest

# a text that does not change: curves depend on it
TEXT = Path(os.environ["TUTTI_SOURCE_DIR"]) / "LICENSE"
EXAMPLES = BUILD / "examples"
TOLERANCE = 2e-4    # of a loss, as in docs/training.md


def curve_of(text):
    return [(int(step), float(loss)) for step, loss in (line.split() for line in text.splitlines())]


class Training(ClusterTest):
    def alone(self, *options):
        done = subprocess.run([EXAMPLES / "train_alone", TEXT, *map(str, options)],
                              capture_output=True, text=True, timeout=150, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return curve_of(done.stdout)

    def together(self, n, program, *options, wires="shm"):
        done = self.run_tutti("-n", n, "--output", "plain", "--timeout", 150, "--wires", wires,
                              EXAMPLES / program, TEXT, *map(str, options), timeout=180)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return curve_of(done.stdout)

    def assert_same(self, curve, reference):
        self.assertEqual([step for step, _ in curve], [step for step, _ in reference])
        for (step, loss), (_, expected) in zip(curve, reference):
            self.assertAlmostEqual(loss, expected, delta=TOLERANCE, msg=f"at step {step}")

    def test_ddp_has_the_reference_curve(self):
        reference = self.alone("--steps", 80, "--batch", 30)
        self.assertLess(reference[-1][1], reference[0][1] - 1)
        for n in (1, 2, 4):
            with self.subTest(n=n):
                self.assert_same(self.together(n, "train_ddp", "--steps", 80, "--batch", 30),
                                 reference)
        self.assert_same(self.together(2, "train_ddp", "--steps", 80, "--batch", 30, wires="tcp"),
                         reference)

    def test_diloco_has_the_reference_curve(self):
        options = ("--steps", 130, "--inner", 20, "--batch", 16)
        for n in (1, 3):
            with self.subTest(n=n):
                reference = self.alone("--workers", n, *options)
                self.assertEqual([step for step, _ in reference], [20, 40, 60, 80, 100, 120, 130])
                self.assertLess(reference[-1][1], reference[0][1] - 0.5)
                self.assert_same(self.together(n, "train_diloco", *options), reference)

    def test_delayed_means_apply_one_exchange_later(self):
        options = ("--workers", 2, "--steps", 60, "--inner", 20, "--batch", 16)
        prompt, late = self.alone(*options), self.alone(*options, "--delay")
        self.assertEqual(prompt[0], late[0])
        self.assertGreater(abs(prompt[1][1] - late[1][1]), 50 * TOLERANCE)

    def test_invalid_replay_files_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder, "run")
            for text, what in (("20 1.5 1\n20 1.5 1\n", "line 2: must begin with a step"),
                               ("20 x 1\n", "line 1: the loss after the step"),
                               ("# a run\n20 1.5\n", "line 2: no member"),
                               ("20 1.5 1 2 1\n", "line 1: a member is listed twice"),
                               ("20 1.5 1 -2\n", "line 1: invalid member number"),
                               ("20 1.5" + " 1" * 9000, "line 1: longer than")):
                run.write_text(text, encoding="ascii")
                done = subprocess.run([EXAMPLES / "train_alone", TEXT, "--replay", run],
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 1, text[:40])
                self.assertIn(what, done.stderr)
            run.write_text("# two and then one\n20 9.9 0 1\n40 9.9 1\n", encoding="ascii")
            played, fixed = self.alone("--replay", run), self.alone("--workers", 2, "--steps", 40)
            self.assertEqual(played[0], fixed[0])
            self.assertEqual(played[1][0], 40)
            self.assertNotEqual(played[1], fixed[1])

    def test_another_seed_has_another_curve(self):
        """Otherwise the tests above could not fail."""
        one, other = (self.alone("--steps", 20, "--seed", seed) for seed in (1, 2))
        self.assertGreater(max(abs(a[1] - b[1]) for a, b in zip(one, other)), 50 * TOLERANCE)

    def test_each_program_has_its_own_options(self):
        plain, apart, elastic = {"steps", "batch", "seed", "rate",
                                 "momentum"}, {"inner", "outer-rate", "outer-momentum"}, {"members"}
        for program, options in (("train_alone", plain | apart | {"workers", "replay", "delay"}),
                                 ("train_ddp", plain), ("train_diloco", plain | apart),
                                 ("train_elastic", plain | elastic),
                                 ("train_hsdp", plain | elastic | {"group", "role", "roles"}),
                                 ("train_diloco_elastic", plain | apart | elastic),
                                 ("train_diloco_async", plain | apart | elastic)):
            said = subprocess.run([EXAMPLES / program, "--help"], capture_output=True, text=True,
                                  timeout=60, check=True).stdout
            self.assertEqual(set(re.findall(r"(?m)^ .* --([a-z-]+)=", said))
                             | set(re.findall(r"(?m)^ .*--(delay) ", said)), options, program)
        done = subprocess.run([EXAMPLES / "train_hsdp", TEXT, "--workers", "2"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--workers", done.stderr)

    def test_invalid_input_is_reported(self):
        for program in ("train_alone", "train_ddp", "train_diloco", "train_diloco_async",
                        "train_hsdp"):
            for args, what in ((["/nowhere"], "/nowhere"), ([os.devnull], "a text of"),
                               ([], "missing argument: a text file"),
                               ([TEXT, "--steps", "0"], "--steps 0"),
                               ([TEXT, "--rate", "x"], "--rate x")):
                done = subprocess.run([EXAMPLES / program, *args], capture_output=True, text=True,
                                      timeout=60, check=False)
                self.assertEqual(done.returncode, 2, f"{program} {args}")
                self.assertIn(what, done.stderr)
        done = subprocess.run([EXAMPLES / "train_hsdp", TEXT, "--role", "2"], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--role 2: the maximum with --roles 2 is 1", done.stderr)


if __name__ == "__main__":
    if SLOW:
        print("skipped: under the thread sanitizer, which has nothing to find here that it does "
              "not in tests of the calls")
        sys.exit(77)
    unittest.main(verbosity=2)
