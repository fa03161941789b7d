#!/usr/bin/env python3
"""Accelerate and Lightning train over the c10d backend "tutti", with the losses that they have over
Gloo. Each is skipped where scripts/install-torch.sh --frameworks did not install it."""

import torch_ranks
from torch_ranks import ROOT

EXAMPLES = ROOT / "examples" / "torch"
ACCELERATE = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2",
              "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no",
              "--num_cpu_threads_per_process", "1", "--main_process_port", "0"]


class Frameworks(torch_ranks.TorchTest):
    def test_accelerate_launch(self):
        self.need("accelerate")
        self.compare(2, *ACCELERATE, EXAMPLES / "accelerate_ddp.py")

    def test_lightning(self):
        self.need("pytorch_lightning")
        self.compare(2, EXAMPLES / "lightning_ddp.py", "--devices", "2")


if __name__ == "__main__":
    torch_ranks.main()
