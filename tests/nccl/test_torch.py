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
