"""One rank of tests of bad input on the c10d backend "tutti". Each case checks the exception, and
that the job continues.

    prog_torch_bad.py INIT_FILE RANK SIZE [CASE...]       (torch_cases.py)"""

import datetime
import gc
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import torch_cases
from torch_cases import RANK, SIZE

TIMEOUT = datetime.timedelta(seconds=120)


def raises(what, *words, kind=(ValueError, RuntimeError, TypeError)):
    """Checks that what() raises an exception whose message has all the words."""
    try:
        what()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return
    raise AssertionError(f"no exception: {words}")


def check_group(group=None):
    t = torch.full((3,), float(RANK + 1))
    dist.all_reduce(t, group=group)
    assert (t == SIZE * (SIZE + 1) / 2).all(), t


def case_wrong_device():
    """Device "meta" is the only other one without a GPU. PyTorch itself runs calls whose tensors
    are all there, so the backend is called directly as well."""
    cpu, meta = torch.ones(3), torch.ones(3, device="meta")
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend = getattr(backend, "wrapped_pg", backend)
    lists = [torch.ones(3) for _ in range(SIZE - 1)] + [meta]
    for call in (lambda: dist.all_gather(lists, cpu),
                 lambda: dist.reduce_scatter(cpu, lists),
                 lambda: dist.scatter(cpu, lists if RANK == 0 else [], 0),
                 lambda: backend.allreduce([meta], dist.AllreduceOptions()),
                 lambda: backend.broadcast([meta], dist.BroadcastOptions()),
                 lambda: backend.send([meta], 1 - RANK, 0)):
        if RANK == 0:
            raises(call, "is on meta", "CPU tensors", "cpu:tutti,cuda:nccl", kind=ValueError)
    check_group()


def mismatched(call, *words):
    """Each mismatch is in a group of its own: it ends the group, and nothing else. A rank that only
    sends may have completed the call: then its next one raises."""
    group = dist.new_group()
    raises(lambda: (call(group), dist.barrier(group)), "tutti: ", *words,
           kind=dist.DistBackendError)
    check_group()


def case_mismatched_shapes():
    odd = torch.ones(40 + (RANK == SIZE - 1))
    mismatched(lambda g: dist.all_reduce(odd, group=g), "count 40", "count 41")
    mismatched(lambda g: dist.broadcast(odd, 0, group=g), "40", "41")
    parts = [torch.empty_like(odd) for _ in range(SIZE)]
    mismatched(lambda g: dist.all_gather(parts, odd, group=g),
               "count 40", "count 41")
    mismatched(lambda g: dist.reduce_scatter_tensor(odd, torch.ones(SIZE * odd.numel()), group=g),
               "40", "41")
    big = torch.ones(300000 + (RANK == 0))
    mismatched(lambda g: dist.all_reduce(big, group=g), "count 300000", "count 300001")


def case_mismatched_types():
    odd = torch.ones(40, dtype=torch.int32 if RANK == SIZE - 1 else torch.float32)
    for call in (lambda g: dist.all_reduce(odd, group=g),
                 lambda g: dist.broadcast(odd, 0, group=g),
                 lambda g: dist.all_gather_into_tensor(torch.empty(40 * SIZE, dtype=odd.dtype), odd,
                                                       group=g),
                 lambda g: dist.gather(odd, [torch.empty_like(odd) for _ in range(SIZE)]
                                       if RANK == 0 else None, 0, group=g)):
        mismatched(call, "type f32", "type i32")
    mismatched(lambda g: dist.all_reduce(torch.ones(4), dist.ReduceOp.MAX if RANK else
                                         dist.ReduceOp.SUM, group=g), "op sum", "op max")
    mismatched(lambda g: dist.all_reduce(torch.ones(4), group=g) if RANK else
               dist.barrier(group=g), "allreduce", "barrier")


