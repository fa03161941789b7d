"""One rank of training on the c10d backend: what PyTorch builds on collectives. Each case trains
with data split over the ranks, and compares with one process that has all of it, or with Gloo.

    prog_torch_train.py INIT_FILE RANK SIZE [CASE...]       (torch_cases.py)"""

import contextlib
import copy
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import torch_cases
from torch_cases import RANK, SIZE

STEPS, BATCH = 4, 6


class Model(nn.Module):
    def __init__(self, width=16, deep=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(deep))
        self.norm = nn.LayerNorm(width)
        self.unused = nn.Linear(width, width)

    def forward(self, x, use=False):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.unused(self.norm(x)) if use else self.norm(x)


def data(step, rank):
    g = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(BATCH, 16, generator=g), torch.randn(BATCH, 16, generator=g)


def fresh():
    torch.manual_seed(7)
    return Model()


def train(model, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()


def mine():
    return [data(step, RANK) for step in range(STEPS)]


def everybodys():
    return [tuple(torch.cat(parts) for parts in zip(*(data(step, r) for r in range(SIZE))))
            for step in range(STEPS)]


def reference(make=lambda p: torch.optim.SGD(p, lr=0.1)):
    model = fresh()
    train(model, make(model.parameters()), everybodys())
    return model.state_dict()


def check(state, want, rtol=1e-4, atol=1e-5):
    for name, value in want.items():
        torch.testing.assert_close(state[name], value, rtol=rtol, atol=atol,
                                   msg=lambda m, name=name: f"{name}: {m}")


def ddp(**options):
    model = DDP(fresh(), find_unused_parameters=not options.get("static_graph", False), **options)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), mine())
    check(model.module.state_dict(), reference())


def case_ddp():
    ddp()
    ddp(static_graph=True)
    ddp(gradient_as_bucket_view=True, bucket_cap_mb=0.001)


def case_ddp_hooks():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    for hook, rtol in ((default_hooks.allreduce_hook, 1e-4),
                       (default_hooks.fp16_compress_hook, 5e-2),
                       (default_hooks.bf16_compress_hook, 2e-1)):
        model = DDP(fresh(), find_unused_parameters=True)
        model.register_comm_hook(None, hook)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), mine())
        check(model.module.state_dict(), reference(), rtol=rtol, atol=rtol)


def like_gloo(run):
    """run(group) returns what it has trained in a group: the same as in one of Gloo."""
    check(run(dist.new_group()), run(dist.new_group(backend="gloo")), rtol=1e-3)


