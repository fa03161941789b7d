"""One rank of a job in trouble: a rank dies in a step, the store dies, Ctrl-C.

    prog_torch_trouble.py CASE FOLDER RANK SIZE"""

import datetime
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

FOLDER, RANK, SIZE = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
TIMEOUT = datetime.timedelta(seconds=200)


def init(**how):
    how = how or {"init_method": f"file://{FOLDER}/init"}
    dist.init_process_group("tutti", rank=RANK, world_size=SIZE, timeout=TIMEOUT, **how)


def case_dies_in_a_step():
    init()
    model = DDP(nn.Sequential(*(nn.Linear(300, 300) for _ in range(4))), bucket_cap_mb=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        loss = model(torch.ones(2, 300)).sum()
        if step == 1 and RANK == 1:
            # After the first buckets, before the last one.
            model.module[1].weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        loss.backward()
        optimizer.step()
        print("step", step, flush=True)


def store():
    with open(f"{FOLDER}/port") as f:
        return dist.TCPStore("127.0.0.1", int(f.read()), is_master=False, timeout=TIMEOUT)


def case_serves_the_store():
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with open(f"{FOLDER}/port", "w") as f:
        f.write(str(server.port))
    print("serving", flush=True)
    signal.pause()


def case_store_dies_later():
    init(store=store())
    dist.all_reduce(torch.ones(1))
    print("ready", flush=True)
    sys.stdin.readline()
    t = torch.full((4,), float(RANK + 1))
    dist.all_reduce(t)
    group = dist.new_group(use_local_synchronization=True, ranks=list(range(SIZE)))
    dist.all_reduce(t, group=group)
    assert (t == SIZE * SIZE * (SIZE + 1) / 2).all(), t
    dist.barrier()
    dist.destroy_process_group()
    print("done", flush=True)


def case_keeps_a_destroyed_group():
    """Rank 0 keeps its groups, and continues after rank 1 has ended."""
    init()
    groups = [dist.group.WORLD, dist.new_group([0, 1])]
    for group in groups:
        dist.all_reduce(torch.ones(3), group=group)
    dist.destroy_process_group()
    print("destroyed", flush=True)
    if RANK == 0:
        sys.stdin.readline()
        for group in groups:
            try:
                group.allreduce([torch.ones(3)])
            except RuntimeError as error:
                assert "ALLREDUCE: the process group is destroyed" in str(error), error
            else:
                raise AssertionError("a call on a destroyed group")
    print("done", flush=True)


def case_store_dies_early():
    mine = store()
    print("ready", flush=True)
    init(store=mine)


class Interrupt(threading.Thread):
    """Sends SIGINT to this process once the main thread waits in a call of `code`: it could take
    the interpreter many times, and is still at the same instruction."""

    def __init__(self, code):
        super().__init__(daemon=True)
        self.code = code
        self.start()

    def run(self):
        main, at, seen = threading.main_thread().ident, None, 0
        while seen < 50:
            frame = sys._current_frames()[main]
            while frame and frame.f_code is not self.code:
                frame = frame.f_back
            inner = sys._current_frames()[main]
            now = (id(inner.f_code), inner.f_lasti) if frame else None
            seen = seen + 1 if now and now == at else 0
            at = now
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)


def interrupted(call):
    """Whether Ctrl-C ends call(), long before the timeout."""
    Interrupt(call.__code__)
    begin = time.monotonic()
    try:
        call()
    except KeyboardInterrupt:
        took = time.monotonic() - begin
        assert took < TIMEOUT.total_seconds() / 2, took
        return
    raise AssertionError("not interrupted")


def case_interrupted_init():
    print("begins", flush=True)
    init()


def case_interrupted_rank():
    init()
    dist.barrier()
    print("ready", flush=True)
    if RANK == 0:
        Interrupt(wait_forever.__code__)
    wait_forever()


def wait_forever():
    dist.all_reduce(torch.ones(5)) if RANK == 0 else dist.recv(torch.ones(5), 0)


def late(keys, name):
    """Rank 1 comes to `name` once rank 0 was interrupted."""
    if RANK == 1:
        keys.get(name)


def case_interrupted_calls():
    """Rank 0 is interrupted in each call; then rank 1 comes, and both continue."""
    init()
    keys = dist.FileStore(f"{FOLDER}/keys", -1)
    t, got = torch.full((1000,), float(RANK + 1)), torch.empty(70000)
    calls = {
        "all_reduce": lambda: dist.all_reduce(t),
        "barrier": dist.barrier,
        "sparse": lambda: dist.all_reduce(torch.eye(3).to_sparse()),
        "broadcast": lambda: dist.broadcast(got, 1),
        "recv": lambda: dist.recv(got, 1) if RANK == 0 else dist.send(torch.ones(70000), 0),
        "batch": lambda: [w.wait() for w in dist.batch_isend_irecv(
            [dist.P2POp(dist.irecv if RANK == 0 else dist.isend, torch.ones(5), 1 - RANK)])],
        "new_group": lambda: dist.new_group([0, 1]),
    }
    for name, call in calls.items():
        if RANK == 0:
            interrupted(call)
            keys.set(name, "go")
        else:
            late(keys, name)
            if name == "sparse":        # its second half is not begun by rank 0
                dist.all_gather_into_tensor(torch.empty(2, dtype=torch.int64),
                                            torch.tensor([3]))
            elif name != "new_group":
                call()
        print(f"ok: {name}", flush=True)
    if RANK == 0:
        work = dist.all_reduce(t, async_op=True)
        interrupted(lambda: work.wait())
        interrupted(lambda: work.wait(datetime.timedelta(seconds=150)))
        keys.set("async", "go")
        work.wait()
    else:
        late(keys, "async")
        dist.all_reduce(t)
    interrupted_window(keys)
    print("done", flush=True)


def interrupted_window(keys):
    """The call that was interrupted takes no signal; the Work that was interrupted takes the only
    one."""
    window = dist.distributed_c10d._new_window(torch.zeros(3))
    if RANK == 0:
        interrupted(lambda: window.wait_signal(1, False))
        work = window.wait_signal(1, True)
        interrupted(lambda: work.wait())
        keys.set("signal", "go")
        work.wait()
    else:
        late(keys, "signal")
        window.signal(0, False)
    dist.barrier()
    window.tensor_deregister()      # refused while a wait for a signal has not ended
    dist.barrier()


globals()["case_" + sys.argv[1]]()
