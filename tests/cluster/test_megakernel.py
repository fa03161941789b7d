#!/usr/bin/env python3
"""The megakernel of examples/moe: its results equal, bit by bit, those of a dense reference, which
the program itself computes and compares; in each mode of the proxy and as collectives, for each
shape, type and route. Performance is measured by bench/run moe."""

import json
import subprocess
import unittest

from cluster import BUILD, SANITIZED, ClusterTest, environment

PROGRAM = BUILD / "examples" / "moe"
FORMS = ("collective", "padded", "full", "coupled", "decoupled", "ordered")


class Megakernel(ClusterTest):
    def together(self, n, *options, wires="shm", forms=FORMS):
        done = self.run_tutti("-n", n, "--output", "plain", "--timeout", 100, "--wires", wires,
                              "--", PROGRAM, "--json", "--rounds", 1, "--forms", ",".join(forms),
                              *options,
                              timeout=150)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual({f"{form}_ms" for form in forms}
                         | ({"compute_ms"} if "collective" in forms else set()),
                         {key for key in said if key.endswith("_ms")})
        return said

    def test_all_forms_give_the_same_bits(self):
        said = self.together(3, "--scale", 32, "--tokens", 12, "--skew", 1, "--wrong",
                             "--processors", 2, wires="tcp")
        for form, counted in said["proxy"].items():
            self.assertGreater(counted["puts"], 0, form)
            drains = form in ("coupled", "decoupled")
            self.assertEqual((counted["drains"] > 0, counted["fences"] > 0), (drains, not drains),
                             form)
        self.assertGreater(said["proxy"]["coupled"]["drains"], said["proxy"]["decoupled"]["drains"])

    def test_shapes_types_and_routes(self):
        cases = (("qwen3-30b", 2, "fp8", "bf16", ("--skew", 1.5)),
                 ("deepseek-v3", 4, "fp8", "fp8", ("--skew", 0)),
                 ("gpt-oss-120b", 2, "bf16", "f32", ()), ("qwen3-30b", 1, "f32", "f32",
                                                          ("--skew", 1)),
                 ("gpt-oss-120b", 4, "bf16", "bf16", ("--tile", 3, "--proxied", "--group", 8,
                                                      "--skew", 0.5)))
        for shape, n, there, back, options in cases[:2] if SANITIZED else cases:
            with self.subTest(shape=shape, n=n, there=there, back=back):
                said = self.together(n, "--shape", shape, "--scale", 64, "--tokens", 9, "--there",
                                     there, "--back", back, "--wrong", *options,
                                     forms=("collective", "padded", "full"))
                self.assertEqual((said["shape"], said["ranks"]), (shape, n))

    def test_invalid_option_is_named_with_value(self):
        cases = ((("--tokens", "0"), "--tokens 0: must be a whole number from 1 to 65536"),
                 (("--skew", "x"), "--skew x: must be a number from 0 to 4"),
                 (("--there", "f64"), "--there f64: must be f32, bf16 or fp8"),
                 (("--forms", "full,half"), '--forms full,half: unknown form "half"'),
                 (("more",), 'unexpected argument "more"'),
                 (("--shape", "mine"), "--shape mine: must be qwen3-30b, deepseek-v3 or "
                                       "gpt-oss-120b"),
                 (("--scale", "1000"), "--scale 1000: the maximum is 768, the smaller width of "
                                       "qwen3-30b"))
        for options, said in cases:
            with self.subTest(options=options):
                done = subprocess.run([PROGRAM, *options], env=environment(), capture_output=True,
                                      text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")),
                                 (2, "", 1))
                self.assertIn(said, done.stderr)

    def test_help_lists_every_option(self):
        done = subprocess.run([PROGRAM, "--help"], env=environment(), capture_output=True,
                              text=True, timeout=60, check=True)
        for option in ("shape", "scale", "tokens", "skew", "there", "back", "tile", "group",
                       "processors", "forms", "proxied", "wrong", "rounds", "seed", "json"):
            self.assertIn(f"--{option} ", done.stdout)

    def test_table_describes_each_number(self):
        done = self.run_tutti("-n", 2, "--output", "plain", "--timeout", 100, "--wires", "shm",
                              "--", PROGRAM, "--scale", 64, "--tokens", 4, "--rounds", 2,
                              "--forms", "collective,full", timeout=150)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "qwen3-30b with widths scaled by 1/64: hidden 32, intermediate "
                                   "12; 128 experts, 8 per token")
        self.assertIn("2 ranks with 4 tokens each; encoding of tokens bf16, of results bf16",
                      lines[1])
        columns = lines[4].split()
        self.assertEqual(columns, "form median ms min ms max ms puts drains fences".split())
        for line, name, numbers in zip(lines[5:8], ("collective", "computation", "full"),
                                       (3, 3, 6)):
            self.assertEqual((line.split()[0], len(line.split())), (name, 1 + numbers), line)
            median, least, most = map(float, line.split()[1:4])
            self.assertTrue(0 < least <= median <= most, line)
        for said in ("ms: time of a round on the slowest rank, over 2 rounds", "collective: ",
                     "full: "):
            self.assertIn(f"\n{said}", done.stdout)
        self.assertNotIn("coupled", done.stdout)


if __name__ == "__main__":
    unittest.main()
