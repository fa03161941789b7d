"""One process of tests of reconfigure (PyTorch 2.15). Processes have names and exchange handles
through files in a folder; each has a store of its own, so that none of them must survive.

    prog_torch_reconfigure.py FOLDER NAME CASE      prints "NAME is right" """

import datetime
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

FOLDER, NAME, CASE = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
TIMEOUT = datetime.timedelta(seconds=120)


def put(key, text):
    part = FOLDER / f".{key}"
    part.write_text(text)
    part.rename(FOLDER / key)


def get(key):
    end = time.monotonic() + 200
    while not (FOLDER / key).exists():
        assert time.monotonic() < end, f"{key} did not appear"
        time.sleep(0.01)
    return (FOLDER / key).read_text()


def start():
    dist.init_process_group("tutti", store=dist.HashStore(), rank=0, world_size=1, timeout=TIMEOUT,
                            enable_reconfigure=True)


def reconfigure(uuid, names, as_set=False, **options):
    """Exchanges the handles of these members and calls reconfigure."""
    put(f"{uuid}.{NAME}", dist.distributed_c10d._get_reconfigure_handle())
    handles = [get(f"{uuid}.{n}") for n in names]
    work = dist.distributed_c10d._reconfigure(uuid, set(handles) if as_set else handles, **options)
    assert work.wait() and work.is_completed()
    assert dist.get_world_size() == len(names), dist.get_world_size()
    if not as_set:
        assert dist.get_rank() == names.index(NAME), (dist.get_rank(), names)


def check_sum(names):
    """All members, in their order, take part in what follows."""
    value = torch.tensor([float(ord(NAME[0]))])
    total = value.clone()
    dist.all_reduce(total)
    assert total.item() == sum(ord(n[0]) for n in names), (total, names)
    gathered = torch.empty(len(names))
    dist.all_gather_into_tensor(gathered, value)
    assert sorted(gathered.tolist()) == sorted(float(ord(n[0])) for n in names)
    dist.barrier()


def raises(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), f"{error!r} does not contain {text!r}"
    else:
        raise AssertionError(f"no {kind.__name__}: {text!r}")


def train(model, steps, names):
    """Data-parallel steps whose result is the same for any members, if all of them take part."""
    x = torch.arange(12.0).reshape(6, 2) / 10
    for _ in range(steps):
        part = x.tensor_split(len(names))[names.index(NAME)]
        model.zero_grad()
        (model(part) - part.sum(1, keepdim=True)).square().sum().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.05 * p.grad


def fresh():
    torch.manual_seed(3)
    return torch.nn.Linear(2, 1)


def expected(steps):
    model, x = fresh(), torch.arange(12.0).reshape(6, 2) / 10
    for _ in range(steps):
        model.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().sum().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.05 * p.grad
    return model


def case_churn():
    """Members a, b and c; b dies in a step; a and c repeat the step; d joins and receives the
    state; c leaves."""
    start()
    raises(RuntimeError, "call reconfigure first", dist.all_reduce, torch.ones(1))
    assert dist.distributed_c10d._supports_reconfigure()
    model = fresh()
    if NAME in "abc":
        reconfigure(1, ["a", "b", "c"])
        check_sum("abc")
        train(model, 3, ["a", "b", "c"])
        if NAME == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        before = {k: v.clone() for k, v in model.state_dict().items()}
        raises(dist.DistBackendError, "PEER_LOST", train, model, 1, ["a", "b", "c"])
        model.load_state_dict(before)
        reconfigure(2, ["c", "a"])
        check_sum("ca")
        train(model, 3, ["c", "a"])
    names = ["a", "d", "c"]
    reconfigure(3, names)
    for p in model.parameters():
        dist.broadcast(p.data, 2)
    check_sum(names)
    train(model, 3, names)
    torch.testing.assert_close(model.state_dict(), expected(9).state_dict())
    # c leaves; what it started still completes on the others.
    last = torch.ones(1000)
    dist.all_reduce(last)
    assert (last == 3).all()
    if NAME == "c":
        return
    reconfigure(4, ["d", "a"], as_set=True)
    check_sum("da")
    group = dist.new_group([0, 1])
    t = torch.ones(2)
    dist.all_reduce(t, group=group)
    assert (t == 2).all()


