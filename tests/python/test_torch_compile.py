#!/usr/bin/env python3
"""torch.compile with collectives on the c10d backend "tutti"."""

import tempfile

import torch_ranks


class Compiled(torch_ranks.TorchTest):
    def run_compiled(self, case):
        with tempfile.TemporaryDirectory() as cache:
            # Kernels without vectors: the compiler needs less time, and does not try instruction
            # sets.
            self.run_ranks("prog_torch_parallel.py", 2, case, TORCHINDUCTOR_CACHE_DIR=cache,
                           TORCHINDUCTOR_COMPILE_THREADS="1", TORCHINDUCTOR_VEC_ISA_OK="0")

    def test_functional_collectives(self):
        self.run_compiled("compiled_collectives")

    def test_ddp(self):
        self.run_compiled("compiled_ddp")


if __name__ == "__main__":
    torch_ranks.main()
