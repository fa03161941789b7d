"""One rank of tests of the c10d backend: every collective over types, shapes, layouts and orders.
What all ranks give is drawn from seeds, so each rank knows what must come out.

    prog_torch.py INIT_FILE RANK SIZE [CASE...]       (torch_cases.py)"""

import datetime
import threading
import time

import torch
import torch.distributed as dist

import torch_cases
from torch_cases import RANK, SIZE

REDUCED = [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32,
           torch.int64, torch.uint64, torch.float16,
           torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
           torch.bool]
MOVED = REDUCED + [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz,
                   torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.complex32]
SHAPES = [(), (1,), (7,), (3, 5), (0,), (2, 0, 3), (1000,), (129, 513)]


def draw(rank, shape, dtype, seed=0, small=True):
    """Small integers, which every type holds and adds exactly."""
    g = torch.Generator().manual_seed(1000 * seed + rank)
    values = torch.randint(0, 4 if small else 2, shape, generator=g)
    if dtype.is_complex:
        return torch.complex(values.to(torch.float64),
                             torch.randint(0, 4, shape, generator=g).to(torch.float64)).to(dtype)
    return values.to(dtype)


def same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    assert torch.equal(bits(a), bits(b)), f"{a.dtype}: {a} is not {b}"


def bits(t):
    t = t.reshape(-1).clone(memory_format=torch.contiguous_format)
    return torch.view_as_real(t) if t.dtype.is_complex else t.view(torch.uint8)


def strided(t):
    """The same values in memory with gaps."""
    if t.dim() == 0:
        return torch.stack([t, t])[0]
    wide = torch.zeros(*t.shape, 2, dtype=t.dtype)
    wide[..., 0] = t
    return wide[..., 0]


def total(tensors, op, dtype):
    wide = [t.to(torch.complex128) if dtype.is_complex else t.to(torch.int64)
            if dtype != torch.float64 else t for t in tensors]
    stack = torch.stack(wide)
    if op == "sum":
        out = stack.sum(0)
        if dtype == torch.bool:
            out = out > 0
    elif op == "product":
        out = stack.prod(0)
        if dtype == torch.bool:
            out = out > 0
    elif op == "min":
        out = stack.amin(0)
    elif op == "max":
        out = stack.amax(0)
    elif op == "avg":
        out = (stack.to(torch.float64).sum(0) / len(tensors) if not dtype.is_complex
               else stack.sum(0) / len(tensors))
    return out.to(dtype)


OPS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN,
       "max": dist.ReduceOp.MAX,
       "avg": dist.ReduceOp.AVG}


def each_layout(t):
    yield t.clone()
    if t.numel():
        yield strided(t)


def case_broadcast():
    for root in range(SIZE):
        for i, dtype in enumerate(MOVED):
            shape = SHAPES[(i + root) % len(SHAPES)]
            want = draw(root, shape, dtype, i)
            for t in each_layout(draw(RANK, shape, dtype, i)):
                dist.broadcast(t, root)
                same(t, want)


def case_all_reduce():
    for i, dtype in enumerate(REDUCED):
        for name, op in OPS.items():
            if dtype.is_complex and name not in ("sum",
                                                 "avg") or dtype == torch.bool and name == "avg":
                continue
            shape = SHAPES[i % len(SHAPES)]
            parts = [draw(r, shape, dtype, i) for r in range(SIZE)]
            if name == "avg" and not (dtype.is_floating_point or dtype.is_complex):
                want = (torch.stack([p.to(torch.int64) for p in parts]).sum(0) // SIZE).to(dtype)
            elif name == "avg":
                parts = [p * SIZE for p in parts]
                want = total(parts, name, dtype)
            else:
                want = total(parts, name, dtype)
            for t in each_layout(parts[RANK]):
                dist.all_reduce(t, op)
                same(t, want)


def case_bitwise():
    for dtype in (torch.uint8, torch.int32, torch.int64, torch.bool):
        parts = [draw(r, (50,), dtype, 3) for r in range(SIZE)]
        for op, fn in ((dist.ReduceOp.BAND, torch.bitwise_and),
                       (dist.ReduceOp.BOR, torch.bitwise_or),
                       (dist.ReduceOp.BXOR, torch.bitwise_xor)):
            want = parts[0]
            for p in parts[1:]:
                want = fn(want, p)
            t = parts[RANK].clone()
            dist.all_reduce(t, op)
            same(t, want)


def refused(what, *words):
    try:
        what()
    except (ValueError, RuntimeError, TypeError) as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return
    raise AssertionError(f"not refused: {words}")


def case_refused():
    f = torch.ones(3)
    refused(lambda: dist.all_reduce(f, dist.ReduceOp.BAND), "BAND", "Float")
    refused(lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), dist.ReduceOp.AVG), "AVG",
            "Bool")
    refused(lambda: dist.all_gather_into_tensor(torch.zeros(3), f), "must be")
    refused(lambda: dist.broadcast(torch.eye(3).to_sparse(), 0))
    refused(lambda: dist.all_to_all_single(torch.zeros(3), f, [1] * (SIZE + 1), None))
    dist.barrier()