def case_async_error_in_future():
    """Rank 0 has started the call before the others, so its error is in the future. When another
    rank starts it, the group may have failed already: then the call raises."""
    group = dist.new_group()
    odd = torch.ones(4 + (RANK == SIZE - 1))
    if RANK == 0:
        work = dist.all_reduce(odd, group=group, async_op=True)
        dist.barrier()
        raises(work.get_future().wait, "count 4", "count 5")
        raises(work.wait, "count 4", "count 5", kind=dist.DistBackendError)
        raises(work.wait, "count 4", "count 5", kind=dist.DistBackendError)
    else:
        dist.barrier()
        raises(lambda: dist.all_reduce(odd, group=group, async_op=True).wait(),
               "count 4", "count 5", kind=dist.DistBackendError)
    check_group()


def case_exception_in_a_batch():
    peer = (RANK + 1) % SIZE
    with_device = {"device": torch.device("cpu")}
    for how in ({}, with_device):
        try:
            with dist._coalescing_manager(**how):
                raise KeyError("a mistake of the program")
        except KeyError:
            pass
        check_group()
    good = [dist.P2POp(call, torch.ones(2), peer) for call in (dist.isend, dist.irecv)]
    bad = dist.P2POp(dist.isend, torch.ones(2), peer)
    bad.tensor = [torch.ones(2)]        # PyTorch itself refuses it, after the others
    raises(lambda: dist.batch_isend_irecv(good + [bad]))
    check_group()
    if RANK < 2:        # nothing of the batch was sent: this is the first message
        got = torch.empty(2)
        work = dist.isend(torch.full((2,), 7.0 + RANK), 1 - RANK)
        dist.recv(got, 1 - RANK)
        work.wait()
        assert (got == 7 + 1 - RANK).all(), got


class Numbers(Dataset):
    """In a worker, which is a forked child of the rank, collectives raise. Each worker tries it for
    its first item: gc.collect() in a child copies most of the memory of the rank."""

    def __init__(self, work):
        self.work = work

    def __len__(self):
        return 24

    def __getitem__(self, i):
        if self.work:
            self.check_worker()
        return torch.full((2,), float(i))

    def check_worker(self):
        try:
            dist.all_reduce(torch.ones(1))
        except dist.DistBackendError as error:
            assert "fork" in str(error), error
        else:
            raise AssertionError("a forked child took part in a collective")
        self.work = None        # drops the child's copy of an operation under way
        gc.collect()


def case_dataloader_workers():
    work = dist.irecv(torch.empty(1), (RANK + 1) % SIZE, tag=9)
    for _ in range(2):
        loader = DataLoader(Numbers(work), batch_size=4, num_workers=2, shuffle=False,
                            multiprocessing_context="fork")
        for batch in loader:
            dist.all_reduce(batch)
            assert batch[0, 0] % SIZE == 0
    done = dist.isend(torch.ones(1), (RANK - 1) % SIZE, tag=9)
    work.wait()
    done.wait()


def case_wait_with_a_timeout():
    if RANK == 0:
        got = torch.empty(3)
        work = dist.irecv(got, 1, tag=5)
        raises(lambda: work.wait(datetime.timedelta(milliseconds=50)), "50 ms")
        dist.send(torch.ones(1), 1, tag=6)
        work.wait()
        assert (got == 5).all()
    elif RANK == 1:
        dist.recv(torch.empty(1), 0, tag=6)
        dist.send(torch.full((3,), 5.0), 0, tag=5)


def case_init_again():
    """Destroys all groups and starts again: with the same file, and over TCP."""
    box = [dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
           if RANK == 0 else None]
    port = [box[0].port if RANK == 0 else None]
    dist.broadcast_object_list(port, 0)
    left = dist.all_reduce(torch.ones(3), async_op=True)
    for method in (f"file://{sys.argv[1]}", f"file://{sys.argv[1]}.2", "store"):
        dist.barrier()
        dist.destroy_process_group()
        raises(lambda: dist.all_reduce(torch.ones(1)), "process group", kind=ValueError)
        how = {"init_method": method}
        if method == "store":
            how = {"store": box[0] or dist.TCPStore("127.0.0.1", port[0])}
        dist.init_process_group("tutti", rank=RANK, world_size=SIZE, timeout=TIMEOUT, **how)
        check_group()
        check_group(dist.new_group())
    left.wait()


def main():
    torch.set_num_threads(1)
    torch_cases.init()
    torch_cases.run(globals())


if __name__ == "__main__":
    main()
