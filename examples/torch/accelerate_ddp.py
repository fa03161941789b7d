"""Training with Hugging Face Accelerate on CPUs over Tutti.

    pip install accelerate
    accelerate launch --multi_gpu --num_machines 1 --num_processes 4 \\
        examples/torch/accelerate_ddp.py

--multi_gpu selects the launcher that starts several processes; no GPU is needed. Accelerate always
selects Gloo for CPUs. It uses a process group that exists already, so the program creates it."""

import argparse

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    dist.init_process_group(args.backend)
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(1)
    x = torch.randn(256, 16)
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True).tanh()), batch_size=8)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    accelerator.print(f"{accelerator.num_processes} ranks, backend {dist.get_backend()}")
    for epoch in range(args.epochs):
        losses = []
        for inputs, targets in data:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.detach())
        mean = accelerator.gather(torch.stack(losses)).mean()
        accelerator.print(f"epoch {epoch + 1}: loss {mean:.6f}")
    accelerator.end_training()          # destroys the process group


if __name__ == "__main__":
    main()
