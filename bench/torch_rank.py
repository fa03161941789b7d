#!/usr/bin/env python3
"""One rank of a contestant of bench_torch.py: reads a command a line from standard input, answers
with one line of JSON.

    torch_rank.py BACKEND INIT_METHOD RANK RANKS [QUANTIZATION]

Commands: {"do": "collective", "call", "bytes", "iters"}, {"do": "train", "kind", "steps"},
{"do": "groups", "count"} and {"do": "memory", "count"}. Each answer has "us", a list of samples in
microseconds, "bytes", or "error". Between commands the rank sleeps in read."""

import contextlib
import ctypes
import datetime
import gc
import json
import mmap
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # noqa: F401    registers "fake"
from torch import nn

LETTERS, LENGTH, WIDTH, LAYERS = 256, 64, 384, 6
SAMPLES = 5         # of a command


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 6, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                                 nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, mask):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """10.8 million parameters."""

    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.positions = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.out = nn.Linear(WIDTH, LETTERS)
        self.register_buffer("mask", torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), 1))

    def forward(self, text):
        x = self.letters(text) + self.positions
        for block in self.blocks:
            x = block(x, self.mask)
        return self.out(x)


def batches(seed):
    """Texts in which letter a is followed by 5 a + 3, except one time in five."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        text = torch.randint(LETTERS, (1, LENGTH + 1), generator=generator)
        noise = torch.rand(1, LENGTH, generator=generator) < 0.2
        for i in range(LENGTH):
            text[:, i + 1] = torch.where(noise[:, i], text[:, i + 1], (5 * text[:, i] + 3)
                                         % LETTERS)
        yield text[:, :-1], text[:, 1:]


def nothing(_, bucket):
    """A communication hook that does not communicate."""
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


def wrapped(kind, model, communicates):
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
        if not communicates:
            model.register_comm_hook(None, nothing)
        return model
    group = dist.group.WORLD if communicates else dist.new_group(backend="fake")
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    mesh = DeviceMesh.from_group(group, "cpu")
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


class Trainer:
    """kind: ddp or fsdp2. Not communicating, it does all the rest: with a hook, or over the
    backend "fake"."""

    def __init__(self, kind, communicates):
        torch.manual_seed(0)
        self.model = wrapped(kind, Gpt(), communicates)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.batches = batches(1 + dist.get_rank())

    def step(self):
        """Returns the time of forward and backward, in which all of the communication is, and the
        loss."""
        text, following = next(self.batches)
        dist.barrier()
        begin = time.perf_counter()
        loss = nn.functional.cross_entropy(self.model(text).flatten(0, 1), following.flatten())
        loss.backward()
        us = (time.perf_counter() - begin) * 1e6
        self.optimizer.step()
        self.optimizer.zero_grad()
        return us, loss.item()


def call_of(name, nbytes):
    """A call whose larger buffer has that many bytes of f32."""
    size = dist.get_world_size()
    large = torch.ones(max(1, nbytes // 4))
    if name == "all_reduce":
        return lambda: dist.all_reduce(large)
    if name == "all_to_all_single":
        other = torch.empty_like(large)
        return lambda: dist.all_to_all_single(other, large)
    small = torch.ones(large.numel() // size)
    if name == "all_gather_single":
        gather = getattr(dist, name, dist.all_gather_into_tensor)
        return lambda: gather(large, small)
    scatter = getattr(dist, name, dist.reduce_scatter_tensor)
    return lambda: scatter(small, large)


def is_right(backend):
    """Whether sums and blocks are what they must be; "fake" computes nothing."""
    size, rank = dist.get_world_size(), dist.get_rank()
    x, y = torch.full((1000,), 1.0 + rank), torch.empty(1000 * size)
    dist.all_reduce(x)
    dist.all_gather_into_tensor(y, torch.full((1000,), float(rank)))
    return backend == "fake" or (bool((x == size * (size + 1) / 2).all()) and
                                 all(bool((y[r * 1000:(r + 1) * 1000] == r).all())
                                     for r in range(size)))


class HeapInfo(ctypes.Structure):
    """struct mallinfo2 of the C library, from its version 2.33."""
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]


def mapped_bytes():
    """(size of [heap], modified pages of all other mappings). A page that processes share counts
    by its share; pages of files do not count."""
    heap = pages = 0
    with open("/proc/self/smaps", encoding="ascii", errors="replace") as lines:
        for line in lines:
            key, *words = line.split()
            if not key.endswith(":"):
                name = words[4] if len(words) > 4 else ""
                is_heap = name == "[heap]"
                is_shmem = name.startswith(("/memfd:", "/dev/shm/", "/dev/zero", "/SYSV"))
            elif is_heap:
                heap += int(words[0]) << 10 if key == "Size:" else 0
            elif key == "Anonymous:" or (key == "Pss:" and is_shmem):
                pages += int(words[0]) << 10
    return heap, pages


def live_bytes():
    """Memory in use: blocks of malloc (not what it keeps after free), and pages of mappings. Blocks
    of malloc are in [heap] (LIVE_HEAP in bench_torch.py), except where something else lies behind
    it: that part of malloc's memory does not count as pages."""
    gc.collect()
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = HeapInfo
    info = library.mallinfo2()
    heap, pages = mapped_bytes()
    return info.uordblks + pages - max(0, info.arena - heap)


