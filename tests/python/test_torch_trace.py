#!/usr/bin/env python3
"""PyTorch's flight recorder on the c10d backend "tutti": states and durations (in the ranks), and
torchfrtrace reads the dumps."""

import os
import subprocess
import tempfile

import torch_ranks
from torch_ranks import PATIENCE_S, PYTHON, environment

# The console script of the wheel, whatever the environment's path is.
TOOL = [PYTHON, "-c", "from torch.distributed.flight_recorder.fr_trace import main; main()"]
OPERATIONS = ("all_reduce", "broadcast", "reduce", "all_gather", "_all_gather_base",
              "reduce_scatter", "_reduce_scatter_base", "all_to_all_single", "gather", "scatter",
              "barrier", "send 0->1")


class Trace(torch_ranks.TorchTest):
    def test_torchfrtrace_finds_the_collective_that_two_ranks_lack(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_ranks("prog_torch_trace.py", 3, folder)
            self.assertEqual(sorted(os.listdir(folder)), ["rank_0", "rank_1", "rank_2"])
            database = f"{folder}.db"
            done = subprocess.run([*TOOL, folder, "-o", database], env=environment(), text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(database, "rb") as f:
            content = f.read()
        os.remove(database)
        for name in OPERATIONS:
            self.assertIn(f"tutti:{name}".encode(), content)
        self.assertRegex(done.stdout, r"(?s)sequence number: 12\n.*collective: tutti:all_reduce\n"
                                      r"missing ranks: \{1, 2\}\n.*collective state: scheduled")


if __name__ == "__main__":
    torch_ranks.main()
