#!/usr/bin/env python3
"""Model parallelism and asynchronous checkpoints on the c10d backend "tutti"."""

import torch_ranks

PARALLEL = ("pipeline_schedules", "sequence_parallel", "context_parallel",
            "context_parallel_buffers", "async_checkpoint")


class Parallel(torch_ranks.TorchTest):
    def test_model_parallelism_on_two_ranks(self):
        self.run_ranks("prog_torch_parallel.py", 2, *PARALLEL)

    def test_model_parallelism_on_four_ranks(self):
        self.run_ranks("prog_torch_parallel.py", 4, *PARALLEL)


if __name__ == "__main__":
    torch_ranks.main()
