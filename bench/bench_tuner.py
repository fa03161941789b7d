"""The quality of the library's selection: the selected algorithm compared with all others that
support the call, forced by name.

For every case (collective, size, transport, number of ranks) the algorithms run in turn in one job,
round by round, each round starting with another one. The time of an algorithm in a round is the
median of its iterations (bench/README.md). The value of a row is the median over rounds of the
selected algorithm's time divided by that of the algorithm with the lowest median: 1 if the best was
selected. The selected algorithm runs forced like the others, with the same segments as when
selected, so that only the selection is compared. Names with identical programs on all ranks (flat
and 8-nomial trees of eight ranks) count as one algorithm: their times differ only by noise. The
last two rows of each transport and number of ranks, and of all, are the geometric mean and the
maximum."""

import json
import math
import re
import statistics
import subprocess
import time
from dataclasses import dataclass, field

from lib import build, rounds, say
from lib.contestants import Stable, Tutti
from lib.group import GroupError, Refused
from lib.rounds import Case

SUMMARY = ("the selected algorithm against the best one, over collectives, sizes, transports "
           "and ranks")

COLLS = ("allreduce", "reduce", "reduce_scatter", "allgather", "broadcast", "gather", "scatter",
         "alltoall")
SIZES = tuple(8 ** i for i in range(1, 8)) + (16 << 20,)        # 8 B to 2 MiB by 8, and 16 MiB
MEAN, WORST = 1.10, 1.5
# algorithms slower than the best by this factor in the heat are not measured in the rounds, unless
# selected
HOPELESS = 3
HEAT_US = 3e3


@dataclass
class Entry:
    """One algorithm in one case."""
    algo: str
    iteration_us: float = 0
    estimate_us: float = 0
    turns_us: list = field(default_factory=list)

    @property
    def median_us(self):
        return statistics.median(self.turns_us)


def name_of(case):
    return f"{case.coll} {case.wire} {say.size(case.bytes)}, {case.ranks} ranks"


def add_options(parser):
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds per case (default 10)")
    parser.add_argument("--quick", action="store_true", help="4 rounds of shorter measurements")
    parser.add_argument("--turn-ms", type=float, metavar="MS",
                        help="duration of one measurement (default 50, quick 12)")
    parser.add_argument("--ranks", default="2,4,8", metavar="LIST",
                        help="numbers of ranks (default 2,4,8)")
    parser.add_argument("--wires", default="shm,tcp", metavar="LIST",
                        help="transports (default shm,tcp)")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")


def selected(options):
    try:
        ranks = [int(n) for n in options.ranks.split(",")]
    except ValueError:
        raise say.Problem(f"--ranks {options.ranks}: it must be numbers, like 2,4,8") from None
    wires = options.wires.split(",")
    if not set(wires) <= {"shm", "tcp"}:
        raise say.Problem(f"--wires {options.wires}: there are shm and tcp")
    cases = [Case(coll, nbytes, wire, n) for wire in wires for n in ranks for coll in COLLS
             for nbytes in SIZES]
    return [case for case in cases if re.search(options.only, name_of(case))]


def listing(options):
    for case in selected(options):
        yield f"{name_of(case)}: chosen over best  reach {WORST}"


