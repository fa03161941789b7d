#!/usr/bin/env python3
"""PyTorch's own NCCL backend runs over libnccl.so.2 of Tutti, on emulated devices. PyTorch's
kernels cannot run there; copies and collectives can. Skipped without scripts/install-torch.sh."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import job

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("TUTTI_BUILD_DIR", "build")).resolve()
PYTHON = ROOT / os.environ.get("TUTTI_TEST_TORCH", "build/torch") / "bin" / "python"
LIBRARIES = ("emu/libcuda.so.1", "emu/libcudart.so.13", "nccl/libnccl.so.2")
DEADLINE_S = 280

PROGRAM = """
import sys
import torch
import torch.distributed as dist

rank, device = int(sys.argv[1]), f"cuda:{sys.argv[1]}"
def made(n, value):
    return torch.full((n,), float(value)).to(device)
def check(tensor, *values):
    assert tensor.cpu().tolist() == list(values), (rank, tensor.cpu(), values)

torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
a = made(4, rank + 1)
dist.all_reduce(a)
check(a, 3, 3, 3, 3)
b = made(4, 0)
dist.all_gather_into_tensor(b, made(2, rank))
check(b, 0, 0, 1, 1)
c = made(2, rank + 5)
dist.broadcast(c, 1)
check(c, 6, 6)
d = made(1, 0)
dist.reduce_scatter_tensor(d, made(2, rank + 1))
check(d, 3)
e = made(2, 0)
dist.all_to_all_single(e, made(2, rank))
check(e, 0, 1)
f = made(3, rank)
if rank:
    dist.recv(f, 0)
else:
    dist.send(f, 1)
check(f, 0, 0, 0)
for op, value in (
    (dist.ReduceOp.MAX, 4),
    (dist.ReduceOp.MIN, 2),
    (dist.ReduceOp.PRODUCT, 8),
    (dist.ReduceOp.AVG, 3),
):
    g = made(2, 2 * rank + 2)
    dist.all_reduce(g, op=op)
    check(g, value, value)
h = made(3, rank + 1)
dist.reduce(h, 0)
if rank == 0:
    check(h, 3, 3, 3)
parts = [made(2, 0), made(2, 0)]
dist.all_gather(parts, made(2, rank + 5))
check(parts[0], 5, 5)
check(parts[1], 6, 6)
i = made(1, 0)
dist.reduce_scatter(i, [made(1, rank + 1), made(1, rank + 2)])
check(i, 3 + 2 * rank)
dist.all_to_all(parts, [made(2, 10 * rank), made(2, 10 * rank + 1)])
check(parts[0], rank, rank)
check(parts[1], 10 + rank, 10 + rank)
o = made(2 * (rank + 1), 9)         # each rank sends 1 element to rank 0, and 2 to rank 1
dist.all_to_all_single(o, made(3, rank), [rank + 1, rank + 1], [1, 2])
check(o, *[0] * (rank + 1), *[1] * (rank + 1))
dist.gather(made(2, rank + 7), parts if rank == 0 else None, dst=0)
if rank == 0:
    check(parts[0], 7, 7)
    check(parts[1], 8, 8)
j = made(2, 0)
dist.scatter(j, [made(2, 3), made(2, 4)] if rank == 0 else None, src=0)
check(j, 3 + rank, 3 + rank)
k, l = made(2, rank), made(2, 9)
pair = [dist.P2POp(dist.isend, k, 1 - rank), dist.P2POp(dist.irecv, l, 1 - rank)]
for work in dist.batch_isend_irecv(pair):
    work.wait()
check(l, 1 - rank, 1 - rank)
many = [made(n, rank + n) for n in (1, 2, 3)]
with dist._coalescing_manager(device=torch.device(device)):
    for m in many:
        dist.all_reduce(m)
for n, m in zip((1, 2, 3), many):
    check(m, *[2 * n + 1] * n)
group = dist.new_group([1, 0])
n = made(1, rank + 1)
work = dist.all_reduce(n, group=group, async_op=True)
work.wait()
check(n, 3)
dist.barrier()
dist.destroy_process_group()
print("good")
"""


class Torch(unittest.TestCase):
    def start(self, rank, store):
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(BUILD),
            "LD_PRELOAD": " ".join(str(BUILD / library) for library in LIBRARIES),
            "TUTTI_EMU_DEVICES": "2",
            "TUTTI_EMU_QUIET": "1",
        }
        return job.start(self, [PYTHON, "-c", PROGRAM, str(rank), str(store)], environment)

    def test_its_nccl_backend_runs_on_two_devices(self):
        with tempfile.TemporaryDirectory() as folder:
            jobs = [self.start(rank, Path(folder) / "store") for rank in range(2)]
            for process in jobs:
                out, err = process.communicate(timeout=DEADLINE_S)
                self.assertEqual(process.returncode, 0, err)
                self.assertEqual(out.split()[-1:], ["good"], err)


if __name__ == "__main__":
    if not PYTHON.exists() or not (BUILD / "emu" / "libcudart.so.13").exists():
        print("skipped: no PyTorch, or the emulation of CUDA is not built")
        sys.exit(77)
    if "-fsanitize" in os.environ.get("CFLAGS", ""):
        print("skipped: PyTorch is not built with sanitizers")
        sys.exit(77)
    unittest.main()
