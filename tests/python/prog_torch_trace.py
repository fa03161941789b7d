"""One rank of the flight recorder's test: calls operations of all kinds, and writes the recorder's
dump to a file per rank. Rank 0 calls one collective more, which the others lack.

    prog_torch_trace.py INIT_FILE RANK SIZE FOLDER"""

import datetime
import pickle
import sys

import torch
import torch.distributed as dist

RANK, SIZE, FOLDER = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
CALLS = 12


def call_all():
    t, parts = torch.ones(66), [torch.ones(66) for _ in range(SIZE)]
    dist.all_reduce(t)
    dist.broadcast(t, 0)
    dist.reduce(t, 0)
    dist.all_gather(parts, t)
    dist.all_gather_into_tensor(torch.empty(66 * SIZE), t)
    dist.reduce_scatter(t, parts)
    dist.reduce_scatter_tensor(t, torch.ones(66 * SIZE))
    dist.all_to_all_single(torch.empty(66), t)
    dist.gather(t, parts if RANK == 0 else None, 0)
    dist.scatter(t, parts if RANK == 0 else None, 0)
    dist.barrier()
    if RANK == 0:
        dist.send(t, 1)
    elif RANK == 1:
        dist.recv(t, 0)


def main():
    dist.init_process_group("tutti", init_method=f"file://{sys.argv[1]}", rank=RANK,
                            world_size=SIZE, timeout=datetime.timedelta(seconds=120))
    call_all()
    last = dist.all_reduce(torch.ones(7), async_op=True) if RANK == 0 else None
    dump = torch._C._distributed_c10d._dump_fr_trace(backend="tutti")
    entries = pickle.loads(dump)["entries"]
    done = [e for e in entries if e["state"] == "completed"]
    assert len(done) >= CALLS - (RANK > 1), [(e["profiling_name"], e["state"]) for e in entries]
    assert all(e["duration_ms"] > 0 for e in done), done
    assert all(e["profiling_name"].startswith("tutti:") for e in entries), entries
    assert [e["state"] for e in entries if e not in done] == ["scheduled"] * (RANK == 0), entries
    with open(f"{FOLDER}/rank_{RANK}", "wb") as f:
        f.write(dump)
    if RANK == 0:
        for r in range(1, SIZE):
            dist.send(torch.ones(1), r)
        last.wait()
    else:
        dist.recv(torch.ones(1), 0)     # rank 0 has made its dump, with the collective not complete
        dist.all_reduce(torch.ones(7))
    dist.destroy_process_group()
    print(f"rank {RANK} is right", flush=True)


if __name__ == "__main__":
    main()
