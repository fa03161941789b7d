#!/usr/bin/env python3
"""Bad input on the c10d backend "tutti": exceptions with the cause, and the job continues."""

import torch_ranks


# PyTorch dumps a trace on each failure: it takes seconds of a busy machine to find its lines.
QUICK = {"TORCH_INCLUDE_STACK_TRACE": "0"}


class BadInput(torch_ranks.TorchTest):
    def test_bad_input_on_two_ranks(self):
        self.run_ranks("prog_torch_bad.py", 2, **QUICK)

    def test_bad_input_on_three_ranks_over_tcp(self):
        self.run_ranks("prog_torch_bad.py", 3, TUTTI_WIRES="tcp", **QUICK)


if __name__ == "__main__":
    torch_ranks.main()
