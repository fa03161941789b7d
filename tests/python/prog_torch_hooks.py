"""One rank of tests of quantized all-reduces: the hook of DDP, options of calls and of groups.

    prog_torch_hooks.py INIT_FILE RANK SIZE [CASE...]       (torch_cases.py)"""

import datetime
import io
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import tutti.torch
from tutti.torch import hooks

import torch_cases
from torch_cases import RANK, SIZE

INIT = {"init_method": f"file://{sys.argv[1]}", "rank": RANK, "world_size": SIZE,
        "timeout": datetime.timedelta(seconds=120)}


def raises(kind, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert text in str(error), f"{error!r} does not contain {text!r}"
    else:
        raise AssertionError(f"no {kind.__name__}: {text!r}")


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1000 * seed + RANK))


# ---- loss ----

WIDTH, STEPS, RATE, NOISE = 239, 200, 0.05, 20


class Regression(nn.Module):
    """Linear regression beside a parameter whose gradient is large noise. It sets the range of the
    quantization, so the others are smaller than one step of 4 bits: without error feedback they
    are lost."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH))
        self.noisy = nn.Parameter(torch.zeros(1))

    def forward(self, x, noise):
        return x @ self.weight + 0 * self.noisy, (self.noisy * noise).sum()


def samples(seed, n):
    g = torch.Generator().manual_seed(seed)
    x, error, noise = (torch.randn(n, WIDTH, generator=g), torch.randn(n, generator=g),
                       torch.randn(1, generator=g))
    true = torch.randn(WIDTH, generator=torch.Generator().manual_seed(9))
    return x, x @ true + 0.5 * error, NOISE * noise


def loss_of(**options):
    """After training with the hook of these options; without any: as DDP does by itself."""
    module = Regression()
    model = DDP(module)
    if options:
        model.register_comm_hook(hooks.QuantizationState(module.named_parameters(), **options),
                                 hooks.quantize_hook)
    for step in range(STEPS):
        x, y, noise = samples(1000 * step + RANK, 32)
        model.zero_grad()
        predicted, extra = model(x, noise)
        ((predicted - y).square().mean() + extra).backward()
        with torch.no_grad():
            for p in module.parameters():
                p -= RATE * (1 - step / STEPS) * p.grad
    x, y, _ = samples(10**9, 4000)
    with torch.no_grad():
        return (x @ module.weight - y).square().mean().item()


def case_loss():
    exact, four_bits = loss_of(), loss_of(bits=4)
    for bits, loss in ((8, loss_of(bits=8)), (4, four_bits)):
        assert abs(loss / exact - 1) < 0.01, (bits, loss, exact)
    without = loss_of(bits=4, error_feedback=False)
    assert without / exact > 1.05, (without, exact)
    assert loss_of(bits=4) == four_bits, "training is not deterministic"


# ---- errors follow parameters ----

def case_errors_follow_parameters():
    """The hook gives what all_reduce gives with one array of errors for each parameter, also when
    DDP changes its buckets."""
    torch.manual_seed(5)
    module = nn.Sequential(*(nn.Linear(20, 20) for _ in range(4)))
    model = DDP(module, bucket_cap_mb=0.002)
    names = {id(p): n for n, p in module.named_parameters()}
    state = hooks.QuantizationState(module.named_parameters(), bits=4)
    mine = {n: torch.zeros(p.numel()) for n, p in module.named_parameters()}
    layouts = []

    def checked(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        parts = [names[id(p)] for p in bucket.parameters()]
        layouts.append((bucket.index(), tuple(parts)))
        want, errors = bucket.buffer().clone(), torch.cat([mine[n] for n in parts])
        tutti.torch.all_reduce(want, dist.ReduceOp.AVG, quantization="minmax4",
                               error_feedback=errors)
        for n, part in zip(parts, errors.split([mine[n].numel() for n in parts])):
            mine[n] = part
        got = hooks.quantize_hook(state, bucket).wait()
        assert torch.equal(got, want), f"bucket {bucket.index()}: {(got - want).abs().max()}"
        done = torch.futures.Future()
        done.set_result(got)
        return done

    model.register_comm_hook(state, checked)
    for step in range(4):
        model(draw(step, 8, 20)).square().mean().backward()
    assert len(set(layouts)) > len({index
                                    for index,
                                    _ in layouts}) > 1, f"DDP did not change its buckets: {layouts}"
    for name, errors in state.state_dict()["errors"].items():
        assert torch.equal(errors.flatten(), mine[name]) and errors.any(), name


def case_checkpoint():
    """A run that is restored from a checkpoint continues bit for bit."""
    def start():
        torch.manual_seed(2)
        module = nn.Linear(40, 30, bias=False)
        model = DDP(module)
        state = hooks.QuantizationState(module.named_parameters(), bits=4)
        model.register_comm_hook(state, hooks.quantize_hook)
        return module, model, state

    def step(module, model, i):
        model.zero_grad()
        model(draw(50 + i, 8, 40)).square().mean().backward()
        with torch.no_grad():
            module.weight -= 0.1 * module.weight.grad

    module, model, state = start()
    for i in range(3):
        step(module, model, i)
    file = io.BytesIO()
    torch.save({"module": module.state_dict(), "hook": state.state_dict()}, file)
    for i in range(3, 6):
        step(module, model, i)
    file.seek(0)
    saved = torch.load(file)
    losing, with_errors = start(), start()
    for (other, other_model, other_state), keeps in ((losing, False), (with_errors, True)):
        other.load_state_dict(saved["module"])
        if keeps:
            other_state.load_state_dict(saved["hook"])
        for i in range(3, 6):
            step(other, other_model, i)
        assert torch.equal(other.weight, module.weight) == keeps
    raises(ValueError, "the state is of 'minmax4', this hook of 'minmax8'",
           hooks.QuantizationState(module.named_parameters()).load_state_dict, saved["hook"])
    raises(ValueError, "'weight' has 1200 elements, here 2",
           hooks.QuantizationState(nn.Linear(1, 2).named_parameters(), bits=4).load_state_dict,
           saved["hook"])


def case_hook_types():
    """Gradients of other types, bucket views, and join() with different numbers of steps."""
    for dtype in (torch.bfloat16, torch.float64):
        module = nn.Linear(64, 64).to(dtype)
        model = DDP(module, gradient_as_bucket_view=True)
        model.register_comm_hook(hooks.QuantizationState(module.named_parameters()),
                                 hooks.quantize_hook)
        x = draw(1, 8, 64).to(dtype)
        model(x).square().mean().backward()
        exact = torch.autograd.grad(module(x).square().mean(), module.parameters())
        for p, g in zip(module.parameters(), exact):
            g = g.clone()
            dist.all_reduce(g, dist.ReduceOp.AVG)
            assert (p.grad - g).abs().max() < 0.02 * g.abs().max(), dtype
    module = nn.Linear(8, 8)
    model = DDP(module)
    model.register_comm_hook(hooks.QuantizationState(module.named_parameters()),
                             hooks.quantize_hook)
    with model.join():
        for i in range(2 + RANK):
            model(draw(i, 4, 8)).square().mean().backward()


def case_hook_bad_input():
    module = nn.Linear(3, 3)
    raises(ValueError, "bits is 5: must be 8 or 4", hooks.QuantizationState,
           module.named_parameters(), bits=5)
    raises(ValueError, "unknown quantization 'none' (known: minmax8,", hooks.QuantizationState,
           module.named_parameters(), quantization="none")
    raises(ValueError, "no parameters", hooks.QuantizationState, [])
    model = DDP(module)
    model.register_comm_hook(hooks.QuantizationState(nn.Linear(3, 3).named_parameters()),
                             hooks.quantize_hook)
    raises(Exception, "is not one of those given to QuantizationState",
           lambda: model(torch.ones(1, 3)).sum().backward())
    dist.barrier()


# ---- options ----

def case_call_options():
    x = draw(7, 5000)
    exact = x.clone()
    dist.all_reduce(exact)
    for algorithm in (None, "ring", "allreduce_doubling"):
        t = x.clone()
        tutti.torch.all_reduce(t, algorithm=algorithm)
        torch.testing.assert_close(t, exact)
    wholes, results = torch.zeros(5000), []
    errors = torch.zeros(5000)
    for _ in range(50):
        t = x.clone()
        work = tutti.torch.all_reduce(t, dist.ReduceOp.SUM, async_op=True, quantization="minmax4",
                                      error_feedback=errors,
                                      timeout=datetime.timedelta(seconds=60))
        work.wait()
        wholes += t
        results.append(t)
    # With error feedback the mean of many calls is exact; without it each call has the same error.
    assert (wholes / 50 - exact).abs().max() < (results[0] - exact).abs().max() / 10
    assert errors.any() and not torch.equal(results[0], results[1])
    for text, tensor, options in (
            ("unknown quantization \"x\" (known: none, minmax8,", x, {"quantization": "x"}),
        ("nowhere", x, {"algorithm": "nowhere"}),
            ("error_feedback without quantization", x, {"error_feedback": errors}),
            ("error_feedback is Double with 5000", x, {"quantization": "minmax8",
                                                       "error_feedback": errors.double()}),
            ("error_feedback is Float with 4999", x, {"quantization": "minmax8",
                                                      "error_feedback": errors[1:]}),
            ("", x.to(torch.int32), {"quantization": "minmax8"}),
        ("", x, {"quantization": "minmax8", "op": dist.ReduceOp.MAX})):
        raises(ValueError, text, tutti.torch.all_reduce, tensor.clone(), **options)
    dist.barrier()


def close(got, want, is_quantized):
    """Exactly, or within the error of 8 bits."""
    error = (got - want).abs().max()
    assert error <= 0.03 * want.abs().max() if is_quantized else error == 0, error


def case_options_of_every_call():
    """Algorithms and quantization of all calls that have them, as without; else ValueError."""
    x, n = draw(11, 300 * SIZE).round(decimals=1), 300
    everyone = [torch.empty_like(x) for _ in range(SIZE)]
    dist.all_gather(everyone, x)
    total = sum(everyone)
    for quantization in (None, "minmax8"):
        with_quant, lossy = {"quantization": quantization}, quantization is not None
        for algorithm in (None, "chain"):
            t = x.clone()
            tutti.torch.broadcast(t, SIZE - 1, algorithm=algorithm, **with_quant)
            close(t, everyone[-1], lossy)
            assert lossy != torch.equal(t, everyone[-1]) or RANK == SIZE - 1     # it was quantized
            t = x.clone()
            tutti.torch.reduce(t, 0, algorithm=algorithm, **with_quant)
            if RANK == 0:
                torch.testing.assert_close(t, total, rtol=0, atol=0.03 * total.abs().max().item()
                                           if lossy else 1e-5)
        for algorithm in (None, "ring", "direct"):
            parts, one = [torch.empty_like(x) for _ in range(SIZE)], torch.empty(SIZE * x.numel())
            tutti.torch.all_gather(parts, x, algorithm=algorithm, **with_quant)
            work = tutti.torch.all_gather_single(one, x, None, True, algorithm=algorithm,
                                                 **with_quant)
            work.wait()
            for r in range(SIZE):
                close(parts[r], everyone[r], lossy)
            assert torch.equal(one, torch.cat(parts))
            mine = total[n * RANK:n * (RANK + 1)]
            t, u = torch.empty(n), torch.empty(n)
            tutti.torch.reduce_scatter(t, list(x.split(n)), algorithm=algorithm, **with_quant)
            tutti.torch.reduce_scatter_single(u, x, algorithm=algorithm, **with_quant)
            torch.testing.assert_close(t, mine, rtol=0, atol=0.03 * total.abs().max().item()
                                       if lossy else 1e-5)
            assert torch.equal(t, u)
    moved = torch.cat([one[n * RANK:n * (RANK + 1)] for one in everyone])
    for algorithm, sizes in ((None, None), ("pairwise", None), ("bruck", None),
                             ("direct", [n] * SIZE)):
        t = torch.empty_like(x)
        tutti.torch.all_to_all_single(t, x, sizes, sizes, algorithm=algorithm)
        assert torch.equal(t, moved)

    moved_parts = [torch.empty(n) for _ in range(SIZE)]
    for algorithm in (None, "pairwise", "direct"):
        tutti.torch.all_to_all(moved_parts, list(x.split(n)), algorithm=algorithm)
        assert torch.equal(torch.cat(moved_parts), moved)

    # Error feedback: the mean of many calls is exact.
    errors, gathered, plain = torch.zeros(SIZE * n), torch.zeros(n), torch.empty(n)
    for _ in range(50):
        tutti.torch.reduce_scatter_single(plain, x, quantization="minmax4", error_feedback=errors)
        gathered += plain / 50
    once = torch.empty(n)
    tutti.torch.reduce_scatter_single(once, x, quantization="minmax4")
    assert (gathered - mine).abs().max() < (once - mine).abs().max() / 5


def case_options_of_gather_scatter_and_barrier():
    x, root = torch.full((50,), float(RANK)), SIZE - 1
    for algorithm in (None, "binomial", "gather_flat"):
        out = [torch.empty(50) for _ in range(SIZE)] if RANK == root else None
        tutti.torch.gather(x, out, root, algorithm=algorithm)
        assert out is None or [int(t[0]) for t in out] == list(range(SIZE))
        if hasattr(dist, "gather_single") and not is_wrapped():
            one = torch.empty(SIZE, 50) if RANK == root else None
            tutti.torch.gather_single(x, one, root, algorithm=algorithm)
            assert one is None or torch.equal(one, torch.stack(out))
    parts = [torch.full((50,), float(r)) for r in range(SIZE)] if RANK == root else None
    for algorithm in (None, "binomial", "scatter_flat"):
        mine = torch.empty(50)
        work = tutti.torch.scatter(mine, parts, root, async_op=True, algorithm=algorithm)
        work.wait()
        assert torch.equal(mine, x)
    tutti.torch.barrier(algorithm="dissemination")
    work = tutti.torch.barrier(None, True, algorithm="dissemination")
    work.wait()
    group = dist.new_group()
    dist.barrier()
    if RANK == 0 and not is_wrapped():      # with DETAIL a barrier of PyTorch's wrapper comes first
        raises(dist.DistBackendError, "Timed out waiting 50ms", tutti.torch.barrier, group,
               timeout=datetime.timedelta(milliseconds=50))


def is_wrapped():
    """Whether PyTorch's wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL is in use."""
    return dist.get_debug_level() == dist.DebugLevel.DETAIL


