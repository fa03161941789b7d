#!/usr/bin/env bash
# PyTorch 2.15.0 with Gloo: after an exception inside torch.distributed._coalescing_manager(), later
# collectives of the group are not executed.
#
# Expected by users: the exception ends the batch, and the group is usable, as with every context
# manager. Seen with 2 ranks: the batch stays open. all_reduce returns None without an error, and its
# tensor is unchanged. The next batch raises ValueError.
#
# The manager has no try/finally around its yield, so the group stays in
# distributed_c10d._world.pg_coalesce_state. Tutti's backend cannot see this, because PyTorch does not
# call it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip --disable-pip-version-check --quiet install --only-binary :all: torch==2.15.0 numpy==2.4.6
cat >"$folder/batch.py" <<'PY'
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def sum_of_ones():
    x = torch.ones(1)
    dist.all_reduce(x)
    return float(x)


def run(rank, size, init):
    dist.init_process_group("gloo", init_method=init, rank=rank, world_size=size)
    lines = [f"all_reduce of ones before: {sum_of_ones()}"]
    try:
        with dist._coalescing_manager():
            raise KeyError("of the program")
    except KeyError:
        lines.append("the exception was raised")
    lines.append(f"all_reduce of ones afterwards: {sum_of_ones()}")
    try:
        with dist._coalescing_manager():
            pass
    except ValueError as error:
        lines.append(f"next batch: ValueError: {error}")
    if rank == 0:
        print("\n".join(lines), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(run, (2, f"file://{sys.argv[1]}/init"), nprocs=2)
PY
"$folder/venv/bin/python" "$folder/batch.py" "$folder" | tee "$folder/seen"
cat >"$folder/expected" <<'SEEN'
all_reduce of ones before: 2.0
the exception was raised
all_reduce of ones afterwards: 1.0
next batch: ValueError: ProcessGroup has non-empty op list at the start of coalescing
SEEN
diff "$folder/expected" "$folder/seen" && echo "as recorded"
