#!/usr/bin/env bash
# PyTorch 2.15.0 with Gloo: whether all_reduce MIN and MAX return a NaN depends on the rank that has
# it, and for longer vectors on its position.
#
# Expected by users: torch.minimum and torch.maximum propagate NaN, so a NaN on any rank gives NaN.
# Seen with 2 and 3 ranks: of one element, only a NaN of rank 0 survives. Of 1 Mi elements, only one of
# rank 0 survives in the first element, and only one of the last rank in the last element. The ranks
# agree on the result in every case.
#
# Tutti's backend returns NaN on all ranks if any rank has one (docs/pytorch.md).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip --disable-pip-version-check --quiet install --only-binary :all: torch==2.15.0 numpy==2.4.6
cat >"$folder/nan.py" <<'PY'
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, size, init, queue):
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=size)
    for name, op in (("MIN", dist.ReduceOp.MIN), ("MAX", dist.ReduceOp.MAX)):
        for count in (1, 1 << 20):
            for position in sorted({0, count - 1}):
                survives = []
                for owner in range(size):
                    x = torch.full((count,), float(rank))
                    if rank == owner:
                        x[position] = float("nan")
                    dist.all_reduce(x, op)
                    mine = torch.isnan(x[position : position + 1]).to(torch.int32)
                    every = [torch.zeros_like(mine) for _ in range(size)]
                    dist.all_gather(every, mine)
                    assert len({int(k) for k in every}) == 1, "ranks disagree"
                    if int(mine):
                        survives.append(owner)
                if rank == 0:
                    queue.put(f"{size} ranks, {name}, {count} elements, NaN at {position}: survives from ranks {survives}")
    dist.destroy_process_group()


if __name__ == "__main__":
    for size in (2, 3):
        queue = mp.get_context("spawn").SimpleQueue()
        mp.spawn(run, (size, f"file://{sys.argv[1]}/init{size}", queue), nprocs=size)
        while not queue.empty():
            print(queue.get())
PY
"$folder/venv/bin/python" "$folder/nan.py" "$folder" | tee "$folder/seen"
cat >"$folder/expected" <<'SEEN'
2 ranks, MIN, 1 elements, NaN at 0: survives from ranks [0]
2 ranks, MIN, 1048576 elements, NaN at 0: survives from ranks [0]
2 ranks, MIN, 1048576 elements, NaN at 1048575: survives from ranks [1]
2 ranks, MAX, 1 elements, NaN at 0: survives from ranks [0]
2 ranks, MAX, 1048576 elements, NaN at 0: survives from ranks [0]
2 ranks, MAX, 1048576 elements, NaN at 1048575: survives from ranks [1]
3 ranks, MIN, 1 elements, NaN at 0: survives from ranks [0]
3 ranks, MIN, 1048576 elements, NaN at 0: survives from ranks [0]
3 ranks, MIN, 1048576 elements, NaN at 1048575: survives from ranks [2]
3 ranks, MAX, 1 elements, NaN at 0: survives from ranks [0]
3 ranks, MAX, 1048576 elements, NaN at 0: survives from ranks [0]
3 ranks, MAX, 1048576 elements, NaN at 1048575: survives from ranks [2]
SEEN
diff "$folder/expected" "$folder/seen" && echo "as recorded"
