"""The backend "tutti" of PyTorch beside Gloo of the same PyTorch: calls, training steps, and
process groups.

Both groups of a case exist at the same time, and are measured alternately; a row's value is the
median over rounds of Gloo's time over Tutti's. A call is timed in a loop, as programs call it, on
the slowest rank. "Time exposed to communication" is what a step (forward and backward) takes longer
than the step before it, of the same ranks, that does not communicate (a hook of DDP; FSDP2 over
PyTorch's backend "fake"). What the torch layer costs is the time of a call, less that of "fake" in
as many processes, less that of the C call. Needs scripts/install-torch.sh. """

import contextlib
import json
import math
import os
import random
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lib import build, machine, say, shaped
from lib.torch_group import Group

SUMMARY = "the torch.distributed backend side by side with Gloo"

KIB, MIB = 1 << 10, 1 << 20
PYTHON = Path(__file__).resolve().parent.parent / "build" / "torch" / "bin" / "python"
TURN_US = 150e3
ITERS_MIN, ITERS_MAX = 5, 5000
TCP = {"TUTTI_WIRES": "tcp"}
MBIT, WAN_STEPS, WAN_PORT = 200, 20, 18991
GROUPS = 200
# All blocks of malloc are in [heap], also those of Python, which separates them from mappings.
# also without PyTorch's flight recorder: its entries belong to calls, and not to groups
LIVE_HEAP = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "PYTHONMALLOC": "malloc",
             "TORCH_FR_BUFFER_SIZE": "0"}
STEPS = 8           # pairs of steps in a round of training


@dataclass(frozen=True)
class Call:
    """Rows of one call; reach None: only the geometric mean has one."""
    name: str
    bytes: int
    ranks: int
    wire: str
    reach: float | None

    @property
    def what(self):
        return (f"{self.name} {say.size(self.bytes)}, {self.ranks} ranks"
                + (", TCP" if self.wire == "tcp" else ""))


@dataclass(frozen=True)
class Set:
    """Calls whose geometric mean is a row, too."""
    calls: tuple
    mean: str | None = None
    reach: float | None = None


def sets():
    plain = [(8, 40), (KIB, 40), (64 * KIB, 40), (MIB, 10), (16 * MIB, 4), (128 * MIB, 3)]
    tcp = [(8, 15), (KIB, 15), (MIB, 3), (128 * MIB, 1.3)]
    yield Set(tuple(Call("all_reduce", n, 2, "any", reach) for n, reach in plain))
    yield Set(tuple(Call("all_reduce", n, 2, "tcp", reach) for n, reach in tcp))
    yield Set(tuple(Call("all_reduce", n, 4, "any", None) for n in (8, KIB, 64 * KIB, MIB)),
              "all_reduce 8 B to 1 MiB, 4 ranks: geometric mean", 10)
    sizes = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB)
    yield Set(tuple(Call(name, n, 2, "any", 1) for name in ("all_gather_single",
                                                            "reduce_scatter_single",
                                                            "all_to_all_single") for n in sizes),
              "all_gather_single, reduce_scatter_single, all_to_all_single, 4 KiB to 64 MiB: "
              "geometric mean", 3)


# with one rank, no rank waits for another one, whose calls of Python take a varying time
LAYER = {n: f"the torch layer of all_reduce 8 B, {n} rank{'s'[:n > 1]}: beyond fake and the C call"
         for n in (1, 2)}
TRAIN = {(kind, n): f"{kind.upper()} step, {n} ranks: time exposed to communication"
         for kind in ("ddp", "fsdp2") for n in (2, 4)}
TRAIN_REACH = {"ddp": 3, "fsdp2": 2}
WAN = {"step": f"DDP step over {MBIT} Mbit/s, 8 bits",
       "loss": f"DDP over {MBIT} Mbit/s, 8 bits: difference of the loss after {WAN_STEPS} steps"}
BOUNDS = {(8, "any"): "bound of all_reduce 8 B, 2 ranks", (8, "tcp"): "bound of all_reduce 8 B, "
          "2 ranks, TCP", (128 * MIB, "any"): "bound of all_reduce 128 MiB, 2 ranks"}