def case_alone_and_together():
    """Two processes that each are a group of one, then one group, then again two."""
    start()
    for uuid, names in ((1, [NAME]), (2, ["a", "b"]), (3, [NAME]), (4, ["b", "a"])):
        reconfigure(uuid if len(names) == 2 else uuid * 100 + ord(NAME), names)
        check_sum(names)
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        assert backend._get_sequence_number_for_group() > 0


def case_pending():
    """A receive that no rank will serve ends when the group is reconfigured, and so does a window
    of the old group."""
    start()
    reconfigure(1, ["a", "b"])
    window = dist.distributed_c10d._new_window(torch.zeros(4))
    if NAME == "a":
        lonely = dist.irecv(torch.zeros(3), src=1)
        assert not lonely.is_completed()
    reconfigure(2, ["b", "a"], timeout=datetime.timedelta(seconds=60))
    if NAME == "a":
        raises(dist.DistBackendError, "ABORTED", lonely.wait)
    del window
    check_sum("ab")
    window = dist.distributed_c10d._new_window(torch.zeros(4))
    window.put(torch.ones(2), 1 - dist.get_rank(), 2, False)
    window.signal(1 - dist.get_rank(), False)
    window.wait_signal(1 - dist.get_rank(), False)
    assert window.map_remote_tensor(dist.get_rank()).tolist() == [0, 0, 1, 1]
    dist.barrier()
    window.tensor_deregister()


def case_bad_input():
    start()
    c10d = dist.distributed_c10d
    mine = c10d._get_reconfigure_handle()
    assert mine == c10d._get_reconfigure_handle() and mine.startswith("tutti:")
    for text, uuid, handles in (("no handles", 1, []), ("occurs twice", 1, [mine, mine]),
                                ("invalid handle \"gloo:0\"", 1, [mine, "gloo:0"]),
                                ("invalid handle", 1, [mine + "0"]),
                                ("invalid handle", 1, [mine[:-1] + "x"]),
                                ("is not among the members", 1, ["tutti:" + "00" * 128])):
        raises(ValueError, text, c10d._reconfigure, uuid, handles)
    other = "b" if NAME == "a" else "a"
    reconfigure(1, ["a", "b"])
    check_sum("ab")
    put(f"again.{NAME}", c10d._get_reconfigure_handle())
    handles = [get(f"again.{n}") for n in "ab"]
    raises(ValueError, "uuid 1 was used before", c10d._reconfigure, 1, handles)
    # Different uuids: all members report it, and the group stays as it was.
    raises(ValueError, f"rank {'ab'.index(other)} passed another uuid", c10d._reconfigure,
           50 + (NAME == "a"), handles)
    check_sum("ab")
    # A member that does not call: the others time out, and the group stays as it was.
    put(f"late.{NAME}", c10d._get_reconfigure_handle())
    handles = [get(f"late.{n}") for n in "ab"]
    if NAME == "a":
        raises(dist.DistBackendError, "TIMEOUT", c10d._reconfigure, 60, handles,
               timeout=datetime.timedelta(seconds=1))
        assert c10d._get_reconfigure_handle() != handles[0], "a used handle is valid again"
    check_sum("ab")
    reconfigure(61, ["b", "a"], hints={"wires": "tcp", "lanes": "2"})
    check_sum("ab")
    raises(ValueError, "is not a number", c10d._reconfigure, 62, [c10d._get_reconfigure_handle()],
           hints={"lanes": "x"})


def main():
    torch.set_num_threads(1)
    globals()[f"case_{CASE}"]()
    dist.destroy_process_group()
    print(f"{NAME} is right", flush=True)


if __name__ == "__main__":
    main()
