"""One rank of tests of windows (new_window of PyTorch 2.15) and of tutti.torch.empty.

    prog_torch_windows.py INIT_FILE RANK SIZE [CASE...]       (torch_cases.py)"""

import datetime
import gc
import os
import signal
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

import torch_cases
import tutti.torch
from torch_cases import RANK, SIZE

SHM = "shm" in os.environ.get("TUTTI_WIRES", "shm")     # ranks can map memory of each other
DTYPES = [torch.float32, torch.int64, torch.uint8, torch.bfloat16, torch.complex64,
          torch.float8_e4m3fn, torch.bool]
NEXT, LAST = (RANK + 1) % SIZE, (RANK - 1) % SIZE


def raises(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), f"{error!r} does not contain {text!r}"
    else:
        raise AssertionError(f"no {kind.__name__}: {text!r}")


def values(rank, n, dtype, seed=0):
    g = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randint(0, 2, (n,), generator=g).to(dtype)


def same(a, b):
    torch.testing.assert_close(a.view(torch.uint8), b.view(torch.uint8), rtol=0, atol=0)


def options(seconds):
    how = dist.distributed_c10d.torch._C._distributed_c10d.WaitSignalOptions()
    how.timeout = datetime.timedelta(seconds=seconds)
    return how


def memories(n, dtype):
    yield torch.zeros(n, dtype=dtype)
    yield tutti.torch.empty(n, dtype=dtype)


def case_put_and_signal():
    assert dist.distributed_c10d._supports_window()
    for i, dtype in enumerate(DTYPES):
        for tensor in memories(1000 * SIZE, dtype):
            window = dist.distributed_c10d._new_window(tensor)
            for asynchronous in (False, True):
                for to in range(SIZE):
                    work = window.put(values(RANK, 1000, dtype, 10 * i + asynchronous), to,
                                      1000 * RANK, asynchronous)
                    signal = window.signal(to, asynchronous)
                    assert work.wait() and signal.wait()
                    assert work.is_completed() and signal.is_completed()
                for source in range(SIZE):
                    work = window.wait_signal(source, asynchronous)
                    assert work.wait() and work.is_completed()
                    same(tensor[1000 * source:1000 * (source + 1)],
                         values(source, 1000, dtype, 10 * i + asynchronous))
                dist.barrier()
            window.tensor_deregister()


def case_large_and_strided():
    n = 3_000_001
    for tensor in memories(n, torch.float32):
        window = dist.distributed_c10d._new_window(tensor)
        wide = torch.arange(2 * n, dtype=torch.float32).add_(RANK).reshape(n, 2)
        works = [window.put(wide[:, 1], NEXT, 0, True)]
        works.append(window.signal(NEXT, True))
        for work in works:
            work.wait()
        window.wait_signal(LAST, False).wait()
        assert torch.equal(tensor, torch.arange(2 * n, dtype=torch.float32).add_(LAST)[1::2])
        dist.barrier()
        window.tensor_deregister()


def case_signals_are_counted():
    """Each wait takes one signal of its rank, whatever comes from others."""
    window = dist.distributed_c10d._new_window(torch.zeros(1))
    waits = [window.wait_signal(LAST, True) for _ in range(3)]
    assert not any(w.is_completed() for w in waits)
    dist.barrier()
    for _ in range(2):
        window.signal(NEXT, False)
    done = waits[0].get_future()
    waits[1].wait()
    done.wait()
    dist.barrier()
    assert not waits[2].is_completed()
    dist.barrier()
    window.signal(NEXT, False)
    waits[2].wait()
    raises(dist.DistBackendError, "TIMEOUT",
           lambda: window.wait_signal(LAST, False, options(0.05)).wait())
    dist.barrier()
    window.signal(NEXT, False)
    window.wait_signal(LAST, False)     # the one that timed out took none
    dist.barrier()
    window.tensor_deregister()


def case_threads():
    window = dist.distributed_c10d._new_window(torch.zeros(64, dtype=torch.int64))
    counted = []

    def waiter():
        for _ in range(50):
            window.wait_signal(LAST, False)
        counted.append(50)

    threads = [threading.Thread(target=waiter) for _ in range(2)]
    for t in threads:
        t.start()
    for i in range(100):
        window.put(torch.tensor([i]), NEXT, i % 64, i % 2 == 0)
        window.signal(NEXT, i % 2 == 1)
    for t in threads:
        t.join()
    assert counted == [50, 50]
    dist.barrier()
    window.tensor_deregister()


def case_deregister_during_a_wait():
    """It is refused while a wait_signal has not ended, in whichever thread; and it waits for
    puts."""
    window = dist.distributed_c10d._new_window(torch.zeros(3))
    works = [window.wait_signal(LAST, True) for _ in range(2)]
    raises(ValueError, "2 calls of wait_signal have not ended", window.tensor_deregister)
    dist.barrier()
    window.signal(NEXT, False)
    window.signal(NEXT, True)
    for work in works:
        work.wait()
    late = window.put(torch.ones(3), NEXT, 0, True)
    window.tensor_deregister()
    assert late.wait() and late.is_completed()

    window.tensor_register(torch.zeros(3))

    def waiter():
        try:
            for _ in range(100):
                window.wait_signal(LAST, False)
        except ValueError as error:
            assert "the window has no tensor" in str(error), error

    thread = threading.Thread(target=waiter)
    thread.start()
    for _ in range(100):
        window.signal(NEXT, False)
    while True:
        try:
            window.tensor_deregister()
            break
        except ValueError as error:
            assert "1 calls of wait_signal have not ended" in str(error), error
    thread.join()


