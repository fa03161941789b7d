#!/usr/bin/env python3
"""Quantized all-reduces with error feedback: the hook of DDP, options of calls and of groups, by
ranks of prog_torch_hooks.py."""

import torch_ranks


class Hooks(torch_ranks.TorchTest):
    def test_quantized_gradients_on_two_ranks(self):
        self.run_ranks("prog_torch_hooks.py", 2)

    def test_quantized_gradients_on_three_ranks_over_tcp(self):
        self.run_ranks("prog_torch_hooks.py", 3, "errors_follow_parameters", "checkpoint",
                       "hook_types", "call_options",
                       "options_of_every_call", "options_of_gather_scatter_and_barrier",
                       "options_that_a_call_does_not_have", "group_options", TUTTI_WIRES="tcp")

    def test_quantized_gradients_with_the_checks_of_debug_detail(self):
        self.run_ranks("prog_torch_hooks.py", 2, "errors_follow_parameters", "call_options",
                       "options_of_every_call", "options_of_gather_scatter_and_barrier",
                       TORCH_DISTRIBUTED_DEBUG="DETAIL")


if __name__ == "__main__":
    torch_ranks.main()