def case_power_sgd():
    """Its collectives start in callbacks. With find_unused_parameters they could come before or
    after that of the reducer, with any backend."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    def run(group):
        torch.manual_seed(7)
        model = DDP(nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)), process_group=group)
        state = powerSGD_hook.PowerSGDState(group, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), mine())
        return model.module.state_dict()
    like_gloo(run)


def case_ddp_join():
    """Each rank has another number of batches."""
    def run(group):
        model = DDP(fresh(), process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with model.join():
            for x, y in mine()[:RANK + 1]:
                optimizer.zero_grad()
                ((model(x, use=True) - y) ** 2).mean().backward()
                optimizer.step()
        return model.module.state_dict()
    like_gloo(run)


def case_fsdp2():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (SIZE,))
    model = fresh()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), mine())
    check({name: p.full_tensor() for name, p in model.named_parameters()}, reference())


def case_fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    model = FSDP(fresh(), device_id=torch.device("cpu"), use_orig_params=False)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), mine())
    with FSDP.summon_full_params(model):
        check(dict(model.module.named_parameters()), {k: v for k, v in reference().items()})


def case_hsdp():
    if SIZE % 2:
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (2, SIZE // 2), mesh_dim_names=("replicate", "shard"))
    model = fresh()
    fully_shard(model, mesh=mesh)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), mine())
    check({name: p.full_tensor() for name, p in model.named_parameters()}, reference())


def case_tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)
    mesh = init_device_mesh("cpu", (SIZE,))
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 12 * SIZE), nn.ReLU(), nn.Linear(12 * SIZE, 8))
    whole = copy.deepcopy(model)
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model(x), whole(x))
    model(x).sum().backward()
    whole(x).sum().backward()
    torch.testing.assert_close(model[0].weight.grad.full_tensor(), whole[0].weight.grad)
    rows = torch.arange(4 * SIZE + 1, dtype=torch.float32).reshape(-1, 1)
    t = distribute_tensor(rows.repeat(1, SIZE + 2), mesh, [Shard(0)])
    columns = t.redistribute(mesh, [Shard(1)])
    torch.testing.assert_close(columns.redistribute(mesh, [Replicate()]).to_local(),
                               t.full_tensor())


def case_zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = DDP(fresh(), find_unused_parameters=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.SGD, lr=0.1)
    train(model, optimizer, mine())
    check(model.module.state_dict(), reference())


def case_post_local_sgd():
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook
    from torch.distributed.algorithms.model_averaging import averagers
    from torch.distributed.optim import PostLocalSGDOptimizer

    def run(group):
        model = DDP(fresh(), find_unused_parameters=True, process_group=group)
        state = post_localSGD_hook.PostLocalSGDState(process_group=group, subgroup=group,
                                                     start_localSGD_iter=1)
        model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
        average = averagers.PeriodicModelAverager(period=2, warmup_steps=1, process_group=group)
        optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), average)
        train(model, optimizer, mine())
        return model.module.state_dict()
    like_gloo(run)


def case_functional():
    import torch.distributed._functional_collectives as fc
    group = dist.group.WORLD
    t = torch.full((4 * SIZE,), float(RANK + 1))
    assert (fc.all_reduce(t, "sum", group) == SIZE * (SIZE + 1) / 2).all()
    assert fc.all_gather_tensor(t, 0, group).numel() == 4 * SIZE * SIZE
    assert (fc.reduce_scatter_tensor(t, "sum", 0, group) == SIZE * (SIZE + 1) / 2).all()
    assert fc.all_to_all_single(t, None, None, group).numel() == t.numel()
    a, b = fc.all_reduce_coalesced([t, t * 2], "sum", group)
    assert (b == SIZE * (SIZE + 1)).all() and (a == SIZE * (SIZE + 1) / 2).all()
    assert (fc.broadcast(t, 0, group) == 1).all()


def case_autograd():
    from torch.distributed.nn import functional as f
    t = torch.full((3,), float(RANK + 1), requires_grad=True)
    f.all_reduce(t).sum().backward()
    assert (t.grad == SIZE).all()
    t = torch.full((2,), float(RANK), requires_grad=True)
    torch.cat(f.all_gather(t)).sum().backward()
    assert (t.grad == SIZE).all()
    autograd_of_parts(f)


def autograd_of_parts(f):
    """Each call with its result, and its gradient: element i of a rank is weighted by i + 1."""
    weights = torch.arange(1.0, SIZE + 1)
    t = torch.full((SIZE,), float(RANK), requires_grad=True)
    (f.broadcast(t, 0) * weights).sum().backward()
    assert torch.equal(t.grad, weights * SIZE if RANK == 0 else torch.zeros(SIZE)), t.grad
    t = torch.full((SIZE,), float(RANK), requires_grad=True)
    (f.reduce(t, 0) * weights).sum().backward()
    assert torch.equal(t.grad, weights)
    t = torch.full((1,), float(RANK), requires_grad=True)
    gathered = torch.cat(f.gather(t, 0))
    assert RANK or torch.equal(gathered, torch.arange(float(SIZE)))
    (gathered * weights).sum().backward()
    assert t.grad.item() == RANK + 1
    t = torch.arange(float(SIZE), requires_grad=True)
    mine = f.scatter(list(t.split(1)), 0)
    assert mine.item() == RANK
    (mine * (RANK + 1)).sum().backward()
    assert RANK or torch.equal(t.grad, weights)
    t = torch.arange(float(SIZE), requires_grad=True)
    mine = f.reduce_scatter(torch.empty(1), list(t.split(1)))
    assert mine.item() == SIZE * RANK
    (mine * (RANK + 1)).sum().backward()
    assert torch.equal(t.grad, weights)
    for moved in (lambda t: torch.cat(f.all_to_all([torch.empty(1) for _ in range(SIZE)],
                                                   list(t.split(1)))),
                  lambda t: f.all_to_all_single(torch.empty(SIZE), t)):
        t = (torch.arange(float(SIZE)) + 10 * RANK).requires_grad_()
        got = moved(t)
        assert torch.equal(got, 10 * torch.arange(float(SIZE)) + RANK)
        (got * weights).sum().backward()
        assert (t.grad == RANK + 1).all()


def case_checkpoint():
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (SIZE,))
    whole = torch.arange(24.0 * SIZE).reshape(-1, 3)
    where = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(where, 0)
    state = {"t": distribute_tensor(whole, mesh, [Shard(0)]), "step": 5}
    dcp.save(state, checkpoint_id=where[0])
    other = {"t": distribute_tensor(torch.zeros_like(whole), mesh, [Shard(0)]), "step": 0}
    dcp.load(other, checkpoint_id=where[0])
    torch.testing.assert_close(other["t"].full_tensor(), whole)
    assert other["step"] == 5
    dist.barrier()
    if RANK == 0:
        with contextlib.suppress(OSError):
            import shutil
            shutil.rmtree(where[0])


def case_flight_recorder():
    import pickle
    for _ in range(3):
        dist.all_reduce(torch.ones(10))
    dist.all_reduce(torch.ones(10), async_op=True).wait()
    if not hasattr(dist, "gather_single"):
        return      # before PyTorch 2.15 the recorder has no backends of packages
    trace = pickle.loads(torch._C._distributed_c10d._dump_fr_trace(backend="tutti"))
    done = [e for e in trace["entries"] if e["state"] == "completed"]
    assert len(done) >= 4, [e["state"] for e in trace["entries"]]
    assert all(e["duration_ms"] is not None and e["duration_ms"] >= 0 for e in done[-4:])


def main():
    torch.set_num_threads(1)
    torch_cases.init()
    torch_cases.run(globals())


if __name__ == "__main__":
    main()