def wait_until_stopped(pid):
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)


def case_put_is_pending_while_deregister_begins():
    """Rank 1 is stopped during two puts to it. A call that waits for the first one keeps
    tensor_deregister between its beginning and its end, and the second one stays pending."""
    if SHM:
        return      # puts do not need the other rank
    tensor = torch.zeros(1 << 24)       # exceeds the buffers of sockets
    pids = torch.zeros(SIZE, dtype=torch.int64)
    window = dist.distributed_c10d._new_window(tensor)
    dist.all_gather_into_tensor(pids, torch.tensor([os.getpid()]))
    window.put(torch.ones(1), NEXT, 0, False)       # connects
    window.signal(NEXT, False)
    window.wait_signal(LAST, False)
    dist.barrier()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    if RANK == 0:
        wait_until_stopped(pids[1])
        second = deregister_during_puts(window, torch.full((1 << 24,), 2.0), int(pids[1]))
        assert second.wait() and second.is_completed()
    else:
        window.tensor_deregister()
    if RANK == 1:
        assert (tensor == 2).all()


def deregister_during_puts(window, source, stopped):
    """Returns the second put. Continues the stopped process."""
    failures, begun = [], threading.Event()

    def put():
        begun.set()
        try:
            window.put(source, NEXT, 0, False)
        except ValueError as error:     # tensor_deregister was faster
            assert "the window has no tensor" in str(error), error

    def run(call):
        try:
            call()
        except Exception as error:      # pylint: disable=broad-exception-caught
            failures.append(error)

    second = window.put(source, NEXT, 0, True)
    threads = [threading.Thread(target=run, args=(call,))
               for call in (put, window.tensor_deregister)]
    try:
        threads[0].start()
        begun.wait()
        threads[1].start()
        while True:
            try:
                window.get_attr(RANK)
                time.sleep(0.001)
            except ValueError as error:     # tensor_deregister has begun
                assert "the window has no tensor" in str(error), error
                break
        raises(dist.DistBackendError, "has not completed within the 200 ms of wait()",
               second.wait, datetime.timedelta(milliseconds=200))
    finally:
        os.kill(stopped, signal.SIGCONT)
    for thread in threads:
        thread.join()
    assert not failures, failures
    return second


def case_map():
    shapes = {0: (3, 4), 1: (7,), 2: (), 3: (2, 3, 5)}
    tensor = tutti.torch.empty(shapes[RANK % 4], dtype=torch.float64).fill_(RANK)
    window = dist.distributed_c10d._new_window(tensor)
    kinds = torch._C._distributed_c10d.WindowAccessType
    assert window.map_remote_tensor(RANK).data_ptr() == tensor.data_ptr()
    assert window.get_attr(RANK).access_type == kinds.UNIFIED
    for other in set(range(SIZE)) - {RANK}:
        assert window.get_attr(other).access_type == (kinds.UNIFIED if SHM else kinds.SEPARATE)
        if not SHM:
            raises(RuntimeError, f"the tensor of rank {other} is not mapped",
                   window.map_remote_tensor, other)
    if SHM:
        there = window.map_remote_tensor(NEXT)
        assert there.shape == shapes[NEXT
                                     % 4] and there.dtype == torch.float64 and (there == NEXT).all()
        dist.barrier()
        there.add_(100)
        window.signal(NEXT, False)
        window.wait_signal(LAST, False)
        assert (tensor == RANK + 100).all()
        raises(ValueError, "1 tensors of map_remote_tensor are in use", window.tensor_deregister)
        row = there.reshape(-1)[:1]
        del there
        raises(ValueError, "1 tensors of map_remote_tensor are in use", window.tensor_deregister)
        del row
    window.tensor_deregister()
    plain = dist.distributed_c10d._new_window(torch.zeros(3))
    raises(RuntimeError, f"the tensor of rank {NEXT} is not mapped", plain.map_remote_tensor, NEXT)
    assert plain.get_attr(NEXT).access_type == kinds.SEPARATE
    plain.tensor_deregister()


def case_register_again():
    window = dist.distributed_c10d._new_window()
    raises(ValueError, "the window has no tensor", window.put, torch.zeros(1), NEXT, 0, False)
    for n in (5, 0, 9):
        tensor = tutti.torch.empty(n)
        window.tensor_register(tensor, owning=n != 5)
        raises(ValueError, "the window has a tensor", window.tensor_register, tensor)
        assert window.map_remote_tensor(RANK).numel() == n
        window.put(torch.full((n,), 2.0), NEXT, 0, False)
        window.signal(NEXT, False)
        window.wait_signal(LAST, False)
        assert (tensor == 2).all()
        dist.barrier()
        window.tensor_deregister()
        raises(ValueError, "the window has no tensor", window.tensor_deregister)


