"""One rank of model parallelism on the c10d backend "tutti": pipelines, sequence and context
parallelism, compiled collectives, asynchronous checkpoints. Each case compares with one process.

    prog_torch_parallel.py INIT_FILE RANK SIZE [CASE...]       (torch_cases.py)"""

import copy
import shutil
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import torch_cases
from torch_cases import RANK, SIZE

WIDTH, BATCH = 8, 8


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def layers(n):
    torch.manual_seed(5)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(n)))


def loss_of(output, target):
    return ((output - target) ** 2).mean()


def pipeline(kind, stages_per_rank, numbers, microbatches=4):
    """Trains one step; gradients and losses are those of the whole model."""
    from torch.distributed.pipelining import PipelineStage, schedules
    if hasattr(PipelineStage, "_get_init_p2p_neighbors_ops"):
        # PyTorch 2.9 sends an int64 here and receives a float32
        PipelineStage._get_init_p2p_neighbors_ops = lambda self: []
    whole = layers(SIZE * stages_per_rank)
    parts = [copy.deepcopy(whole[i]) for i in numbers]
    stages = [PipelineStage(part, i, len(whole), torch.device("cpu"))
              for part, i in zip(parts, numbers)]
    make = getattr(schedules, kind)
    schedule = make(stages if issubclass(make, schedules.PipelineScheduleMulti) else stages[0],
                    microbatches, loss_fn=loss_of)
    x, y = (torch.randn(BATCH, WIDTH, generator=seeded(s)) for s in (1, 2))
    losses = []
    feed = [x] if 0 in numbers else []
    output = schedule.step(*feed, target=y, losses=losses)
    want = whole(x)
    chunks = [loss_of(a, b) for a, b in zip(want.chunk(microbatches), y.chunk(microbatches))]
    (sum(chunks) / microbatches).backward()
    for part, i in zip(parts, numbers):
        for got, right in zip(part.parameters(), whole[i].parameters()):
            torch.testing.assert_close(got.grad, right.grad, rtol=1e-4, atol=1e-6)
    if len(whole) - 1 in numbers:
        torch.testing.assert_close(output, want, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(torch.stack(losses), torch.stack(chunks), rtol=1e-4, atol=1e-6)


def case_pipeline_schedules():
    pipeline("ScheduleGPipe", 1, [RANK])
    pipeline("Schedule1F1B", 1, [RANK])
    pipeline("ScheduleLoopedBFS", 2, [RANK, RANK + SIZE])
    pipeline("ScheduleInterleaved1F1B", 2, [RANK, RANK + SIZE])
    pipeline("ScheduleInterleavedZeroBubble", 2, [RANK, RANK + SIZE])
    pipeline("ScheduleZBVZeroBubble", 2, [RANK, 2 * SIZE - 1 - RANK])


def case_sequence_parallel():
    """The norms work on parts of the sequence; the linear layers on parts of their features."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor import parallel as tp
    mesh = init_device_mesh("cpu", (SIZE,))
    torch.manual_seed(3)
    model = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 6 * SIZE), nn.GELU(),
                          nn.Linear(6 * SIZE, WIDTH), nn.LayerNorm(WIDTH))
    whole = copy.deepcopy(model)
    tp.parallelize_module(model, mesh, {
        "0": tp.SequenceParallel(),
        "1": tp.ColwiseParallel(input_layouts=Shard(1)),
        "3": tp.RowwiseParallel(output_layouts=Shard(1)),
        "4": tp.SequenceParallel()})
    model = tp.parallelize_module(model, mesh, tp.PrepareModuleInputOutput(
        input_layouts=Replicate(), desired_input_layouts=Shard(1),
        output_layouts=Shard(1), desired_output_layouts=Replicate()))
    x = torch.randn(2, 4 * SIZE, WIDTH, generator=seeded(1))
    got, want = model(x), whole(x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    got.square().sum().backward()
    want.square().sum().backward()
    for (name, p), right in zip(model.named_parameters(), whole.parameters()):
        grad = p.grad.full_tensor()
        torch.testing.assert_close(grad, right.grad, rtol=1e-4, atol=1e-4, msg=lambda m: name + m)


def case_context_parallel():
    """Ring attention. PyTorch's dispatcher knows the kernels of GPUs only, so the CPU's is passed
    to its ring explicitly. Both ways to move keys and values are tried."""
    from torch.distributed.tensor.experimental import _attention as cp
    from torch.nn import functional as f
    ring = cp._templated_ring_attention
    cp._cp_options.enable_load_balance = False
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q, k, v = (torch.randn(2, 3, 8 * SIZE, 16, generator=seeded(s)) for s in range(3))
    mine = [t.chunk(SIZE, dim=2)[RANK].contiguous() for t in (q, k, v)]
    for method in ("allgather", "alltoall"):
        cp.set_rotate_method(method)
        for causal in (False, True):
            want = f.scaled_dot_product_attention(q, k, v, is_causal=causal)
            out, *_ = ring(dist.group.WORLD, 2,
                           lambda a, b, c, is_causal: kernel(a, b, c, 0.0, is_causal),
                           *mine, is_causal=causal)
            torch.testing.assert_close(out, want.chunk(SIZE, dim=2)[RANK], rtol=1e-4, atol=1e-5)


def case_context_parallel_buffers():
    """Splits buffers over the ranks and puts them together again."""
    from torch.distributed.tensor.experimental import _attention as cp
    mesh = init_device_mesh("cpu", (SIZE,))
    t = torch.arange(2.0 * 4 * SIZE).reshape(2, 4 * SIZE)
    whole = t.clone()
    cp._cp_options.enable_load_balance = False
    with cp.context_parallel(mesh, buffers=[t], buffer_seq_dims=[1]):
        assert t.shape == (2, 4)
        back, = cp.context_parallel_unshard(mesh, [t.clone()], [1])
    assert torch.equal(back, whole) and torch.equal(t, whole)


def case_compiled_collectives():
    """The compiler builds a kernel of C++ for what is between collectives, here once."""
    import torch.distributed._functional_collectives as fc
    group = dist.group.WORLD

    def program(x):
        y = fc.all_gather_tensor(fc.all_reduce(x, "sum", group), 0, group)
        z = fc.reduce_scatter_tensor(y, "avg", 0, group)
        w = fc.all_to_all_single(z, None, None, group)
        a, b = fc.all_reduce_coalesced([z, w], "max", group)
        return torch.relu(a) + 2 * b + fc.broadcast(x, SIZE - 1, group)

    def in_place(t):
        dist.all_reduce(t)
        return t

    x = torch.randn(4 * SIZE, 6, generator=seeded(RANK))
    assert (torch.compile(in_place)(torch.full((5,), float(RANK))) == SIZE * (SIZE - 1) / 2).all()
    got = torch.compile(program, fullgraph=True)(x)
    torch.testing.assert_close(got, program(x), rtol=1e-5, atol=1e-6)


def case_compiled_ddp():
    from torch.nn.parallel import DistributedDataParallel as DDP
    whole, part = layers(3), layers(3)
    model = torch.compile(DDP(part, bucket_cap_mb=2))
    x = torch.randn(BATCH * SIZE, WIDTH, generator=seeded(4))
    model(x.chunk(SIZE)[RANK]).square().mean().backward()
    whole(x).square().mean().backward()
    for got, want in zip(part.parameters(), whole.parameters()):
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-4, atol=1e-6)


def case_async_checkpoint():
    """Saves in the background while training goes on, and loads what was there at the call."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard
    where = [tempfile.mkdtemp() if RANK == 0 else None]
    dist.broadcast_object_list(where, 0)
    mesh = init_device_mesh("cpu", (SIZE,))
    model = fully_shard(layers(3), mesh=mesh)
    want = {k: v.full_tensor().clone() for k, v in model.state_dict().items()}
    saver = dist.new_group()    # its own, as training communicates at the same time
    done = dcp.async_save({"model": model.state_dict()}, checkpoint_id=where[0],
                          process_group=saver)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        model(torch.randn(BATCH, WIDTH, generator=seeded(step))).square().mean().backward()
        optimizer.step()
    done.result()
    assert not torch.equal(model.state_dict()["0.0.weight"].full_tensor(), want["0.0.weight"])
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=where[0])
    for name, value in state["model"].items():
        assert torch.equal(value.full_tensor(), want[name]), name
    dist.barrier()
    if RANK == 0:
        shutil.rmtree(where[0])


def main():
    torch.set_num_threads(1)
    torch_cases.init(200)
    torch_cases.run(globals())


if __name__ == "__main__":
    main()