GROUPS_BOUND = "bound of the memory of groups, 4 ranks"
NEW_GROUPS = {"time": f"{GROUPS} calls of new_group, 4 ranks",
              "memory": f"{GROUPS} calls of new_group, 4 ranks: memory"}


def add_options(parser):
    parser.add_argument("--python", metavar="PATH", default=str(PYTHON),
                        help="interpreter that has PyTorch and tutti (default "
                             "build/torch/bin/python)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each case (default 7)")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")
    parser.add_argument("--bounds", action="store_true",
                        help="measure what a backend that does nothing would reach, in place of "
                             "the other rows")


def names(options):
    """(what, reach) of all rows, in their order."""
    if options.bounds:
        yield from ((what, None) for what in (*BOUNDS.values(), GROUPS_BOUND))
        return
    for some in sets():
        yield from ((call.what, call.reach) for call in some.calls)
        if some.mean:
            yield some.mean, some.reach
    yield from ((what, 2) for what in LAYER.values())
    yield from ((what, TRAIN_REACH[kind]) for (kind, _), what in TRAIN.items())
    yield from ((WAN["step"], 3), (WAN["loss"], 1), (NEW_GROUPS["time"], 5),
                (NEW_GROUPS["memory"], 10))


def listing(options):
    for what, reach in names(options):
        if wanted(options, what):
            yield what + (f"  reach {reach}" if reach else "")


def wanted(options, what):
    return not options.only or options.only.search(what)


def ratio_row(what, reach, gloo, tutti, against="Gloo", unit="us"):
    turns = [g / t for g, t in zip(gloo, tutti)]
    return {"what": what, "value": round(statistics.median(turns), 3), "reach": reach, "unit": "x",
            "better": "higher", "against": against,
            "spread": [round(min(turns), 3), round(max(turns), 3)], "rounds": len(turns),
            "samples": {f"tutti {unit}": [round(t, 2) for t in tutti],
                        f"gloo {unit}": [round(g, 2) for g in gloo]}}


def turned(groups, number):
    return groups[number % len(groups):] + groups[:number % len(groups)]


class Pair:
    """The groups of both backends."""

    def __init__(self, options, nranks, environment=None):
        self.options, self.stack = options, contextlib.ExitStack()
        self.nranks, self.environment = nranks, environment

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.groups = [stack.enter_context(Group(self.options.python, name, self.nranks,
                                                     self.environment if name == "tutti" else None))
                           for name in ("tutti", "gloo")]
            machine.remember("torch", self.groups[0].version)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        self.stack.__exit__(*error)

    def measure(self, rounds, turn, start=lambda group: None):
        """{name: [a number of each round]} of turn(group, start's result)."""
        begun = {group.name: start(group) for group in self.groups}
        out = {group.name: [] for group in self.groups}
        for number in range(rounds):
            for group in turned(self.groups, number):
                out[group.name].append(turn(group, begun[group.name]))
        return out


def iters_of(group, call):
    """The number of calls that fill the time of one measurement."""
    us = statistics.median(group.samples_us(do="collective", call=call.name, bytes=call.bytes,
                                            iters=ITERS_MIN))
    if us * 200 < TURN_US:
        us = statistics.median(group.samples_us(do="collective", call=call.name, bytes=call.bytes,
                                                iters=200))
    return int(min(ITERS_MAX, max(ITERS_MIN, TURN_US / us)))


def call_turn(group, call, iters):
    return statistics.median(group.samples_us(do="collective", call=call.name, bytes=call.bytes,
                                              iters=iters))


def calls(options, some):
    """The rows of a set."""
    chosen = [call for call in some.calls if wanted(options, call.what)
              or (some.mean and wanted(options, some.mean))]
    if not chosen:
        return
    values = []
    with Pair(options, chosen[0].ranks, TCP if chosen[0].wire == "tcp" else None) as pair:
        for call in chosen:
            us = pair.measure(options.rounds, lambda group, iters,
                              call=call: call_turn(group, call, iters),
                              lambda group, call=call: iters_of(group, call))
            for group in pair.groups:
                group.command(do="forget")
            row = ratio_row(call.what, call.reach, us["gloo"], us["tutti"])
            values.append(row["value"])
            yield row
    if some.mean and len(chosen) == len(some.calls):
        yield {"what": some.mean, "value": round(math.exp(statistics.fmean(map(math.log, values))),
                                                 3), "reach": some.reach, "unit": "x",
               "better": "higher", "against": "Gloo", "samples": {}}