def case_options_that_a_call_does_not_have():
    x, out = draw(12, 8 * SIZE), torch.empty(8 * SIZE)
    quantized = {"quantization": "minmax8"}
    for text, call, arguments, options in (
            ("ALLTOALL_BASE", tutti.torch.all_to_all_single, (out, x), quantized),
            ("ALLTOALL", tutti.torch.all_to_all, (list(out.split(8)), list(x.split(8))), quantized),
            ("BARRIER", tutti.torch.barrier, (), quantized),
            ("GATHER", tutti.torch.gather, (x, [torch.empty_like(x) for _ in range(SIZE)]
                                            if RANK == 0 else None, 0), quantized),
            ("SCATTER", tutti.torch.scatter, (torch.empty(8), list(x.split(8)) if RANK == 0
                                              else None, 0), quantized),
            ("nowhere", tutti.torch.barrier, (), {"algorithm": "nowhere"}),
            ("only sum and avg", tutti.torch.reduce, (x, 0, dist.ReduceOp.MAX), quantized),
            ("", tutti.torch.broadcast, (x.to(torch.int32), 0), quantized),
            ("nowhere", tutti.torch.broadcast, (x, 0), {"algorithm": "nowhere"}),
            ("alltoall", tutti.torch.all_to_all_single, (out, x), {"algorithm": "ring"}),
            ("sparse", tutti.torch.all_reduce, (torch.eye(3).to_sparse(),), {"algorithm": "ring"}),
            ("must be contiguous float32", tutti.torch.reduce_scatter_single, (torch.empty(8), x),
             {**quantized, "error_feedback": torch.zeros(8)})):
        raises(ValueError, text, call, *arguments, **options)
    gloo = dist.new_group(backend="gloo")
    raises(ValueError, "must be 'tutti'", tutti.torch.broadcast, x, 0, group=gloo)
    dist.all_reduce(x)      # options of a failed call do not stay
    raises(TypeError, "lanes", tutti.torch.broadcast, x, 0, lanes=2)
    with dist._coalescing_manager():
        raises(ValueError, "in a batch", tutti.torch.all_reduce, x, **quantized)
        dist.all_reduce(x)
    dist.barrier()