def disable_huge_pages():
    """Where all memory may get huge pages, the stack of each new thread would have 2 MiB."""
    pr_set_thp_disable = 41
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_thp_disable, 1, 0, 0, 0):
        raise SystemExit(f"prctl(PR_SET_THP_DISABLE): {os.strerror(ctypes.get_errno())}")


def check_live_bytes():
    """Memory of each kind counts once, and freed memory does not count."""
    size, slack = 4 << 20, 256 << 10
    before = live_bytes()
    block = torch.full((size,), 1, dtype=torch.uint8)
    mapping = mmap.mmap(-1, size)
    mapping.write(bytes(size))
    used = live_bytes() - before
    mapping.close()
    del block
    freed = live_bytes() - before
    if abs(used - 2 * size) > slack or abs(freed) > slack:
        raise SystemExit(f"live memory: {used} bytes after an allocation of {2 * size}, {freed} "
                         "after it was freed")


class Rank:
    def __init__(self):
        self.calls, self.trainers, self.groups = {}, {}, []

    def collective(self, call, bytes, iters):
        run = self.calls.setdefault((call, bytes), call_of(call, bytes))
        us = []
        for _ in range(max(2, iters // 20)):
            run()
        for _ in range(SAMPLES):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(max(1, iters // SAMPLES)):
                run()
            us.append((time.perf_counter() - begin) * 1e6 / max(1, iters // SAMPLES))
        return {"us": us}

    def forget(self):
        self.calls.clear()
        return {"us": []}

    def train(self, kind, steps, communicates=True):
        if (kind, communicates) not in self.trainers:
            self.trainers[kind, communicates] = Trainer(kind, communicates)
            for _ in range(3):
                self.trainers[kind, communicates].step()
        done = [self.trainers[kind, communicates].step() for _ in range(steps)]
        return {"us": [us for us, _ in done], "loss": [loss for _, loss in done]}

    def new_groups(self, count):
        """Time of the calls; afterwards each group is used once."""
        everyone = list(range(dist.get_world_size()))
        dist.barrier()
        begin = time.perf_counter()
        groups = [dist.new_group(everyone) for _ in range(count)]
        us = (time.perf_counter() - begin) * 1e6
        for group in groups:
            # each works, and has what it allocates at first use
            dist.all_reduce(torch.ones(1), group=group)
        self.groups += groups
        return {"us": [us]}

    def memory(self, count):
        """Memory of so many more groups: the median of four batches, because threads in the
        background also allocate memory once. The first group is not measured: it loads modules,
        and starts threads."""
        batches, grown = 4, []
        disable_huge_pages()
        check_live_bytes()
        self.new_groups(1)
        for _ in range(batches):
            dist.barrier()
            before = live_bytes()
            self.new_groups(count // batches)
            dist.barrier()
            grown.append(live_bytes() - before)
        return {"us": [], "bytes": int(statistics.median(grown) * batches)}


def main():
    backend, init, rank, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    commands, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)       # nothing else belongs there
    torch.set_num_threads(1)
    options = None
    if len(sys.argv) > 5:
        import tutti.torch
        options = tutti.torch.Options()
        options.quantization = sys.argv[5]
    if backend == "fake":
        dist.init_process_group(backend, rank=rank, world_size=size)
    else:
        dist.init_process_group(backend, init_method=init, rank=rank, world_size=size,
                                pg_options=options,
                                timeout=datetime.timedelta(seconds=300))
    if options is None and not is_right(backend):
        raise SystemExit(f"{backend} computes wrong results")
    here = Rank()
    print(json.dumps({"torch": torch.__version__}), file=answers, flush=True)
    for line in commands:
        command = json.loads(line)
        what = {"collective": here.collective, "train": here.train, "groups": here.new_groups,
                "memory": here.memory, "forget": here.forget}
        print(json.dumps(what[command.pop("do")](**command)), file=answers, flush=True)
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()


main()