def algorithms(tutti):
    """{collective: names of its algorithms}, as listed by the library."""
    done = subprocess.run([tutti, "info", "--algos", "--json"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise say.Problem(f"{tutti} info --algos fails: {done.stderr.strip()}")
    out = {}
    for algo in json.loads(done.stdout):
        out.setdefault(algo["coll"], []).append(algo["name"].removeprefix(algo["coll"] + "_"))
    return out


def programs(tutti, case, name):
    """The programs of all ranks as text; None if the algorithm does not support the call."""
    done = subprocess.run([tutti, "plan", "show", case.coll, name, "--ranks", str(case.ranks),
                           "--bytes", str(case.bytes), "--json",
                           "--name", f"{case.coll}_any"], capture_output=True, text=True,
                          check=False)
    return None if done.returncode else done.stdout


def distinct(tutti, case, names, chosen):
    """One name per distinct program; the selected name where possible."""
    seen = {}
    for name in sorted(names, key=lambda name: name != chosen):
        seen.setdefault(programs(tutti, case, name) or name, name)
    return [name for name in names if name in seen.values()]


def command(stable, case, algo, iters, warmup=0):
    coll = f"{case.coll}/{algo}" if algo else case.coll
    return stable.group("tutti", case, "").command(coll, case.bytes, iters, warmup, 0, "malloc")


def heat(stable, case, entry):
    """Runs once with a check, then enough iterations to estimate the time of an iteration with its
    barrier."""
    start = time.monotonic()
    reply = command(stable, case, entry.algo, 1, 1)
    entry.estimate_us, entry.iteration_us = reply["samples_us"][0], (time.monotonic() - start) * 1e6
    for iters in (5, 50):
        if iters * entry.estimate_us > HEAT_US * 10:
            return
        start = time.monotonic()
        reply = command(stable, case, entry.algo, iters)
        entry.iteration_us = (time.monotonic() - start) * 1e6 / iters
        entry.estimate_us = statistics.median(reply["samples_us"])
        if iters * entry.iteration_us > HEAT_US:
            return


def turn(stable, case, entry, turn_us):
    iters = int(min(rounds.ITERS_MAX, max(3, turn_us / max(entry.iteration_us, 0.1))))
    reply = command(stable, case, entry.algo, iters, max(1, iters // 10))
    entry.turns_us.append(statistics.median(reply["samples_us"]))


def measure(tutti, stable, case, names, nrounds, turn_us):
    """Returns (the selected name, entries with their times per round, times of the heat)."""
    chosen = command(stable, case, "", 1, 1)["algo"]
    entries = []
    for name in distinct(tutti, case, names, chosen):
        entry = Entry(name)
        try:
            heat(stable, case, entry)
        except Refused:         # the call is not supported
            continue
        entries.append(entry)
    heats = {entry.algo: entry.estimate_us for entry in entries}
    fastest = min(heats.values())
    entries = [e for e in entries if e.algo == chosen or e.estimate_us <= HOPELESS * fastest]
    for i in range(nrounds):
        at = i % len(entries)
        for entry in entries[at:] + entries[:at]:
            turn(stable, case, entry, turn_us)
    return chosen, entries, heats


def row_of(case, chosen, entries, heats):
    best = min(entries, key=lambda e: e.median_us)
    mine = next(e for e in entries if e.algo == chosen)
    ratios = [m / b for m, b in zip(mine.turns_us, best.turns_us)]
    return {"what": f"{name_of(case)}: chosen over best", "collective": case.coll,
            "bytes": case.bytes, "wire": case.wire,
            "ranks": case.ranks, "value": round(statistics.median(ratios), 3), "reach": WORST,
            "unit": "x", "better": "lower",
            "against": best.algo, "chosen": chosen, "best": best.algo,
            "spread": [round(min(ratios), 3), round(max(ratios), 3)],
            "heat_us": heats, "samples": {e.algo: e.turns_us for e in entries}}


def summary_rows(name, rows):
    values = [row["value"] for row in rows if "value" in row]
    if not values:
        return
    worst = max((row for row in rows if "value" in row), key=lambda row: row["value"])
    yield {"what": f"{name}: geometric mean of {len(values)} choices",
           "value": round(math.exp(statistics.fmean(map(math.log, values))), 3),
           "reach": MEAN, "unit": "x", "better": "lower", "against": "the best algorithm of each",
           "samples": values}
    yield {"what": f"{name}: worst choice", "value": worst["value"], "reach": WORST, "unit": "x",
           "better": "lower",
           "against": f"{worst['what'].split(':')[0]}: {worst['chosen']} instead of {worst['best']}", "samples": values}


def run(options):
    nrounds = options.rounds or (4 if options.quick else 10)
    turn_us = (options.turn_ms or (12 if options.quick else 50)) * 1e3
    tutti = build.tutti(options.tutti)
    names = algorithms(tutti)
    cases = selected(options)
    rows, part = [], []
    with Stable({"tutti": Tutti(options.tutti)}) as stable:
        for i, case in enumerate(cases):
            say.progress(f"[{i + 1}/{len(cases)}] {name_of(case)}")
            try:
                row = row_of(case, *measure(tutti, stable, case, names[case.coll], nrounds,
                                            turn_us))
            except (GroupError, say.Problem, Refused) as why:
                stable.drop("tutti", case, "", str(why))
                row = {"what": f"{name_of(case)}: chosen over best", "skipped": str(why)}
            part.append(row)
            yield row
            if i + 1 == len(cases) or (cases[i + 1].wire,
                                       cases[i + 1].ranks) != (case.wire, case.ranks):
                yield from summary_rows(f"{case.wire}, {case.ranks} ranks", part)
                rows, part = rows + part, []
    yield from summary_rows("all", rows)
