"""One rank of tests of start-up on the c10d backend "tutti": names, init methods, launchers. The
backend is found without an import.

    prog_torch_start.py CASE [ARGUMENT...]     prints "rank R is right" """

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh

if not hasattr(dist, "gather_single"):      # PyTorch before 2.15 has no entry points for backends
    import tutti.torch      # noqa: F401  pylint: disable=unused-import


def check_and_end():
    rank, size = dist.get_rank(), dist.get_world_size()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.name() == "tutti", backend.name()
    t = torch.full((3,), float(rank + 1))
    dist.all_reduce(t)
    assert (t == size * (size + 1) / 2).all(), t
    dist.destroy_process_group()
    print(f"rank {rank} is right", flush=True)


def case_init(method, rank, size):
    dist.init_process_group("tutti", init_method=method, rank=int(rank), world_size=int(size))
    check_and_end()


def case_env(name):
    """Rank and size are in the environment."""
    dist.init_process_group(name)
    check_and_end()


def case_rank_0_fails(method, rank, size):
    """All ranks report it. The others would wait for rank 0 until their timeout."""
    rank = int(rank)
    try:
        dist.init_process_group("tutti", init_method=method, rank=rank, world_size=int(size))
    except dist.DistBackendError as error:
        assert "tutti: init: " in str(error) and "nowhere0" in str(error), error
        assert rank == 0 or "rank 0 failed: " in str(error), error
    else:
        raise AssertionError("rank 0 has no network interface, and started")
    print(f"rank {rank} is right", flush=True)


class Written(dist.Store):
    """A store that records the keys that are written."""

    def __init__(self, store):
        super().__init__()
        self.store, self.keys = store, []

    def set(self, key, value):
        self.keys.append(key)
        self.store.set(key, value)

    def get(self, key):
        return self.store.get(key)

    def add(self, key, value):
        self.keys.append(key)
        return self.store.add(key, value)

    def wait(self, keys, *timeout):
        self.store.wait(keys, *timeout)

    def check(self, keys):
        return self.store.check(keys)

    def delete_key(self, key):
        return self.store.delete_key(key)


def case_one_key(path, rank, size):
    """The backend writes one key of the store, on rank 0, and none for other groups. PyTorch writes
    its own."""
    rank, size = int(rank), int(size)
    store = Written(dist.FileStore(path, size))
    dist.init_process_group("tutti", store=store, rank=rank, world_size=size)
    assert [k for k in store.keys if "tutti" in k] == store.keys[:1] * (rank == 0), store.keys
    count = len(store.keys)
    group = dist.new_group(list(range(size)), use_local_synchronization=True)
    dist.barrier(group)
    assert len(store.keys) == count, store.keys
    check_and_end()


def spawned(rank, method, size):
    case_init(method, rank, size)


def case_spawn(method, size):
    mp.spawn(spawned, args=(method, int(size)), nprocs=int(size))


def case_bound(method, rank, size):
    """A device is bound to the group: PyTorch then creates other groups by splitting it."""
    rank, size = int(rank), int(size)
    dist.init_process_group("tutti", init_method=method, rank=rank, world_size=size,
                            device_id=torch.device("cpu:0"))
    pair = dist.new_group([0, size - 1])
    assert (pair is dist.GroupMember.NON_GROUP_MEMBER) == (rank not in (0, size - 1))
    if rank in (0, size - 1):
        dist.barrier(pair)
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "columns"))
    for name, ranks in (("rows", range(rank % (size // 2), size, size // 2)),
                        ("columns", range(rank // 2 * 2, rank // 2 * 2 + size // 2))):
        t = torch.tensor([float(rank)])
        dist.all_reduce(t, group=mesh.get_group(name))
        assert t[0] == sum(ranks), (name, t)
    check_and_end()


def case_restart():
    """Under torchrun: rank 1 fails in the first attempt."""
    dist.init_process_group("tutti")
    dist.barrier()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if dist.get_rank() == 1:
            os._exit(3)
        dist.recv(torch.ones(1), 1)
    check_and_end()


if __name__ == "__main__":
    torch.set_num_threads(1)
    globals()["case_" + sys.argv[1]](*sys.argv[2:])
