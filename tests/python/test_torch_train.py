#!/usr/bin/env python3
"""Training on the c10d backend "tutti": ranks of prog_torch_train.py, and the example under
torchrun."""

import subprocess

import torch_ranks
from torch_ranks import PATIENCE_S, PYTHON, ROOT, environment


class Training(torch_ranks.TorchTest):
    def test_training(self):
        self.run_ranks("prog_torch_train.py", 2)

    def test_training_on_a_mesh_of_two_dimensions(self):
        self.run_ranks("prog_torch_train.py", 4, "hsdp", "ddp")

    def test_torchrun_finds_the_backend_without_an_import(self):
        self.need_feature("hasattr(dist, 'gather_single')", "entry points for backends")
        done = subprocess.run([PYTHON, "-m", "torch.distributed.run", "--standalone",
                               "--nproc-per-node", "2", ROOT / "examples/torch/ddp.py",
                               "--steps", "5"], env=environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 ranks, backend tutti", done.stdout)
        self.assertRegex(done.stdout, r"step +5: loss \d")


if __name__ == "__main__":
    torch_ranks.main()