def c_call_us(options, nbytes=8, environment=None, nranks=2):
    """The C call, in place, as the torch layer makes it."""
    argv = [str(build.tutti(options.tutti)), "perf", "allreduce", "-n", str(nranks), "--json",
            "--in-place", "--min", str(nbytes), "--max", str(nbytes)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, check=False, env={**os.environ, **(environment or {})})
    if done.returncode:
        raise say.Problem(f"tutti perf failed: {done.stderr.strip()[-300:]}")
    return next(row["time_us"] for row in map(json.loads, done.stdout.splitlines())
                if "coll" in row)


def layer(options, nranks):
    call = Call("all_reduce", 8, nranks, "any", None)
    quiet = {"TORCH_FR_BUFFER_SIZE": "0"}       # fake has no flight recorder either
    with Group(options.python, "fake", nranks) as fake, Group(options.python, "tutti", nranks,
                                                              quiet) as tutti:
        turns = {"tutti us": [], "fake us": [], "C us": []}
        for number in range(options.rounds):
            for group in turned([fake, tutti], number):
                turns[f"{group.name} us"].append(call_turn(group, call, ITERS_MAX))
            turns["C us"].append(c_call_us(options, nranks=nranks))
    beyond = [t - f - c for t, f, c in zip(*turns.values())]
    return {"what": LAYER[nranks], "value": round(statistics.median(beyond), 3), "reach": 2,
            "unit": "us", "better": "lower", "against": "fake and the C call",
            "spread": [round(min(beyond), 3), round(max(beyond), 3)], "rounds": len(beyond),
            "samples": turns}


def call_bound(options, gloo, fake, nbytes, wire):
    """Gloo's time over that of PyTorch alone and the C call."""
    call = Call("all_reduce", nbytes, 2, wire, None)
    iters = {group: iters_of(group, call) for group in (gloo, fake)}
    turns = {"gloo us": [], "fake us": [], "C us": []}
    for number in range(options.rounds):
        for group in turned([gloo, fake], number):
            turns[f"{group.name} us"].append(call_turn(group, call, iters[group]))
        turns["C us"].append(c_call_us(options, nbytes, TCP if wire == "tcp" else None))
    ratios = [g / (f + c) for g, f, c in zip(*turns.values())]
    return {"what": BOUNDS[nbytes, wire], "value": round(statistics.median(ratios), 3),
            "reach": None, "unit": "x", "better": "higher", "against": "Gloo",
            "spread": [round(min(ratios), 3), round(max(ratios), 3)], "rounds": len(ratios),
            "samples": turns}


def groups_bytes(options, name):
    """Memory in use by the groups of all ranks."""
    with Group(options.python, name, 4, LIVE_HEAP) as group:
        return sum(answer["bytes"] for answer in group.command(do="memory", count=GROUPS))


def bounds(options):
    chosen = [key for key, what in BOUNDS.items() if wanted(options, what)]
    if chosen:
        with Group(options.python, "gloo", 2) as gloo, Group(options.python, "fake", 2) as fake:
            for nbytes, wire in chosen:
                yield call_bound(options, gloo, fake, nbytes, wire)
    if wanted(options, GROUPS_BOUND):
        nbytes = {name: groups_bytes(options, name) for name in ("gloo", "fake", "tutti")}
        yield {"what": GROUPS_BOUND, "value": round(nbytes["gloo"] / nbytes["fake"], 3),
               "reach": None, "unit": "x", "better": "higher", "against": "Gloo",
               "samples": {f"{name} bytes": [n] for name, n in nbytes.items()}}


def exposed_us(group, kind, steps):
    """How much longer a step takes than the one without communication before it."""
    out = []
    for _ in range(steps):
        without, = group.samples_us(do="train", kind=kind, steps=1, communicates=False)
        step, = group.samples_us(do="train", kind=kind, steps=1)
        out.append(step - without)
    return out


