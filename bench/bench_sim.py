"""The simulator: its cost at 131,072 and 4,096 ranks and the growth of the cost, and its difference
from closed forms on a uniform network.

Each case is one separate run of `tutti sim`: wall time, CPU time, peak memory of the process, and
events per CPU second (so that other programs on the machine have no effect). Closed forms are
computed here from the simulator's parameters; the row is the difference of the simulated time."""

import json
import math
import os
import resource
import subprocess

from lib import build, say

SUMMARY = "the simulator's cost at 131,072 ranks, and its accuracy against closed forms"

LARGE, SMALL = 131072, 4096
TOPO = "four-buildings"
WALL_S, MEMORY_GIB, DISTANCE = 60, 8, 0.1

# Collective, algorithm, ranks, size.
SCALE = [
    ("barrier", "dissemination", LARGE, []),
    ("broadcast", "binomial", LARGE, ["--bytes", "1M"]),
    *((coll, algo, LARGE, size) for coll, algos in (("allgather", ("doubling", "pat")),
                                                    ("reduce_scatter", ("halving", "pat")))
      for algo in algos for size in (["--bytes", "1M"], ["--block", "64"])),
    *((coll, algo, SMALL, size) for coll in ("allgather", "reduce_scatter")
      for algo in ("ring", "parallel_rings")
      for size in (["--bytes", "1M"], ["--block", "64"])),
    # with LARGE, above: growth of the cost
    *(("allgather", "doubling", ranks, ["--block", "64"]) for ranks in (1024, 4096, 16384, 65536)),
]
QUANTITIES = ("wall time", "processor time", "memory", "events")

# The uniform network of the closed forms: the built-in description, in nanoseconds and bytes per
# nanosecond.
LATENCY, RATE, SEND, RECEIVE = 1000.0, 12.5, 300.0, 200.0


def message(nbytes):
    """The time of one message, from the start of the send until the receiver has processed it."""
    return SEND + nbytes / RATE + LATENCY + RECEIVE


def ring(ranks, block):
    credit = max(SEND, 64 / RATE)
    return (ranks - 1) * message(block) + (ranks - 2) // 8 * credit + (0 if (ranks - 1) % 8 else SEND)


def doubling(ranks, block):
    return sum(message(block << i) for i in range(int(math.log2(ranks))))


def tree(ranks, nbytes):
    return math.log2(ranks) * message(nbytes)


def chain(ranks, nbytes, segment=65536):
    return message(64) + (ranks - 1) * message(segment) + (nbytes / segment - 1) * segment / RATE


# Collective, algorithm, ranks, arguments, the formula's value.
FORMS = [
    ("allgather", "ring", 64, ["--block", "1024"], lambda: ring(64, 1024)),
    ("allgather", "ring", 1000, ["--block", "64"], lambda: ring(1000, 64)),
    ("allgather", "doubling", 64, ["--block", "512"], lambda: doubling(64, 512)),
    ("allgather", "doubling", 1024, ["--block", "32"], lambda: doubling(1024, 32)),
    ("broadcast", "binomial", 64, ["--bytes", "4K"], lambda: tree(64, 4096)),
    ("broadcast", "binomial", LARGE, ["--bytes", "64"], lambda: tree(LARGE, 64)),
    ("broadcast", "chain", 64, ["--bytes", "16M", "--segment", "64K"], lambda: chain(64, 16 << 20)),
    ("barrier", "dissemination", LARGE, [], lambda: tree(LARGE, 1)),
]


def name_of(coll, algo, ranks, size):
    what = {"--bytes": "in all", "--block": "a block"}
    return f"{coll} {algo}, {ranks:,} ranks" + (f", {size[1]} {what[size[0]]}" if size else "")


def add_options(parser):
    parser.add_argument("--tutti", metavar="PATH",
                        help="the tutti to run (default build/release/tutti)")
    parser.add_argument("--runs", type=int, default=1,
                        help="runs of each case; the slowest counts (default 1)")


def processor_s():
    """CPU time of all child processes so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def simulate(program, coll, algo, ranks, topo, arguments):
    """Returns one result of `tutti sim --json`, or the reason why there is none."""
    command = [program, "sim", coll, "--ranks", str(ranks), "--topo", topo, "--algo", algo,
               "--json", "--quiet", *arguments]
    before = processor_s()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {**json.loads(done.stdout), "processor_s": processor_s() - before}, None


def row(what, value, reach, unit, better, against, samples):
    return {"what": what, "value": value, "reach": reach, "unit": unit, "better": better,
            "against": against, "samples": samples}


def scale_rows(program, options, case):
    coll, algo, ranks, size = case
    name = name_of(coll, algo, ranks, size)
    say.progress(name)
    results = []
    for _ in range(options.runs):
        result, why = simulate(program, coll, algo, ranks, TOPO, size)
        if why:
            yield {"what": f"{name}: wall time", "skipped": why}
            return
        results.append(result)
    walls = [r["wall_s"] for r in results]
    memory = [r["memory_bytes"] / (1 << 30) for r in results]
    processor = [r["processor_s"] for r in results]
    rates = [r["events"] / r["processor_s"] / 1e6 for r in results]
    yield row(f"{name}: wall time", max(walls), WALL_S, "s", "lower", "one process, one thread",
              walls)
    yield row(f"{name}: processor time", max(processor), None, "s", "lower",
              "starting and ending included", processor)
    yield row(f"{name}: memory", max(memory), MEMORY_GIB, "GiB", "lower", "peak resident set",
              memory)
    yield row(f"{name}: events", min(rates), None, "million/s", "higher",
              f"{results[0]['events']:,} events", rates)


def form_row(program, form):
    coll, algo, ranks, arguments, formula = form
    name = f"{name_of(coll, algo, ranks, arguments[:2])}: distance from its closed form"
    result, why = simulate(program, coll, algo, ranks, "uniform",
                           ["--send-ns", str(SEND), "--receive-ns", str(RECEIVE),
                            "--copy-gbs", "1e9", *arguments])
    if why:
        return {"what": name, "skipped": why}
    simulated, expected = result["time_us"], formula() / 1000
    return row(name, round(abs(simulated / expected - 1) * 100, 6), DISTANCE, "%", "lower",
               "closed form",
               {"simulated_us": simulated, "formula_us": expected})


def listing(options):
    for case in SCALE:
        for what in QUANTITIES:
            yield f"{name_of(*case)}: {what}"
    for form in FORMS:
        yield f"{name_of(*form[:3], form[3][:2])}: distance from its closed form"


def run(options):
    program = str(build.tutti(options.tutti))
    if not os.access(program, os.X_OK):
        raise say.Problem(f"{program} cannot be run: build it first (cmake --build --preset "
                          f"release)")
    for form in FORMS:
        name = f"{name_of(*form[:3], form[3][:2])}: distance from its closed form"
        if not options.only or options.only.search(name):
            yield form_row(program, form)
    for case in SCALE:
        if not options.only or options.only.search(name_of(*case)):
            yield from scale_rows(program, options, case)