def case_group_options():
    """A group with error feedback gives what calls with their own errors give, as long as the
    memory of a tensor lives."""
    options = tutti.torch.Options()
    options.quantization, options.error_feedback = "minmax4", True
    group = dist.new_group(pg_options=options)
    x = draw(8, 3000)
    errors, tensor = torch.zeros(3000), torch.empty(3000)
    for _ in range(4):
        want = x.clone()
        tutti.torch.all_reduce(want, quantization="minmax4", error_feedback=errors)
        dist.all_reduce(tensor.copy_(x), group=group)
        assert torch.equal(tensor, want)
    del tensor
    for _ in range(10):             # memory is reused: errors of the tensor that was there are not
        fresh, errors = x.clone(), torch.zeros(3000)
        want = x.clone()
        tutti.torch.all_reduce(want, quantization="minmax4", error_feedback=errors)
        dist.all_reduce(fresh, group=group)
        assert torch.equal(fresh, want)
        del fresh, want
    counts = torch.full((3000,), RANK)
    dist.all_reduce(counts, group=group)        # not quantized
    assert (counts == SIZE * (SIZE - 1) // 2).all()


def case_options_of_the_job():
    """They are used when the job starts: wrong values are errors there."""
    dist.destroy_process_group()
    for name, value, text in (("tune_file", "/nowhere.json", "/nowhere.json"),
                              ("wires", "pigeon", "pigeon"), ("lanes", 1000, "1000"),
                              ("interfaces", "nowhere0", "nowhere0")):
        options = tutti.torch.Options()
        options.wires = "tcp"
        setattr(options, name, value)
        alone = {**INIT, "init_method": f"{INIT['init_method']}.{name}.{RANK}", "rank": 0,
                 "world_size": 1}
        raises(dist.DistBackendError, text, dist.init_process_group, "tutti", pg_options=options,
               **alone)
    options = tutti.torch.Options()
    options.wires, options.interfaces, options.lanes = "tcp", "lo", 2
    dist.init_process_group("tutti", pg_options=options,
                            **{**INIT, "init_method": INIT["init_method"] + ".after"})
    t = torch.full((100000,), float(RANK + 1))
    dist.all_reduce(t)
    assert (t == SIZE * (SIZE + 1) / 2).all()


def main():
    torch.set_num_threads(1)
    raises(ValueError, "there is no default process group", tutti.torch.empty, 3)
    dist.init_process_group("tutti", **INIT)
    torch_cases.run(globals())


if __name__ == "__main__":
    main()
