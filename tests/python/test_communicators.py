#!/usr/bin/env python3
"""Communicators and requests of the Python package: lifetimes, errors, threads."""

import package

import builtins
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

import tutti


@package.ranks(3)
def communicators_derive_from_others(comm):
    n, r = comm.size, comm.rank
    assert repr(comm) == f"<tutti.Communicator, rank {r} of {n}>"
    with comm.dup() as other:
        assert (other.rank, other.size) == (r, n)
    part = comm.split(0 if r < 2 else None, key=-r)
    assert (part is None) == (r == 2)
    if part:
        assert (part.rank, part.size) == (1 - r, 2)
    if r != 1:
        group = comm.create_group([2, 0], tag=5)
        assert (group.rank, group.size) == (0 if r == 2 else 1, 2)
        x = np.array([r])
        group.allreduce(x)
        assert x[0] == 2
        group.destroy()
    package.raises(tutti.InvalidError, comm.create_group, [])
    package.raises(tutti.InvalidError, comm.split, -1)


@package.ranks(2)
def a_destroyed_communicator_is_refused(comm):
    part = comm.dup()
    pending = part.irecv(np.zeros(3), 1 - comm.rank)
    assert not pending.done and not pending.test() and "pending" in repr(pending)
    comm.barrier()
    part.destroy()
    part.destroy()
    assert part.destroyed and "destroyed" in repr(part)
    for call in (part.barrier, part.dup, part.check, part.abort, lambda: part.rank,
                 lambda: part.alloc(1), lambda: part.window(1)):
        package.raises(tutti.InvalidError, call)
    e = package.raises(tutti.Error, pending.wait)
    assert isinstance(e, (tutti.AbortedError, tutti.PeerLostError)), e
    package.raises(type(e), pending.wait)       # the same again
    assert pending.done


@package.ranks(2)
def requests_may_be_dropped(comm):
    other = 1 - comm.rank
    x = np.full(100000, comm.rank, np.int64)
    y = np.zeros(100000, np.int64)
    comm.irecv(y, other)
    comm.isend(x, other)
    gc.collect()
    comm.barrier()
    comm.ibarrier()
    comm.ibarrier().wait()
    part = comm.dup()
    part.irecv(np.zeros(3), other)      # never matched
    comm.barrier()
    del part
    gc.collect()
    comm.barrier()


@package.ranks(2)
def requests_complete_in_any_order(comm):
    other = 1 - comm.rank
    package.raises(tutti.InvalidError, tutti.wait_any, [])
    got = [np.zeros(1) for _ in range(3)]
    requests = [comm.irecv(got[i], other, tag=i) for i in range(3)]
    package.raises(tutti.InvalidError, tutti.wait_any, [requests[0], requests[0]])
    comm.send(np.ones(1), other, tag=1)
    assert tutti.wait_any(requests) == 1
    assert requests[1].done and tutti.wait_any(requests[1:]) == 0
    comm.barrier()                      # the other rank has checked, too
    for tag in (0, 2):
        comm.send(np.ones(1), other, tag=tag)
    tutti.wait_all(requests)
    tutti.wait_all(requests)
    tutti.wait_all([])
    assert all(x[0] == 1 for x in got)


@package.ranks(2)
def errors_carry_status_ranks_and_message(comm):
    x = np.zeros(4)
    comm1 = comm.dup()
    if comm.rank == 0:
        e = package.raises(tutti.TimeoutError, comm1.recv, x, 1, timeout=0.05, tag=9)
        assert e.status == tutti.Status.TIMEOUT and 1 in e.ranks and isinstance(e, builtins.TimeoutError), (e, e.ranks)
    comm2 = comm.dup()
    e = package.raises(tutti.MismatchError, comm2.allreduce, x[:comm.rank + 1])
    assert e.status is tutti.Status.MISMATCH and set(e.ranks) == {0, 1}, (e, e.ranks)
    package.raises(tutti.Error, comm2.check)
    comm3 = comm.dup()
    if comm.rank == 0:
        comm3.abort()
    package.raises(tutti.AbortedError, comm3.recv, x, 1 - comm.rank)
    comm.barrier()
    if comm.rank == 1:      # with all derived objects, as at the end of a process
        for one in (comm1, comm2, comm3, comm):
            one.destroy()
    else:
        e = package.raises(tutti.PeerLostError, comm.recv, x, 1)
        assert 1 in e.ranks and isinstance(e, ConnectionError), e


@package.ranks(2)
def other_threads_run_while_a_call_blocks(comm):
    """The receiver sends, in another thread, the message for which its blocked call waits."""
    mine = comm.dup()
    x = np.zeros(1)
    if comm.rank == 0:
        thread = threading.Thread(target=lambda: comm.send(np.ones(1), 1))
        entered = threading.Event()

        def second():
            entered.wait()
            # refused while the first thread is in its call; no other result is possible before
            while True:
                try:
                    mine.destroy()
                except tutti.InvalidError as e:
                    assert "another thread" in str(e)
                    break
            thread.start()

        helper = threading.Thread(target=second)
        helper.start()
        entered.set()
        mine.recv(x, 1)
        helper.join()
        thread.join()
        assert x[0] == 1
    else:
        comm.recv(x, 0)
        mine.send(x, 0)
    comm.barrier()


