"""The cost of library calls in GPU kernels: a put with signal through the proxy in all its modes,
and the hash of shared state.

Two ranks in one process, whose kernels run concurrently on one GPU (bench/gpu.cu, compiled by nvcc;
windows are pinned memory). The round trip of a put is compared with two lower bounds: a word passed
between two kernels without a processor, and a word passed between a kernel and a thread. The hash
is compared with a copy in GPU memory, which reads as much and also writes it. Microseconds, and
their ratios."""

import json
import os
import statistics
import subprocess

from lib import build, say

SUMMARY = "put_signal from a GPU's kernels, and the hash of shared state there (a GPU and nvcc)"

WIRES = ("shm", "tcp")
LIMIT_S = 300
SKIPPED = 77
SIZES = (0, 8, 1024, 16384, 131072, 1048576)
BURSTS = ((256, 64), (16384, 64), (1048576, 16))
MODES = ("full", "coupled", "decoupled", "ordered")
REASON = "there is no GPU here"


def add_options(parser):
    parser.add_argument("--tutti", metavar="FOLDER",
                        help="directory of libtutti.so (default build/release)")
    parser.add_argument("--program", metavar="PATH",
                        help="bench/gpu.cu, compiled (default: compile it)")


def between_kernels(wires):
    return f"a word between two kernels ({wires} beside it)"


def bounce(wires):
    return f"round trip of a word between a kernel and a thread ({wires} beside it)"


def trip(wires, size):
    return f"half a round trip of put_signal, {wires}, {size} B"


def burst(wires, size, tiles, mode):
    return f"{tiles} tiles of {size} B by 8 blocks, {wires}, {mode}"


def hash_of(wires):
    return f"hash of 1 GiB, times a copy's time ({wires} beside it)"


def names(wires):
    yield between_kernels(wires)
    yield bounce(wires)
    yield from (trip(wires, size) for size in SIZES)
    yield from (burst(wires, size, tiles, mode) for size, tiles in BURSTS for mode in MODES)
    yield hash_of(wires)


def listing(options):
    return (name for wires in WIRES for name in names(wires) if not options.only
            or options.only.search(name))


def program(options):
    if options.program:
        return options.program
    library = options.tutti or str(build.ROOT / "build" / "release")
    target = build.OUT / "gpu"
    build.OUT.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([build.program("nvcc", "nvidia-cuda-toolkit"), "-O2", "-I",
                           build.ROOT / "include", build.BENCH / "gpu.cu", "-o", target,
                           f"-L{library}", "-ltutti",
                           "-Xlinker", f"-rpath,{library}"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise say.Problem(f"bench/gpu.cu does not compile:\n{done.stderr[:2000]}")
    return str(target)


def measure(path, wires):
    """Returns {(what, mode, bytes): [us]}, or None without a GPU."""
    done = subprocess.run([path, wires], capture_output=True, text=True, timeout=LIMIT_S,
                          check=False, env=dict(os.environ))
    if done.returncode == SKIPPED:
        return None
    if done.returncode:
        raise say.Problem(f"bench/gpu.cu over {wires}: status "
                          f"{done.returncode}\n{done.stderr[-2000:]}")
    found = map(json.loads, done.stdout.splitlines())
    return {(one["what"], one["mode"], one["bytes"]): one["us"] for one in found}


def row(what, us, unit="us", against="", beside=None):
    values = [a / b for a, b in zip(us, beside)] if beside else us
    return {"what": what, "value": round(statistics.median(values), 3), "reach": None, "unit": unit,
            "better": "lower", "against": against,
            "spread": [round(min(values), 3), round(max(values), 3)], "samples": values}


def rows_of(wires, found):
    yield row(between_kernels(wires), found["flag", "", 8])
    yield row(bounce(wires), found["bounce", "", 8])
    for size in SIZES:
        yield row(trip(wires, size), found["trip", "default", size],
                  against="round trip of a word between a kernel and a thread")
    for size, tiles in BURSTS:
        for mode in MODES:
            yield row(burst(wires, size, tiles, mode), found["burst", mode, size])
    yield row(hash_of(wires), found["hash", "", 1 << 30], "x", "a copy in the GPU's memory",
              found["copy", "", 1 << 30])


def run(options):
    path = program(options)
    for wires in WIRES:
        found = measure(path, wires)
        for one in rows_of(wires, found) if found else [{"what": name, "skipped": REASON}
                                                        for name in names(wires)]:
            if not options.only or options.only.search(one["what"]):
                yield one
