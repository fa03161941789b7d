#!/usr/bin/env python3
"""Four actors of Ray train over the c10d backend "tutti", with the loss that they have over Gloo.
It is skipped where scripts/install-torch.sh --frameworks did not install Ray."""

import torch_ranks
from torch_ranks import ROOT


class Ray(torch_ranks.TorchTest):
    def test_four_actors_of_ray(self):
        self.need("ray")
        self.compare(4, ROOT / "examples" / "torch" / "ray_actors.py")


if __name__ == "__main__":
    torch_ranks.main()
