#!/usr/bin/env python3
"""Every collective and message of the Python package, blocking and not, compared with its
definition in NumPy."""

import package

import ml_dtypes
import numpy as np

import tutti

TYPES = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64,
         np.float16, np.float32, np.float64,
         ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


def both(comm, name, *arguments, **options):
    """The call, blocking and non-blocking; yields after each."""
    assert getattr(comm, name)(*arguments, **options) is None
    yield
    request = getattr(comm, "i" + name)(*arguments, **options)
    request.wait()
    assert request.done
    yield


def of_rank(rank, shape, dtype=np.float64):
    return (np.arange(np.prod(shape)).reshape(shape) % 5 + rank + 1).astype(dtype)


@package.ranks(1, 3)
def reductions_match_their_definition(comm):
    for dtype in TYPES:       # the sums of these values are exact in all of them
        src = (of_rank(comm.rank, (4,)) % 2 + 1).astype(dtype)
        all_src = np.stack([of_rank(r, (4,)) % 2 + 1 for r in range(comm.size)])
        for op, want in (("sum", all_src.sum(0)), ("max", all_src.max(0)), ("min", all_src.min(0))):
            dst = np.zeros(4, dtype)
            for _ in both(comm, "allreduce", src, dst, op):
                np.testing.assert_array_equal(dst.astype(np.float64),
                                              want.astype(dtype).astype(np.float64),
                                              f"{op} of {dtype}")
                dst[:] = 0
    x = of_rank(comm.rank, (2, 3))
    comm.allreduce(x)
    np.testing.assert_array_equal(x, sum(of_rank(r, (2, 3)) for r in range(comm.size)))
    bits = np.array([1 << comm.rank], np.int32)
    comm.allreduce(bits, op="bor")
    assert bits[0] == (1 << comm.size) - 1


@package.ranks(2)
def options_of_reductions_reach_the_library(comm):
    x = np.full(3, 4.0)
    comm.allreduce(x, op="premul_sum", scale=0.5 if comm.rank else 0.25)
    np.testing.assert_array_equal(x, 3.0)
    x = np.full(3, 4.0)
    comm.allreduce(x, op="avg", divisor=4, algo="ring")
    np.testing.assert_array_equal(x, 2.0)
    x, feedback = np.linspace(0, 1, 1000, dtype=np.float32), np.zeros(1000, np.float32)
    total = np.zeros(1000)
    for _ in range(20):
        out = np.empty_like(x)
        comm.allreduce(x, out, quant="minmax4", error_feedback=feedback)
        total += out
    assert 0 < abs(feedback).max() < 0.1
    assert abs(total / 20 - 2 * x).max() < 0.01
    assert "minmax8" in str(package.raises(tutti.InvalidError, comm.allreduce, x, quant="u3"))
    package.raises(tutti.InvalidError, comm.allreduce, x, quant="minmax8",
                   error_feedback=np.zeros(1000))


@package.ranks(3)
def types_that_are_not_numbers_move_and_some_reduce(comm):
    n, r = comm.size, comm.rank
    z = np.array([1 + 2j * r, r], np.complex64)
    comm.allreduce(z)
    np.testing.assert_array_equal(z, [n + 2j * 3, 3])
    z = np.array([1.0 * r], np.complex128)
    package.raises(TypeError, comm.allreduce, z, op="max")
    some = np.array([r == 1, False, True])
    comm.allreduce(some, op="max")
    assert some.tolist() == [True, False, True]
    package.raises(TypeError, comm.allreduce, some)
    records = np.array([(r, 2.5), (r, 3.5)], dtype=[("a", "i4"), ("b", "f8")])
    everyone = np.zeros((n, 2), records.dtype)
    comm.allgather(records, everyone)
    assert everyone["a"].tolist() == [[0, 0], [1, 1], [2, 2]]
    package.raises(TypeError, comm.allreduce, records)
    words = np.array([f"rank {r}"])
    counts, all_words = [1] * n, np.zeros(n, words.dtype)
    comm.allgatherv(words, all_words, counts)
    assert all_words.tolist() == ["rank 0", "rank 1", "rank 2"]
    big = np.array([r], ">f4")      # another byte order: only moved
    comm.broadcast(big, root=2)
    assert big[0] == 2


@package.ranks(1, 3)
def collectives_with_roots_match_their_definition(comm):
    n, r, root = comm.size, comm.rank, comm.size - 1
    src, at_root = of_rank(r, (3,)), r == root
    dst = np.zeros(3)
    for _ in both(comm, "reduce", src, dst if at_root else None, root=root):
        if at_root:
            np.testing.assert_array_equal(dst, sum(of_rank(i, (3,)) for i in range(n)))
    for _ in both(comm, "broadcast", src, dst, root=root):
        np.testing.assert_array_equal(dst, of_rank(root, (3,)))
    rows = np.zeros((n, 3))
    for _ in both(comm, "gather", src, rows if at_root else None, root=root):
        if at_root:
            np.testing.assert_array_equal(rows, np.stack([of_rank(i, (3,)) for i in range(n)]))
    for _ in both(comm, "scatter", of_rank(0, (n, 3)) if at_root else None, dst, root=root):
        np.testing.assert_array_equal(dst, of_rank(0, (n, 3))[r])
    counts, displs = list(range(1, n + 1)), [10 * i for i in range(n)]
    wide, own = np.zeros(10 * n), np.zeros(r + 1)
    for _ in both(comm, "gatherv", of_rank(r, (r + 1,)), wide if at_root else None, counts, displs,
                  root):
        for i in range(n if at_root else 0):
            np.testing.assert_array_equal(wide[displs[i]:displs[i] + counts[i]],
                                          of_rank(i, (i + 1,)))
    for _ in both(comm, "scatterv", of_rank(0, (10 * n,)) if at_root else None, own, counts, displs,
                  root):
        np.testing.assert_array_equal(own, of_rank(0, (10 * n,))[displs[r]:displs[r] + counts[r]])
    comm.broadcast(b"abc" if at_root else bytearray(3), root=root)      # the root only reads