def exposed_row(what, reach, us):
    """The ratio of the medians of all differences. The spread is that of 90 % of 1,000 resamplings:
    single differences are about as large as the noise of a step."""
    gloo, tutti = (sum(us[name], []) for name in ("gloo", "tutti"))
    medians = statistics.median(gloo), statistics.median(tutti)
    if min(medians) <= 0:
        return {"what": what, "skipped": "the exposed time is smaller than the noise of a step"}
    draw = random.Random(0)
    drawn = [[statistics.median(draw.choices(some, k=len(some))) for some in (gloo, tutti)]
             for _ in range(1000)]
    ratios = sorted(g / max(t, abs(g) / 1000) if g else 0.0 for g, t in drawn)      # at most 1000
    return {"what": what, "value": round(medians[0] / medians[1], 3), "reach": reach, "unit": "x",
            "better": "higher", "against": "Gloo",
            "spread": [round(ratios[50], 3), round(ratios[949], 3)], "rounds": len(us["gloo"]),
            "samples": {"tutti us": [round(t, 1) for t in tutti],
                        "gloo us": [round(g, 1) for g in gloo]}}


def training(options):
    for nranks in (2, 4):
        kinds = [kind for kind, n in TRAIN if n == nranks and wanted(options, TRAIN[kind, n])]
        if not kinds:
            continue
        with Pair(options, nranks) as pair:
            for kind in kinds:
                us = pair.measure(options.rounds, lambda group, _,
                                  kind=kind: exposed_us(group, kind, STEPS))
                yield exposed_row(TRAIN[kind, nranks], TRAIN_REACH[kind], us)


def wan(options):
    chosen = [what for what in WAN.values() if wanted(options, what)]
    why = shaped.why_not()
    if chosen and why:
        yield from ({"what": what, "skipped": why} for what in chosen)
    if not chosen or why:
        return
    with shaped.Testbed(2, 1, MBIT) as bed, contextlib.ExitStack() as stack:
        environment = {"GLOO_SOCKET_IFNAME": "eth0", "TUTTI_INTERFACES": "eth"}
        groups = [stack.enter_context(Group(options.python, name, 2, environment, bed.inside,
                                            f"tcp://{bed.address(0)}:{WAN_PORT + i}",
                                            "minmax8" if name == "tutti" else None))
                  for i, name in enumerate(("tutti", "gloo"))]
        us, loss = {"tutti": [], "gloo": []}, {}
        for number in range(WAN_STEPS):
            for group in turned(groups, number):
                answers = group.command(do="train", kind="ddp", steps=1)
                us[group.name].append(max(answer["us"][0] for answer in answers))
                loss[group.name] = statistics.fmean(answer["loss"][0] for answer in answers)
    if WAN["step"] in chosen:
        yield ratio_row(WAN["step"], 3, us["gloo"], us["tutti"])
    if WAN["loss"] in chosen:
        yield {"what": WAN["loss"], "value": round(100 * abs(loss["tutti"] / loss["gloo"] - 1), 3),
               "reach": 1, "unit": "%", "better": "lower",
               "against": "Gloo, f32", "samples": loss}


def new_groups(options):
    chosen = [key for key, what in NEW_GROUPS.items() if wanted(options, what)]
    if not chosen:
        return
    turns = {key: {"tutti": [], "gloo": []} for key in chosen}
    for number in range(min(3, options.rounds)):
        for name in turned(["tutti", "gloo"], number):
            if "time" in chosen:
                with Group(options.python, name, 4) as group:
                    turns["time"][name] += [max(group.samples_us(do="groups", count=GROUPS))]
            if "memory" in chosen:
                turns["memory"][name].append(groups_bytes(options, name))
    for key in chosen:
        yield ratio_row(NEW_GROUPS[key], {"time": 5, "memory": 10}[key], turns[key]["gloo"],
                        turns[key]["tutti"], unit={"time": "us", "memory": "bytes"}[key])


def run(options):
    if options.rounds < 1:
        raise say.Problem(f"--rounds {options.rounds}: at least one is needed")
    if not os.access(options.python, os.X_OK):
        for what, _ in names(options):
            if wanted(options, what):
                yield {"what": what,
                       "skipped": f"no {options.python}: run scripts/install-torch.sh"}
        return
    if options.bounds:
        yield from bounds(options)
        return
    for some in sets():
        yield from calls(options, some)
    yield from (layer(options, n) for n, what in LAYER.items() if wanted(options, what))
    yield from training(options)
    yield from wan(options)
    yield from new_groups(options)
