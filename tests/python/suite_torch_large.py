#!/usr/bin/env python3
"""More than 2^31 elements on the c10d backend "tutti", by ranks of prog_torch_large.py. It is
skipped where less than 8 GiB of memory are available: each rank has 2 GiB, and as much for
PyTorch and copies. Run by `make test-torch`; it takes minutes."""

import re
from pathlib import Path

import torch_ranks

NEEDED_KB = 8 << 20
torch_ranks.PATIENCE_S = 1800


class Large(torch_ranks.TorchTest):
    def setUp(self):
        found = re.search(r"MemAvailable: +([0-9]+) kB", Path("/proc/meminfo").read_text())
        if int(found[1]) < NEEDED_KB:
            self.skipTest(f"needs {NEEDED_KB} kB of memory: {found[0]}")

    def test_all_reduce_and_broadcast(self):
        self.run_ranks("prog_torch_large.py", 2, "all_reduce_and_broadcast")

    def test_all_to_all_single_over_tcp(self):
        self.run_ranks("prog_torch_large.py", 2, "all_to_all_single", TUTTI_WIRES="tcp")


if __name__ == "__main__":
    torch_ranks.main()
