#!/usr/bin/env python3
"""The tensor-parallel example: products that overlap their communication equal those of a dense
reference, which the program itself computes and compares, for any number of ranks, hosts and
panels. Performance is measured by bench/run gemm."""

import json
import subprocess
import unittest

from cluster import BUILD, SANITIZED, ClusterTest, environment

PROGRAM = BUILD / "examples" / "tensor_parallel"
FORMS = {"compute_ms", "communicate_ms", "puts_apart_ms", "collective_apart_ms", "overlapped_ms"}


class TensorParallel(ClusterTest):
    def together(self, n, *options, wires="shm"):
        done = self.run_tutti("-n", n, "--output", "plain", "--timeout", 100, "--wires", wires,
                              "--", PROGRAM, *options, timeout=150)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual([layer["name"] for layer in said["layers"]],
                         ["allgather-GEMM", "GEMM-reduce_scatter"])
        for layer in said["layers"]:
            self.assertEqual(FORMS, {key for key in layer if key.endswith("_ms")})
        return said

    def test_two_hosts_of_four_are_correct(self):
        for wires in ("shm", "tcp"):
            with self.subTest(wires=wires):
                said = self.together(8, "--rows", 96, "--inner", 40, "--columns", 72, "--panels", 3,
                                     "--rounds", 2, wires=wires)
                self.assertEqual((said["ranks"], said["per_host"]), (8, 4))
                self.assertEqual(said["layers"][0]["link_bytes"], 4 * 12 * 40 * 4)
                self.assertEqual(said["layers"][1]["link_bytes"], 4 * 12 * 72 * 4)
                self.assertEqual(len(said["layers"][0]["overlapped_ms"]), 2)

    def test_products_are_right_in_other_shapes(self):
        for n, per_host, panels in ((1, 1, 1), (2, 1, 8), (4, 4, 1)) if SANITIZED else ((1, 1, 1), (2, 1, 8), (2, 2, 2), (4, 2, 4), (4, 4, 1)):
            with self.subTest(n=n, per_host=per_host, panels=panels):
                self.together(n, "--per-host", per_host, "--rows", 64, "--inner", 24, "--columns",
                              36, "--panels", panels, "--rounds", 1,
                              "--gemm", "own")

    def test_invalid_options_are_reported(self):
        for options, said in ((("--rows", "0"), "invalid option value 0 "),
                              (("--rows", "8x"), "invalid option value 8x "),
                              (("--panels", "65"), "invalid option value 65 "),
                              (("--layer", "both"), "invalid option value both "),
                              (("--gemm", "mine"), "--gemm mine"),
                              (("more",), "unexpected argument more"),
                              (("--rows", "1023"), "multiples"),
                              (("--panels", "7"), "multiple of the panels"),
                              (("--per-host", "3"), "power of two")):
            with self.subTest(options=options):
                done = self.run_tutti("-n", 2, "--", PROGRAM, *options)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)

    def test_help_lists_every_option(self):
        done = subprocess.run([PROGRAM, "--help"], env=environment(), capture_output=True,
                              text=True, timeout=60, check=True)
        for option in ("rows", "inner", "columns", "panels", "per-host", "rounds", "layer", "gemm"):
            self.assertIn(f"--{option} ", done.stdout)


if __name__ == "__main__":
    unittest.main()