def case_nan():
    for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        for where in range(SIZE):
            for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
                t = torch.full((5,), float(RANK), dtype=dtype)
                if RANK == where:
                    t[2] = float("nan")
                dist.all_reduce(t, op)
                assert t[2].isnan() and not t[[0, 1, 3, 4]].isnan().any(), (op, where, t)


def case_nan_in_other_reductions():
    """Also of 8 bits, and where one rank alone receives the result."""
    for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        for where in range(SIZE):
            for dtype in (torch.float32, torch.float8_e4m3fn, torch.float8_e5m2):
                whole = torch.full((5 * SIZE,), float(RANK))
                if RANK == where:
                    whole[2::5] = float("nan")
                whole = whole.to(dtype)
                part, at_root = torch.zeros(5).to(dtype), whole.clone()
                dist.reduce_scatter_tensor(part, whole.clone(), op)
                dist.reduce(at_root, 0, op)
                for t in (part, at_root) if RANK == 0 else (part,):
                    nans = t.float().isnan().reshape(-1, 5)
                    assert nans[:, 2].all() and nans.sum() == len(nans), (op, where, dtype, t)


def case_premul_sum():
    """PyTorch passes complex tensors on as pairs of floats."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
        for factor in (0.5, torch.tensor(0.5, dtype=torch.float64)):
            t = torch.full((9,), float(RANK + 1), dtype=dtype)
            dist.all_reduce(t, dist._make_nccl_premul_sum(factor))
            same(t, torch.full((9,), 0.5 * SIZE * (SIZE + 1) / 2, dtype=dtype))
    t = torch.full((SIZE, 3), float(RANK + 1))
    part = torch.empty(3)
    dist.reduce_scatter_tensor(part, t, dist._make_nccl_premul_sum(2.0))
    same(part, torch.full((3,), 1.0 * SIZE * (SIZE + 1)))


def case_float8_reductions():
    """The values of the sums and products are exact in both types."""
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        parts = [draw(r, (70,), torch.float32, 4).clamp(max=2) for r in range(SIZE)]
        for name in ("sum", "product", "min", "max"):
            t = parts[RANK].to(dtype)
            dist.all_reduce(t, OPS[name])
            same(t, total(parts, name, torch.float32).to(dtype))
        t = parts[0].to(dtype)
        dist.all_reduce(t, dist.ReduceOp.AVG)
        same(t, parts[0].to(dtype))
        refused(lambda t=t: dist.all_reduce(t, dist.ReduceOp.BXOR), "BXOR", "Float8")
    for dtype in (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu):
        refused(lambda dtype=dtype: dist.all_reduce(torch.ones(3).to(dtype)), "SUM", "Float8")


def case_complex_in_other_reductions():
    rows = [draw(r, (SIZE, 6), torch.complex64, 2) for r in range(SIZE)]
    want = total(rows, "sum", torch.complex64)
    part, at_root = torch.empty(6, dtype=torch.complex64), rows[RANK].clone()
    dist.reduce_scatter_tensor(part, rows[RANK].clone())
    same(part, want[RANK])
    dist.reduce_scatter(part, [row.clone() for row in rows[RANK]])
    same(part, want[RANK])
    dist.reduce(at_root, SIZE - 1)
    same(at_root, want if RANK == SIZE - 1 else rows[RANK])


def case_every_type_in_every_call():
    """Calls that only move data."""
    for i, dtype in enumerate(MOVED):
        rows = [draw(r, (SIZE, 3), dtype, i) for r in range(SIZE)]
        mine, root = rows[RANK], i % SIZE
        out = [torch.empty_like(mine) for _ in range(SIZE)] if RANK == root else None
        dist.gather(mine, out, root)
        for got, want in zip(out or [], rows):
            same(got, want)
        row = torch.empty_like(mine[0])
        dist.scatter(row, [r.clone() for r in mine] if RANK == root else None, root)
        same(row, rows[root][RANK])
        got = torch.empty_like(mine)
        dist.all_to_all_single(got, mine)
        same(got, torch.stack([r[RANK] for r in rows]))
        parts = [torch.empty_like(row) for _ in range(SIZE)]
        dist.all_to_all(parts, [r.clone() for r in mine])
        same(torch.stack(parts), got)
        sending = dist.isend(mine, (RANK + 1) % SIZE, tag=7)
        dist.recv(got, (RANK - 1) % SIZE, tag=7)
        sending.wait()
        same(got, rows[RANK - 1])


def case_names_before_2_15():
    """The calls of a backend, and of a group, with the names that PyTorch had before 2.15."""
    from torch._C import _distributed_c10d as c10d
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend = getattr(backend, "wrapped_pg", backend)       # TORCH_DISTRIBUTED_DEBUG=DETAIL
    rows = [draw(r, (SIZE, 3), torch.float32, 8) for r in range(SIZE)]
    want, out, part = total(rows, "sum", torch.float32), torch.empty(SIZE * 3), torch.empty(3)
    work = backend._allgather_base(out, rows[RANK][0].clone(), c10d.AllgatherOptions())
    work.wait()
    same(out.reshape(SIZE, 3), torch.stack([r[0] for r in rows]))
    work = backend._reduce_scatter_base(part, rows[RANK].clone(), c10d.ReduceScatterOptions())
    work.wait()
    same(part, want[RANK])
    work = backend.alltoall_base(out, rows[RANK].reshape(-1), [], [], c10d.AllToAllOptions())
    work.wait()
    same(out.reshape(SIZE, 3), torch.stack([r[RANK] for r in rows]))
    outs = [torch.empty(SIZE * 3), torch.empty(SIZE, 2)]
    group = dist.group.WORLD
    work = group.allgather_into_tensor_coalesced(
        outs, [rows[RANK][0].clone(), torch.full((2,), float(RANK))], c10d.AllgatherOptions())
    work.wait()
    same(outs[0].reshape(SIZE, 3), torch.stack([r[0] for r in rows]))
    same(outs[1][:, 1], torch.arange(SIZE).float())
    outs = [torch.empty(3), torch.empty(1)]
    work = group.reduce_scatter_tensor_coalesced(
        outs, [rows[RANK].clone(), torch.ones(SIZE)], c10d.ReduceScatterOptions())
    work.wait()
    same(outs[0], want[RANK])
    same(outs[1], torch.full((1,), float(SIZE)))


def case_reduce():
    for root in range(SIZE):
        parts = [draw(r, (3, 5), torch.float32, root) for r in range(SIZE)]
        for t in each_layout(parts[RANK]):
            dist.reduce(t, root)
            same(t, total(parts, "sum", torch.float32) if root == RANK else parts[RANK])


def case_all_gather():
    for i, dtype in enumerate(MOVED):
        for shape in SHAPES:
            parts = [draw(r, shape, dtype, i) for r in range(SIZE)]
            out = [torch.empty(shape, dtype=dtype) for _ in range(SIZE)]
            dist.all_gather(out, parts[RANK])
            for got, want in zip(out, parts):
                same(got, want)
    uneven = [draw(r, (r + 1, 3), torch.float32) for r in range(SIZE)]
    out = [torch.empty(r + 1, 3) for r in range(SIZE)]
    dist.all_gather(out, uneven[RANK])
    for got, want in zip(out, uneven):
        same(got, want)


def case_all_gather_single():
    for i, dtype in enumerate(MOVED):
        part = draw(RANK, (4, 3), dtype, i)
        parts = [draw(r, (4, 3), dtype, i) for r in range(SIZE)]
        for shape in ((4 * SIZE, 3), (SIZE, 4, 3)):
            for out in each_layout(torch.zeros(shape, dtype=torch.float32).to(dtype)):
                dist.all_gather_into_tensor(out, part)
                same(out.reshape(SIZE, 4, 3), torch.stack(parts))


def case_reduce_scatter():
    for dtype in (torch.int32, torch.float32, torch.bfloat16):
        rows = [[draw(r, (k + 1, 2), dtype, k) for k in range(SIZE)] for r in range(SIZE)]
        out = torch.empty(RANK + 1, 2, dtype=dtype)
        dist.reduce_scatter(out, [t.clone() for t in rows[RANK]])
        same(out, total([rows[r][RANK] for r in range(SIZE)], "sum", dtype))
        even = [draw(r, (SIZE, 6), dtype, 9) for r in range(SIZE)]
        for op in ("sum", "max"):
            want = total([e[RANK] for e in even], op, dtype)
            out = torch.empty(6, dtype=dtype)
            dist.reduce_scatter_tensor(out, even[RANK].clone(), OPS[op])
            same(out, want)
            dist.reduce_scatter_tensor(out, even[RANK].reshape(-1).clone(), OPS[op])
            same(out, want)


def case_gather_scatter():
    for root in range(SIZE):
        for shape in ((3,), (2, 2), ()):
            parts = [draw(r, shape, torch.int16, root) for r in range(SIZE)]
            out = [torch.empty(shape, dtype=torch.int16)
                   for _ in range(SIZE)] if RANK == root else None
            dist.gather(parts[RANK], out, root)
            for got, want in zip(out or [], parts):
                same(got, want)
            t = torch.empty(shape, dtype=torch.int16)
            dist.scatter(t, [p.clone() for p in parts] if RANK == root else None, root)
            same(t, parts[RANK])


def case_gather_single():
    if not hasattr(dist, "gather_single") or dist.get_debug_level() == dist.DebugLevel.DETAIL:
        # before PyTorch 2.15; with DETAIL PyTorch does not pass the call on to the backend
        return
    for root in range(SIZE):
        for dtype in (torch.float32, torch.int16, torch.float8_e4m3fn):
            parts = [draw(r, (3, 2), dtype, root) for r in range(SIZE)]
            for part in each_layout(parts[RANK]):
                for shape in ((3 * SIZE, 2), (SIZE, 3, 2)):
                    out = torch.zeros(shape).to(dtype) if RANK == root else None
                    dist.gather_single(part, out, root)
                    if out is not None:
                        same(out.reshape(SIZE, 3, 2), torch.stack(parts))
    if RANK == 0:
        refused(lambda: dist.gather_single(torch.ones(3), torch.empty(3 * SIZE + 1), 0),
                "gather_single", "must be")


def case_all_to_all():
    rows = [[draw(r, (r + 1, k + 2), torch.float64, k) for k in range(SIZE)] for r in range(SIZE)]
    out = [torch.empty(r + 1, RANK + 2, dtype=torch.float64) for r in range(SIZE)]
    dist.all_to_all(out, [t.clone() for t in rows[RANK]])
    for r in range(SIZE):
        same(out[r], rows[r][RANK])
    for sizes in ([[(r + k) % 3 for k in range(SIZE)] for r in range(SIZE)],
                  [[0] * SIZE for _ in range(SIZE)]):
        inputs = [draw(r, (sum(sizes[r]), 4), torch.int32, 5) for r in range(SIZE)]
        got = torch.empty(sum(sizes[r][RANK] for r in range(SIZE)), 4, dtype=torch.int32)
        dist.all_to_all_single(got, inputs[RANK], [sizes[r][RANK] for r in range(SIZE)],
                               sizes[RANK])
        same(got, torch.cat([inputs[r].split(sizes[r])[RANK] for r in range(SIZE)]))
    even = [draw(r, (2 * SIZE, 3), torch.float32, 6) for r in range(SIZE)]
    got = torch.empty(2 * SIZE, 3)
    dist.all_to_all_single(got, even[RANK])
    same(got, torch.cat([e.chunk(SIZE)[RANK] for e in even]))


def case_send_recv():
    for step in range(1, SIZE):
        to, source = (RANK + step) % SIZE, (RANK - step) % SIZE
        for shape in ((3,), (70000,), (), (0,)):
            out, got = draw(RANK, shape, torch.float32, step), torch.empty(shape)
            work = dist.isend(out, to, tag=step)
            dist.recv(got, source, tag=step)
            work.wait()
            same(got, draw(source, shape, torch.float32, step))


def case_recv_any_source():
    if RANK == 0:
        seen = set()
        for _ in range(2 * (SIZE - 1)):
            got = torch.empty(4)
            source = dist.recv(got, tag=3)
            assert (got == source).all(), (got, source)
            seen.add(source)
        assert seen == set(range(1, SIZE))
        large = torch.empty(300000)
        sources = [dist.recv(large) for _ in range(1, SIZE)]
        assert sorted(sources) == list(range(1, SIZE)) and (large == sources[-1]).all()
    else:
        for _ in range(2):
            dist.send(torch.full((4,), float(RANK)), 0, tag=3)
        dist.send(torch.full((300000,), float(RANK)), 0)
    dist.barrier()      # or a send of the next case could match a receive from any rank of this one


def case_batch():
    to, source = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    got, back = torch.empty(5), torch.empty(100000)
    ops = [dist.P2POp(dist.irecv, got, source), dist.P2POp(dist.isend,
                                                           torch.full((5,), float(RANK)), to),
           dist.P2POp(dist.isend, torch.full((100000,), float(RANK)), source),
           dist.P2POp(dist.irecv, back, to)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(got, torch.full((5,), float(source)))
    same(back, torch.full((100000,), float(to)))


def case_coalesced():
    tensors = [torch.full((k + 1,), float(RANK), dtype=torch.float32)
               for k in range(4)] + [torch.full((300000,), float(RANK))]
    with dist._coalescing_manager(async_ops=True) as manager:
        for t in tensors:
            dist.all_reduce(t)
    manager.wait()
    for t in tensors:
        assert (t == SIZE * (SIZE - 1) / 2).all()
    outs, ins = ([torch.empty(SIZE * 3), torch.empty(SIZE, 2)],
                 [torch.full((3,), float(RANK)), torch.full((2,), float(RANK))])
    with dist._coalescing_manager():
        for o, t in zip(outs, ins):
            dist.all_gather_into_tensor(o, t)
    same(outs[0].reshape(SIZE, 3)[:, 0], torch.arange(SIZE).float())
    same(outs[1][:, 0], torch.arange(SIZE).float())
    ins = [torch.full((SIZE, n), float(RANK)) for n in (3, 100000)]
    outs = [torch.empty(3), torch.empty(100000)]
    with dist._coalescing_manager():
        for o, t in zip(outs, ins):
            dist.reduce_scatter_tensor(o, t, dist.ReduceOp.MAX)
    for o in outs:
        assert (o == SIZE - 1).all()


def case_progress_without_the_caller():
    """Rank 0 starts an operation and then waits in the store until the other ranks have its
    result."""
    store = dist.distributed_c10d._get_default_store()
    for n in (10, 300000):
        t = torch.full((n,), float(RANK))
        work = dist.all_reduce(t, async_op=True)
        if RANK == 0:
            store.wait([f"progress {n} {r}" for r in range(1, SIZE)],
                       datetime.timedelta(seconds=300))
        else:
            work.wait()
            store.set(f"progress {n} {RANK}", "done")
        work.wait()
        assert (t == SIZE * (SIZE - 1) / 2).all()


def case_coalesced_without_the_caller():
    tensors = [torch.full((n,), float(RANK)) for n in (3, 200000)]
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for t in tensors:
            dist.all_gather_into_tensor(torch.empty(SIZE * t.numel()), t)
    for work in manager.works:
        while not work.is_completed():
            time.sleep(0.001)
    manager.wait()


def case_inputs_may_be_dropped():
    out = torch.empty(50000)
    work = dist.reduce_scatter(out, list(torch.full((50000 * SIZE,), float(RANK)).chunk(SIZE)),
                               async_op=True)
    # takes memory that was freed too early
    junk = [torch.full((50000 * SIZE,), 7.0) for _ in range(3)]
    work.wait()
    assert (out == SIZE * (SIZE - 1) / 2).all() and junk


def case_equal_splits_as_list_or_not():
    t = torch.arange(SIZE * 2).float()
    out = torch.empty(SIZE * 2)
    splits = [2] * SIZE if RANK == 0 else None
    dist.all_to_all_single(out, t, splits, splits)
    same(out, torch.cat([t[2 * RANK:2 * RANK + 2]] * SIZE))


def case_quantized():
    import tutti.torch
    options = tutti.torch.Options()
    options.quantization = "minmax8"
    try:
        options.quantization = "minmax9"
        raise AssertionError("an unknown quantization was accepted")
    except ValueError as error:
        assert "minmax9" in str(error)
    group = dist.new_group(pg_options=options)
    t = torch.linspace(0, 1 + RANK, 5000)
    want = torch.linspace(0, SIZE * (SIZE + 1) / 2, 5000)
    dist.all_reduce(t, group=group)
    error = (t - want).abs().max()
    assert 0 < error < 0.01 * SIZE * SIZE, error


def case_futures():
    works = [dist.all_reduce(torch.full((n,), float(RANK)), async_op=True)
             for n in (1, 1000, 200000)]
    futures = [w.get_future().then(lambda f: f.value()[0].sum().item()) for w in works]
    for future, n in zip(futures, (1, 1000, 200000)):
        assert future.wait() == n * SIZE * (SIZE - 1) / 2
    for work in works:
        assert work.wait() and work.wait() and work.is_completed()
    t = torch.full((3,), float(RANK))
    work = dist.all_reduce(t, async_op=True)
    waits = [threading.Thread(target=work.wait) for _ in range(4)]
    for w in waits:
        w.start()
    for w in waits:
        w.join()
    assert t[0] == SIZE * (SIZE - 1) / 2
    # nobody waits for it, and its memory is dropped
    dist.all_reduce(torch.ones(100000), async_op=True)
    work = dist.all_reduce(torch.ones(4), async_op=True)
    while not work.is_completed():
        time.sleep(0.001)


def case_sparse():
    def part(rank):
        i = torch.tensor([[(rank + k) % 5 for k in range(3)], [k for k in range(3)]])
        return torch.sparse_coo_tensor(i, torch.full((3, 2), float(rank + 1)), (5, 3, 2))
    t = part(RANK)
    dist.all_reduce(t)
    want = sum((part(r).to_dense() for r in range(SIZE)), torch.zeros(5, 3, 2))
    assert t.is_sparse
    same(t.to_dense(), want)
    for dtype in (torch.float64, torch.int32):      # rank 0 has no element
        t = part(RANK).to(dtype) if RANK else torch.sparse_coo_tensor(
            torch.empty(2, 0, dtype=torch.int64), torch.empty(0, 2, dtype=dtype), (5, 3, 2))
        dist.all_reduce(t)
        same(t.to_dense(), (want - part(0).to_dense()).to(dtype))
    refused(lambda: dist.all_reduce(part(RANK), dist.ReduceOp.MAX), "sparse", "SUM")


def case_groups():
    evens, odds = list(range(0, SIZE, 2)), list(range(1, SIZE, 2))
    for ranks in (evens, odds, list(range(SIZE)), [SIZE - 1]):
        group = dist.new_group(ranks) if ranks else None
        if not ranks or RANK not in ranks:
            continue
        t = torch.full((3,), float(RANK))
        dist.all_reduce(t, group=group)
        assert t[0] == sum(ranks), (ranks, t)
        dist.broadcast(t, ranks[-1], group=group)
        dist.destroy_process_group(group)
    local = dist.new_group([0, SIZE - 1],
                           use_local_synchronization=True) if RANK in (0, SIZE - 1) else None
    if local is not None:
        dist.barrier(local)
    dist.barrier()


def case_split_group():
    if not hasattr(dist, "gather_single") or dist.get_debug_level() == dist.DebugLevel.DETAIL:
        # before PyTorch 2.15 it needs a device that is bound to the group; with DETAIL it was not
        # tried
        return
    turned = list(reversed(range(SIZE)))
    whole = dist.split_group(split_ranks=[turned])
    assert dist.get_rank(whole) == turned.index(RANK)
    out = torch.empty(SIZE)
    dist.all_gather_into_tensor(out, torch.tensor([float(RANK)]), group=whole)
    same(out, torch.tensor(turned).float())
    # Of a part: its ranks are those of the part. Rank 0 of the job is in no list.
    part = dist.split_group(whole, split_ranks=[list(range(SIZE - 1))])
    if RANK == 0:
        assert part is dist.GroupMember.NON_GROUP_MEMBER, part
        return
    assert dist.get_process_group_ranks(part) == turned[:-1]
    t = torch.full((3,), float(RANK))
    dist.all_reduce(t, group=part)
    assert t[0] == SIZE * (SIZE - 1) / 2
    dist.broadcast(t.fill_(RANK), SIZE - 1, group=part)
    assert t[0] == SIZE - 1


def case_groups_in_threads():
    """Threads of each rank create groups that have ranks in common, and start in another order on
    each rank."""
    if dist.get_debug_level() == dist.DebugLevel.DETAIL:
        return      # PyTorch's wrapper creates groups of Gloo, whose creation in threads blocks
    lists = [[r for r in range(SIZE) if bits >> r & 1] for bits in range(1, 1 << SIZE)]
    failures = []

    def use(ranks):
        try:
            for _ in range(5):
                group = dist.new_group(ranks, use_local_synchronization=True)
                t = torch.full((3,), float(RANK))
                dist.all_reduce(t, group=group)
                assert t[0] == sum(ranks), (ranks, t)
        except Exception as error:      # pylint: disable=broad-exception-caught
            failures.append((ranks, error))

    threads = [threading.Thread(target=use, args=(ranks,)) for ranks in lists if RANK in ranks]
    threads = threads[RANK:] + threads[:RANK]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def case_objects():
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK, "data": list(range(RANK * 10))})
    assert [o["rank"] for o in objects] == list(range(SIZE))
    box = [("from", RANK)]
    dist.broadcast_object_list(box, SIZE - 1)
    assert box == [("from", SIZE - 1)]
    out = [None] * SIZE if RANK == 0 else None
    dist.gather_object(RANK, out, 0)
    assert out is None or out == list(range(SIZE))
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(SIZE)] if RANK == 0 else None, 0)
    assert mine == [f"for {RANK}"]


def case_monitored_barrier():
    if not hasattr(dist, "gather_single"):      # before PyTorch 2.15 only Gloo has it
        return
    dist.monitored_barrier()
    dist.monitored_barrier(wait_all_ranks=True)
    if RANK == 0:
        refused(lambda: dist.monitored_barrier(timeout=datetime.timedelta(0)),
                "Rank 0 timed out in monitoredBarrier")


def case_monitored_barrier_names_the_missing_ranks():
    """Only the ranks of `present` call it. Rank 1 must arrive in time: with more of it if need
    be."""
    if not hasattr(dist, "gather_single"):      # before PyTorch 2.15 only Gloo has it
        return
    for present, wait_all in (([0], True), ([0], False), ([0, 1], True), ([0, 1], False)):
        missing = [r for r in range(1, SIZE) if r not in present]
        if not missing:
            continue
        named = missing if wait_all else missing[:1]
        want = (f"[Rank 0]: {'Ranks' if len(named) > 1 else 'Rank'} {', '.join(map(str, named))} "
                "failed to pass monitoredBarrier in ")
        for seconds in (0.3, 3, 60):
            message = [missed(seconds, wait_all) if RANK in present else dist.new_group() and ""]
            dist.broadcast_object_list(message, 0)
            if want in message[0]:
                break
        assert want in message[0], (want, message)


def missed(seconds, wait_all):
    """The message of a barrier that some ranks do not call."""
    group = dist.new_group()
    try:
        dist.monitored_barrier(group, datetime.timedelta(seconds=seconds), wait_all)
    except RuntimeError as error:
        return str(error)
    raise AssertionError("the barrier completed without all ranks")


def error_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("a call completed without its peers")


def with_longer_timeouts(attempt):
    """attempt(ms) returns a message and words of it, or nothing. On a busy machine, the peers may
    not respond within a short timeout, and are reported instead."""
    for ms in (200, 3000, 60000):
        message, words = attempt(ms) or ("", [])
        right = [None] * SIZE
        dist.all_gather_object(right, all(word in message for word in words))
        if all(right):
            return
    raise AssertionError((words, message))


def case_timeout():
    def attempt(ms):
        group = dist.new_group(timeout=datetime.timedelta(milliseconds=ms))
        dist.barrier()
        if RANK:
            return None
        message = error_of(lambda: dist.barrier(group))
        if dist.get_debug_level() == dist.DebugLevel.DETAIL:
            # a monitored barrier of PyTorch fails first
            return message, ["failed to pass monitoredBarrier"]
        return message, [f"TIMEOUT: Timed out waiting {ms}ms: rank 0", "in barrier(", "operation 0",
                         "waiting for rank "]
    with_longer_timeouts(attempt)


def case_timeout_is_changed():
    """By set_timeout, and by an extension that the next operation ends."""
    if dist.get_debug_level() == dist.DebugLevel.DETAIL:
        return      # PyTorch's wrapper does not pass them on
    if not hasattr(dist, "gather_single"):
        return      # before PyTorch 2.15 it ignores all backends but Gloo and NCCL
    peer = (RANK + 1) % SIZE

    def changed(ms):
        group = dist.new_group(timeout=datetime.timedelta(seconds=100))
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(milliseconds=ms), group)
        return error_of(lambda: dist.recv(torch.ones(1), peer, group)), [f"waiting {ms}ms"]

    def extended(ms):
        group = dist.new_group(timeout=datetime.timedelta(milliseconds=ms))
        group._add_ephemeral_timeout(datetime.timedelta(milliseconds=50))
        return error_of(lambda: dist.recv(torch.ones(1), peer, group)), [f"waiting {ms + 50}ms"]

    with_longer_timeouts(changed)
    if hasattr(dist.group.WORLD, "_add_ephemeral_timeout"):
        with_longer_timeouts(extended)


def case_abort():
    """Ends the operations of all ranks in this group, and no others."""
    group = dist.new_group()
    if dist.get_debug_level() == dist.DebugLevel.DETAIL:
        return      # PyTorch's wrapper does not pass it on
    backend, called = group._get_backend(torch.device("cpu")), []
    has_hooks = hasattr(backend, "register_abort_hook")
    if has_hooks:
        backend.register_abort_hook(7001, lambda: called.append(1))
        backend.register_abort_hook(7002, lambda: called.append(2))
        backend.unregister_abort_hook(7002)
    work = dist.irecv(torch.ones(1), (RANK + 1) % SIZE, group)
    dist.barrier()
    if RANK == 0:
        backend.abort()
    refused(work.wait, "ABORTED")
    assert not work.is_success()
    if hasattr(dist, "gather_single"):      # before PyTorch 2.15 it has no Python type
        assert "ABORTED" in str(work.exception())
    while has_hooks and not called:     # by the thread that ends the operation
        time.sleep(0.001)
    assert called == [1] * has_hooks, called
    dist.barrier()


def case_work():
    """What a Work returns besides its result."""
    tensors = [torch.ones(4), torch.ones(4)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    for work in works:
        work.wait()
        assert work.is_completed() and work.is_success()
        assert not hasattr(dist, "gather_single") or work.exception() is None
        assert 0 <= work._get_duration() < 1e6
    assert torch.equal(works[0].result()[0], tensors[0])
    if dist.get_debug_level() != dist.DebugLevel.DETAIL and hasattr(works[0],
                                                                    "_get_sequence_number"):
        first, second = (work._get_sequence_number() for work in works)
        assert second == first + 1, (first, second)
        assert not hasattr(works[0], "timeout") or works[0].timeout.total_seconds() == 120
    sending = dist.isend(torch.ones(1), (RANK + 1) % SIZE, tag=4)
    work = dist.group.WORLD.recv_anysource([torch.empty(1)], 4)
    work.wait()
    assert work._source_rank() == (RANK - 1) % SIZE
    sending.wait()
    dist.barrier()


def case_profiler():
    """Each operation is one event, with the shapes of its tensors."""
    if dist.get_debug_level() == dist.DebugLevel.DETAIL:        # adds operations of its own
        return
    to, source = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                record_shapes=True) as profile:
        for receive in (lambda t: dist.recv(t, source), dist.recv):
            work = dist.isend(torch.ones(3, 2), to)
            receive(torch.empty(3, 2))
            work.wait()
            dist.barrier()      # a second message must not overtake the first receive
        dist.all_reduce(torch.ones(5))
    events = sorted((e.name, e.input_shapes) for e in profile.events()
                    if e.name.startswith("tutti:") and e.name != "tutti:barrier")
    assert events == [("tutti:all_reduce", [[5]]), ("tutti:recv", [[3, 2]]),
                      ("tutti:recvAnySource", [[3, 2]]),
                      ("tutti:send", [[3, 2]]), ("tutti:send", [[3, 2]])], events


def main():
    torch_cases.init()
    torch_cases.run(globals())


if __name__ == "__main__":
    main()