class Interrupt(threading.Thread):
    """Sends SIGINT to this process once the main thread is in a call that has released the
    interpreter: another thread could take it many times, and found the main thread where it was."""

    def __init__(self):
        super().__init__(daemon=True)
        self.start()

    def run(self):
        main, at, seen = threading.main_thread().ident, None, 0
        while seen < 50:
            frame = sys._current_frames()[main]
            now = (id(frame.f_code), frame.f_lasti)
            seen = seen + 1 if now == at and frame.f_code.co_name == "<lambda>" else 0
            at = now
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)


def interrupted(call):
    """Ctrl-C ends call(), a lambda, long before the deadline."""
    Interrupt()
    begin = time.monotonic()
    package.raises(KeyboardInterrupt, call)
    assert time.monotonic() - begin < 100


@package.ranks(2)
def ctrl_c_ends_a_call_and_the_operation_continues(comm):
    """Rank 0 is interrupted in each call; then rank 1 calls, and both continue."""
    keys = comm.dup()
    # The operations overlap: each has its own arrays.
    x, y, z, got = (np.full(70000, comm.rank + 1.0) for _ in range(4))
    all_y = np.zeros(140000)
    others = [lambda: comm.allreduce(x), lambda: comm.allgather(y, all_y), comm.barrier,
              lambda: comm.broadcast(z, root=1), lambda: comm.group([tutti.Recv(got, 1)])]
    calls = [(lambda call=call: call()) for call in others]
    if comm.rank == 0:
        for call in calls:
            interrupted(call)
            keys.barrier()              # rank 1 calls now
        last = np.zeros(70000)
        request = comm.irecv(last, 1)
        interrupted(lambda: request.wait())
        interrupted(lambda: tutti.wait_all([request]))
        interrupted(lambda: tutti.wait_any([comm.irecv(np.zeros(1), 1, tag=9), request]))
        keys.barrier()
        request.wait()
        comm.barrier()
        assert (x == 3).all() and (all_y[:70000] == 1).all() and (all_y[70000:] == 2).all()
        assert (z == 2).all() and (got == 5).all() and (last == 7).all()
        return
    for call in others[:4]:
        keys.barrier()
        call()
    keys.barrier()
    comm.send(np.full(70000, 5.0), 0)
    keys.barrier()
    comm.send(np.full(70000, 7.0), 0)
    comm.barrier()


@package.ranks(1)
def an_interrupted_call_keeps_its_arrays(comm):
    """Also those that no other object keeps."""
    interrupted(lambda: comm.recv(np.zeros(100000), 0, tag=3))
    gc.collect()
    comm.isend(np.ones(100000), 0, tag=3)
    comm.barrier()
    comm.barrier()


@package.ranks(2)
def ctrl_c_ends_the_creation_of_a_communicator(comm):
    """The communicator can be destroyed at once. Rank 1 does not create its part."""
    keys = comm.dup()
    if comm.rank == 0:
        interrupted(lambda: comm.split(0))
        comm.destroy()
    keys.barrier()


@package.ranks(1)
def ctrl_c_ends_the_start_up(comm):
    job = tutti.create_id()
    interrupted(lambda: tutti.Communicator(0, 2, id=job))


@package.ranks(2)
def an_id_starts_a_job(comm):
    id_bytes = bytearray(tutti.create_id() if comm.rank == 1 else 128)
    comm.broadcast(id_bytes, root=1)
    with tutti.Communicator(1 - comm.rank, 2, id=bytes(id_bytes), timeout=60) as other:
        assert (other.rank, other.size) == (1 - comm.rank, 2)
        other.barrier()
    for arguments in ({"rank": 1}, {"size": 2}, {"rank": 0, "size": 0}, {"id": bytes(128)},
                      {"rank": 0, "size": 1, "id": b"short"},
                      {"timeout": 0}, {"timeout": float("nan")}, {"timeout": -1}):
        package.raises(tutti.InvalidError, tutti.Communicator, **arguments)


class Alone(unittest.TestCase):
    def test_ranks_of_a_message(self):
        for text, want in (("rank 3 died", (3,)), ("ranks 1, 2 and 5 are missing, see rank 2",
                                                   (1, 2, 5)), ("no rank", ()),
                           ("ranks 4 to 6 and 9", (4, 5, 6, 9)), ("4 ranks", ()),
                           ("ranks 0 and 1: rank 1 of 4", (0, 1))):
            self.assertEqual(tutti.Error(text).ranks, want, text)

    def test_each_status_has_its_class(self):
        classes = tutti.Error.__subclasses__()
        self.assertEqual(sorted(c.status for c in classes), sorted(tutti.Status))
        for c in classes:
            self.assertTrue(issubclass(c, tutti.Error))
            self.assertIs(getattr(tutti, c.__name__), c)
            self.assertTrue(c.__doc__)

    def test_process_may_exit_with_open_objects(self):
        """No call, crash or message at exit, with any live objects; in cycles and in globals."""
        code = ("import tutti, numpy as np; c = tutti.Communicator(); m = c.alloc(100); a = "
                "np.frombuffer(m, np.uint8)\n"
                "r = c.irecv(np.zeros(3), 0); x = [c.dup()]; x.append(x); k = "
                "c.register(np.zeros(5))\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              check=False, timeout=60,
                              env={k: v for k, v in os.environ.items()
                                   if k not in ("TUTTI_RANK", "TUTTI_SIZE")})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


package.main()
