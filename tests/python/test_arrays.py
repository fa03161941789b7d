#!/usr/bin/env python3
"""Arrays that the Python package accepts or refuses, without copies, and their lifetimes."""

import package

import array
import ctypes
import gc
import sys
import weakref

import ml_dtypes
import numpy as np

import tutti


class OnlyDLPack:
    """An array without the buffer protocol."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class OldDLPack(OnlyDLPack):
    """As before DLPack 1.0, without options."""

    def __dlpack__(self):
        return self.values.__dlpack__()


class NoDLPack(OnlyDLPack):
    """An array that cannot be exported."""

    def __dlpack__(self, **options):
        raise BufferError("lives on the moon\nand more")


@package.ranks(2)
def exporters_of_all_kinds_are_written_in_place(comm):
    other = comm.size - 1
    for made in (lambda: array.array("d", [1, 2]), lambda: bytearray(b"ab"),
                 lambda: memoryview(bytearray(b"ab")),
                 lambda: (ctypes.c_int * 2)(1, 2), lambda: np.array([1.0, 2]),
                 lambda: OnlyDLPack(np.array([1.0, 2])),
                 lambda: OldDLPack(np.array([1.0, 2])),
                 lambda: np.array([1, 2], ml_dtypes.bfloat16),
                 lambda: np.array([[1], [2]])[:, 0:1], lambda: np.array(3.0),
                 lambda: np.zeros((0, 4)), lambda: comm.alloc(4096)):
        x = made()
        comm.allreduce(x)
        values = getattr(x, "values", x)
        values = (np.frombuffer(values, np.uint8) if isinstance(x, tutti.Memory)
                  else np.asarray(values))
        first = getattr(made(), "values", made())
        first = np.zeros(4096, np.uint8) if isinstance(x, tutti.Memory) else np.asarray(first)
        np.testing.assert_array_equal(values, first + first, str(type(x)))
        comm.broadcast(x, root=other)
        comm.iallreduce(x).wait()
        comm.ibroadcast(x).wait()


@package.ranks(1)
def arrays_that_cannot_be_used_are_refused_with_the_cause(comm):
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    for x, kind, words in (
            (3, TypeError, "not int"), ([1.0], TypeError, "not list"),
        ("text", TypeError, "not str"),
            (np.array([object()]), TypeError, "has pointers"),
        (NoDLPack(np.zeros(1)), TypeError, "lives on the moon"),
            (np.zeros((3, 4))[:, 1], tutti.InvalidError, "shape (3,), strides (32,)"),
            (np.zeros((3, 4)).T, tutti.InvalidError, "not C-contiguous"),
        (np.zeros(4)[::-1], tutti.InvalidError, "not C-contiguous"),
            (OnlyDLPack(np.zeros((3, 4)).T), tutti.InvalidError, "strides (1, 4)"),
            (np.zeros((2, 2), ml_dtypes.bfloat16).T, TypeError, "not C-contiguous"),
            (read_only, ValueError, "read-only"), (b"abc", ValueError, "read-only"),
        (OnlyDLPack(read_only), ValueError, "read-only")):
        e = package.raises(kind, comm.allreduce, x)
        assert words in str(e) and "allreduce: src" in str(e) and "\n" not in str(e), e
        package.raises(kind, comm.iallreduce, x)
    out = np.zeros(3)
    comm.allreduce(read_only, out)      # it is valid as a source
    assert "dst is read-only" in str(package.raises(tutti.InvalidError, comm.allreduce, out,
                                                    read_only))


@package.ranks(2)
def pending_requests_keep_their_arrays(comm):
    class Tracked(np.ndarray):
        pass

    x = np.zeros(1000).view(Tracked)
    gone = weakref.ref(x)
    growing = bytearray(8)
    if comm.rank == 0:
        requests = [comm.irecv(x, 1, tag=1), comm.irecv(growing, 1, tag=2)]
        package.raises(BufferError, growing.extend, b"more")
        before = sys.getrefcount(x)
        del x
        gc.collect()
        assert gone() is not None
        comm.send(np.zeros(1), 1)
        tutti.wait_all(requests)
        gc.collect()
        assert gone() is None, before
        growing.extend(b"more")
    else:
        comm.recv(np.zeros(1), 0)
        comm.send(x, 0, tag=1)
        comm.send(growing, 0, tag=2)


@package.ranks(2)
def references_and_exports_balance(comm):
    x, y, view = np.ones(4), OnlyDLPack(np.ones(4)), bytearray(8)
    before = [sys.getrefcount(o) for o in (x, y, y.values, view)]
    for _ in range(50):
        for a in (x, y, view):
            comm.allreduce(a, op="max")
            comm.iallreduce(a, op="max").wait()
        del a
        package.raises(tutti.InvalidError, comm.allreduce, x, np.ones(3))
        package.raises(TypeError, comm.allreduce, y, view)
    gc.collect()
    assert before == [sys.getrefcount(o) for o in (x, y, y.values, view)]
    view.extend(b"free")


@package.ranks(2)
def memory_is_shared_without_a_copy_and_outlives_its_communicator(comm):
    part = comm.dup()
    memory = part.alloc(8000)
    assert len(memory) == memory.nbytes == 8000 and memory.address % 4096 == 0
    x = np.frombuffer(memory, np.float64)
    assert x.ctypes.data == memory.address and not x.any()
    x[:] = comm.rank + 1
    part.allreduce(x)
    assert (x == 3).all()
    package.raises(BufferError, memory.free)
    part.destroy()
    assert (x == 3).all()
    x[0] = 5
    del x
    memory.free()
    memory.free()
    package.raises(BufferError, memoryview, memory)
    with comm.register(np.zeros(100000)) as registration:
        pass
    registration.deregister()


package.main()
