"""Training by four actors of Ray over Tutti.

    pip install ray
    python examples/torch/ray_actors.py

On a cluster of Ray, the actors may run on different hosts: the first one opens the store."""

import argparse
import socket

import ray
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


@ray.remote
class Trainer:
    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        torch.set_num_threads(1)

    def address(self):
        """Address and a free port of the host of this actor, which becomes rank 0."""
        with socket.socket() as s:
            s.bind(("", 0))
            return ray.util.get_node_ip_address(), s.getsockname()[1]

    def join(self, backend, address):
        dist.init_process_group(backend, init_method="tcp://{}:{}".format(*address), rank=self.rank,
                                world_size=self.size)
        torch.manual_seed(1)
        self.model = DDP(nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        return dist.get_backend()

    def train(self, steps):
        """Mean loss of the last step over all actors."""
        for step in range(steps):
            x = torch.randn(8, 16, generator=torch.Generator().manual_seed(step * 100 + self.rank))
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), x.sum(1, keepdim=True).tanh())
            loss.backward()
            self.optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.SUM)
        return mean.item() / self.size

    def leave(self):
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--actors", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()

    if not ray.is_initialized():
        ray.init(num_cpus=args.actors, include_dashboard=False, log_to_driver=True)
    actors = [Trainer.remote(r, args.actors) for r in range(args.actors)]
    address = ray.get(actors[0].address.remote())
    names = ray.get([a.join.remote(args.backend, address) for a in actors])
    print(f"{len(actors)} ranks, backend {names[0]}")
    losses = ray.get([a.train.remote(args.steps) for a in actors])
    print(f"step {args.steps}: loss {losses[0]:.6f}")
    ray.get([a.leave.remote() for a in actors])
    ray.shutdown()


if __name__ == "__main__":
    main()
