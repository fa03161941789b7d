#!/usr/bin/env python3
"""Windows of PyTorch 2.15 and tensors in memory that other ranks can map, by ranks of
prog_torch_windows.py."""

import torch_ranks


class Windows(torch_ranks.TorchTest):
    def test_windows_on_two_ranks(self):
        self.run_ranks("prog_torch_windows.py", 2)

    def test_windows_on_three_ranks_over_tcp(self):
        self.run_ranks("prog_torch_windows.py", 3, TUTTI_WIRES="tcp")

    def test_windows_on_four_ranks(self):
        self.run_ranks("prog_torch_windows.py", 4, "put_and_signal", "signals_are_counted", "map",
                       "dropped", "groups")


if __name__ == "__main__":
    torch_ranks.main()
