#!/usr/bin/env python3
"""Windows of the Python package."""

import package

import numpy as np

import tutti


@package.ranks(1, 2)
def puts_gets_signals_and_atomics(comm):
    n, r = comm.size, comm.rank
    right, left = (r + 1) % n, (r - 1) % n
    with comm.window(4096) as w:
        words = np.frombuffer(w.memory, np.uint64)
        assert w.memory.nbytes == 4096 and w.nbytes_of(right) == 4096 and not words.any()
        comm.barrier()      # no rank puts before all ranks have seen zeros
        w.put(right, 64, np.arange(5, dtype=np.uint64) + r, signal="add", value=3, signal_offset=8)
        assert w.wait(8, 3) == 3
        assert words[8:13].tolist() == [i + left for i in range(5)]
        w.signal(right, 16, "set", 77)
        assert w.wait_any([24, 16], 77, "equal") == (1, 77)
        assert w.test(24, 1) is None and w.test(16, 1) == 77 and w.test(16, 77, "not_equal") is None
        assert w.atomic(r, 32, "add", 5) == 0
        assert w.atomic(r, 32, "compare_swap", 9, compare=5) == 5
        assert w.atomic(r, 32, "or", 2, fetch=False) is None
        w.quiet()
        assert words[4] == 11 and w.atomic(r, 32, "swap", 1, nbytes=4) == 11
        comm.barrier()
        got = np.zeros(5, np.uint64)
        w.get(right, 64, got)
        assert got.tolist() == [i + r for i in range(5)]
        w.fence()
        w.quiet(right, timeout=30)
        comm.barrier()
        package.raises(BufferError, w.free)
        del words
    assert w.freed
    for call in (w.quiet, w.fence, lambda: w.memory, lambda: w.put(0, 0, b"x")):
        package.raises(tutti.InvalidError, call)


@package.ranks(2)
def counted_transfers_keep_their_arrays(comm):
    other = 1 - comm.rank
    with comm.window(1 << 20) as w:
        counter = tutti.Counter()
        for i in range(10):
            assert w.put(other, i * 100000, np.full(100000, i, np.uint8), counter=counter)
        assert counter.started == 10
        w.wait_counter(counter)
        assert counter.value == 10
        w.quiet()
        comm.barrier()
        back = np.zeros(100000, np.uint8)
        w.get(other, 700000, back, counter=counter)
        w.wait_counter(counter, 11, timeout=60)
        assert (back == 7).all()
        # the window keeps both alive
        w.put(other, 0, np.zeros(100000, np.uint8), counter=tutti.Counter())
        del counter
        package.raises(tutti.TimeoutError, w.wait_counter, tutti.Counter(), 1, timeout=0.01)


@package.ranks(2)
def rows_and_pieces_are_one_put(comm):
    other = 1 - comm.rank
    memory = np.zeros((10, 16), np.uint8)
    with comm.window(memory) as w:
        table = np.arange(200, dtype=np.uint8).reshape(10, 20)
        w.put_rows(other, 32, table[:4, 2:10], stride=16, signal="set", value=1, signal_offset=0)
        w.wait(0, 1)
        np.testing.assert_array_equal(memory[2:6, :8], table[:4, 2:10])
        assert not memory[2:6, 8:].any()
        w.put_pieces(other, [(100, b"abc"), (110, bytearray(b"de"))], signal="add", value=4,
                     signal_offset=8)
        w.wait(8, 4)
        assert memory.tobytes()[100:103] == b"abc" and memory.tobytes()[110:112] == b"de"
        package.raises(tutti.InvalidError, w.put_rows, other, 0, np.zeros(5), 16)
        package.raises(tutti.InvalidError, w.put_rows, other, 0, table[:, ::2], 16)
        assert w.peer_memory(other) is None         # memory of the caller
        comm.barrier()


@package.ranks(2)
def ranks_of_one_host_load_and_store(comm):
    other = 1 - comm.rank
    with comm.window(64) as w:
        theirs = w.peer_memory(other)
        np.frombuffer(theirs, np.uint64)[3] = comm.rank + 40
        w.signal(other, 0)
        w.wait(0, 1)
        assert np.frombuffer(w.memory, np.uint64)[3] == other + 40
        comm.barrier()
    package.raises(BufferError, memoryview, theirs)


@package.ranks(2)
def bad_arguments_are_refused(comm):
    with comm.window(64) as w:
        for call, arguments, options in (
                (w.put, (0, 60, np.zeros(5)), {}), (w.put, (7, 0, b"x"), {}),
            (w.put, (0, 0, b"x"), {"signal": "sub"}),
                (w.wait, (0, 1, "less"), {}), (w.wait, (3, 1), {}),
            (w.atomic, (0, 0, "mul", 1), {}), (w.fence, (-1,), {}),
                (w.get, (0, 0, b"read-only"), {}), (w.nbytes_of, (2,), {}),
            (w.quiet, (), {"timeout": -3})):
            package.raises(tutti.InvalidError, call, *arguments, **options)
        package.raises(tutti.TimeoutError, w.wait, 0, 1, timeout=0.01)
        comm.barrier()
    package.raises(tutti.InvalidError, comm.window, b"read-only")
    comm.barrier()


package.main()
