#!/usr/bin/env python3
"""Trains a small language model on synthetic text with DistributedDataParallel over Tutti.

    pip install ./python
    torchrun --nproc-per-node 4 examples/torch/ddp.py

Each rank generates its own batches: a fixed rule gives the letter after each letter, with some
noise. The model learns the rule, so the loss falls from ln(64) = 4.2 towards about 1. With
--backend gloo the same program uses PyTorch's own backend."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

LETTERS = 64


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x, mask):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, width, layers, length):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.positions = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.out = nn.Linear(width, LETTERS)
        self.register_buffer("mask", torch.triu(torch.full((length, length), float("-inf")), 1))

    def forward(self, text):
        x = self.letters(text) + self.positions
        for block in self.blocks:
            x = block(x, self.mask)
        return self.out(x)


def batch(generator, size, length):
    """Texts in which letter a is followed by 5 a + 3 in four of five cases."""
    text = torch.randint(LETTERS, (size, length + 1), generator=generator)
    noise = torch.rand(size, length, generator=generator) < 0.2
    for i in range(length):
        rule = (5 * text[:, i] + 3) % LETTERS
        text[:, i + 1] = torch.where(noise[:, i], text[:, i + 1], rule)
    return text[:, :-1], text[:, 1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti", help="of torch.distributed (default: tutti)")
    parser.add_argument("--steps", type=int, default=60, help="training steps (default: 60)")
    parser.add_argument("--width", type=int, default=128, help="of the model (default: 128)")
    parser.add_argument("--layers", type=int, default=4, help="of the model (default: 4)")
    parser.add_argument("--batch", type=int, default=8, help="texts per rank and step (default: 8)")
    parser.add_argument("--length", type=int, default=64, help="letters per text (default: 64)")
    options = parser.parse_args()

    torch.set_num_threads(max(1,
                              (os.cpu_count()
                               or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(Model(options.width, options.layers, options.length))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1 + rank)
    if rank == 0:
        parameters = sum(p.numel() for p in model.parameters())
        print(f"{size} ranks, backend {dist.get_backend()}, {parameters / 1e6:.1f} million "
              f"parameters", flush=True)

    begin = time.perf_counter()
    for step in range(1, options.steps + 1):
        text, following = batch(generator, options.batch, options.length)
        loss = nn.functional.cross_entropy(model(text).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(1, options.steps // 10) == 0 or step == options.steps:
            mean = loss.detach().clone()
            dist.all_reduce(mean, dist.ReduceOp.AVG)
            if rank == 0:
                per_step = (time.perf_counter() - begin) / step * 1e3
                print(f"step {step:4d}: loss {mean.item():.3f}, {per_step:.0f} ms per step",
                      flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