@package.ranks(1, 3)
def collectives_without_roots_match_their_definition(comm):
    n, r = comm.size, comm.rank
    everyone = np.zeros((n, 3))
    for _ in both(comm, "allgather", of_rank(r, (3,)), everyone):
        np.testing.assert_array_equal(everyone, np.stack([of_rank(i, (3,)) for i in range(n)]))
    total = sum(of_rank(i, (n, 3)) for i in range(n))
    dst = np.zeros(3)
    for _ in both(comm, "reduce_scatter", of_rank(r, (n, 3)), dst):
        np.testing.assert_array_equal(dst, total[r])
    counts = list(range(1, n + 1))
    own, packed = np.zeros(r + 1), np.zeros(sum(counts))
    for _ in both(comm, "reduce_scatterv", of_rank(r, (sum(counts),)), own, counts):
        want = sum(of_rank(i, (sum(counts),)) for i in range(n))
        np.testing.assert_array_equal(own, want[sum(counts[:r]):][:r + 1])
    for _ in both(comm, "allgatherv", of_rank(r, (r + 1,)), packed, counts):
        np.testing.assert_array_equal(packed,
                                      np.concatenate([of_rank(i, (i + 1,)) for i in range(n)]))
    rows = np.zeros((n, 3))
    for _ in both(comm, "alltoall", of_rank(r, (n, 3)), rows):
        np.testing.assert_array_equal(rows, np.stack([of_rank(i, (n, 3))[r] for i in range(n)]))
    # rank i sends i + 1 ... to each: j + 1 items to rank j
    received = np.zeros(n * (r + 1), np.complex64)
    sent = np.concatenate([np.full(j + 1, r + 1j * j) for j in range(n)]).astype(np.complex64)
    for _ in both(comm, "alltoallv", sent, counts, received, [r + 1] * n):
        np.testing.assert_array_equal(received, np.repeat(np.arange(n), r + 1) + 1j * r)
    for _ in both(comm, "barrier"):
        pass


@package.ranks(2)
def messages_match_by_tag_and_in_groups(comm):
    other = 1 - comm.rank
    mine, got, second = np.arange(4) + comm.rank, np.zeros(4, int), np.zeros(4, int)
    requests = [comm.irecv(got, other, tag=1), comm.irecv(second, other, tag=2)]
    comm.send(mine * 10, other, tag=2)
    comm.send(mine, other, tag=1)
    tutti.wait_all(requests)
    np.testing.assert_array_equal(got, np.arange(4) + other)
    np.testing.assert_array_equal(second, got * 10)
    got[:] = 0
    comm.group([tutti.Send(mine, other), tutti.Recv(got, other)])
    np.testing.assert_array_equal(got, np.arange(4) + other)
    request = comm.igroup(part for part in (tutti.Send(mine, other, 7),
                                            tutti.Recv(second, other, tag=7)))
    request.wait()
    np.testing.assert_array_equal(second, got)
    package.raises(TypeError, comm.group, [mine])


@package.ranks(2)
def wrong_sizes_are_refused_before_anything_starts(comm):
    x = np.zeros(4)
    for call, arguments in (
            (comm.allreduce, (x, np.zeros(3))), (comm.allgather, (x, np.zeros(7))),
        (comm.reduce_scatter, (x, np.zeros(3))),
            (comm.alltoall, (np.zeros(3),)), (comm.allgatherv, (x, np.zeros(8), [4])),
        (comm.allgatherv, (x, np.zeros(8), [4, 5])),
            (comm.allgatherv, (x, np.zeros(8), [4, 4], [0, 5])),
        (comm.allgatherv, (x, np.zeros(8), [3, 5])),
            (comm.alltoallv, (x, [2, 3], np.zeros(4), [2, 2])),
        (comm.reduce_scatterv, (x, np.zeros(1), [2, 2]))):
        package.raises(tutti.InvalidError, call, *arguments)
    package.raises(TypeError, comm.allreduce, x, np.zeros(4, np.float32))
    package.raises(TypeError, comm.allreduce, x, np.zeros(4, np.int64))
    package.raises(tutti.InvalidError, comm.allreduce, x, op="plus")
    if comm.rank == 0:
        package.raises(tutti.InvalidError, comm.gather, x)
        package.raises(tutti.InvalidError, comm.scatter, None, x)
    comm.allreduce(x)       # still in step


package.main()