def case_bad_input():
    sizes = [4 + r for r in range(SIZE)]
    window = dist.distributed_c10d._new_window(torch.zeros(sizes[RANK]))
    last = sizes[NEXT] - 1
    window.put(torch.ones(1), NEXT, last, False)
    for text, tensor, rank, offset in (
            (f"1 elements at offset {last + 1} exceed the tensor of rank {NEXT}, which has "
             f"{sizes[NEXT]}", torch.ones(1), NEXT, last + 1),
            ("exceed", torch.ones(2), NEXT, last), ("offset -1", torch.ones(1), NEXT, -1),
        ("exceed", torch.ones(1), NEXT, 2**62),
            ("is of Double, that of rank", torch.ones(1, dtype=torch.float64), NEXT, 0),
        ("rank -1 is out of range", torch.ones(1), -1, 0),
            (f"rank {SIZE} is out of range", torch.ones(1), SIZE, 0),
        ("layout Sparse", torch.ones(2).to_sparse(), NEXT, 0),
            ("is on meta", torch.ones(2, device="meta"), NEXT, 0)):
        raises(ValueError, text, window.put, tensor, rank, offset, False)
    for call in (window.signal, window.wait_signal):
        raises(ValueError, f"rank {SIZE} is out of range", call, SIZE, False)
    for call in (window.map_remote_tensor, window.get_attr):
        raises(ValueError, "rank -1 is out of range", call, -1)
    window.tensor_deregister()
    # One rank's mistake is an error of all, and the window is usable afterwards.
    wrong = torch.zeros(4, 4).t() if RANK == 1 else torch.zeros(4)
    raises(ValueError, "is not contiguous" if RANK == 1 else "rank 1 passed an unusable tensor",
           window.tensor_register, wrong)
    window.tensor_register(torch.zeros(4))
    window.tensor_deregister()


def case_dropped():
    """A window that is dropped with its tensor ends for the others, and the group goes on."""
    tensor = torch.zeros(1 << 16)
    window = dist.distributed_c10d._new_window(tensor)
    for _ in range(20):
        window.put(torch.ones(1 << 16), NEXT, 0, True)
    dist.barrier()
    if RANK == 0:
        del window
        gc.collect()
    else:
        raises(dist.DistBackendError, "PEER_LOST", lambda: window.wait_signal(0, False).wait())
        del window
    t = torch.ones(3)
    dist.all_reduce(t)
    assert (t == SIZE).all()
    other = dist.distributed_c10d._new_window(tensor)
    dist.barrier()
    other.tensor_deregister()


def case_memory():
    for dtype in DTYPES:
        for shape in ((), (3,), (0,), (2, 5)):
            t = tutti.torch.empty(*shape, dtype=dtype)
            assert t.shape == shape and t.dtype == dtype and t.is_contiguous()
            assert not t.reshape(-1).view(torch.uint8).any()
    assert tutti.torch.empty([2, 3]).shape == (2, 3)
    assert tutti.torch.empty(torch.Size((4,))).dtype == torch.float32
    raises(ValueError, "negative size", tutti.torch.empty, -1)
    for _ in range(600):                # freed with the tensor: at most 256 at a time
        t = tutti.torch.empty(10).fill_(RANK + 1)
        part = t[3:]
        del t
        dist.all_reduce(part)
        assert (part == SIZE * (SIZE + 1) / 2).all()
    kept = [tutti.torch.empty(1) for _ in range(255)]
    del part
    kept.append(tutti.torch.empty(1))
    raises(dist.DistBackendError,
           "NOMEM: tutti_mem_alloc: too many allocations: the maximum is 256", tutti.torch.empty, 1)
    del kept
    t = tutti.torch.empty(100, 10).requires_grad_()
    (t * 2).sum().backward()
    assert (t.grad == 2).all()
    group = dist.new_group([RANK]) if SIZE == 1 else dist.new_group(list(range(SIZE)))
    t = tutti.torch.empty(5, group=group).fill_(1)
    dist.all_reduce(t, group=group)
    assert (t == SIZE).all()
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    raises(ValueError, "must be at least 0", backend.allocate_tensor, -1, dtype=torch.float32,
           device=torch.device("cpu"))


def case_groups():
    """Windows of a group have its ranks."""
    group = dist.new_group([0, SIZE - 1])
    if RANK in (0, SIZE - 1):
        window = dist.distributed_c10d._new_window(torch.zeros(2, dtype=torch.int32), group)
        me = dist.get_rank(group)
        window.put(torch.tensor([me + 5], dtype=torch.int32), 1 - me, 1, False)
        window.signal(1 - me, False)
        window.wait_signal(1 - me, False)
        assert window.map_remote_tensor(me).tolist() == [0, 6 - me]
        dist.barrier(group)
        window.tensor_deregister()
    dist.barrier()


def main():
    torch.set_num_threads(1)
    torch_cases.init()
    torch_cases.run(globals())


if __name__ == "__main__":
    main()
