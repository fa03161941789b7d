"""Tutti compared with Open MPI, MPICH, Intel MPI and Gloo on this machine, and ring all-reduce
compared with the rate of a shaped link.

In every case the contestants run in turn, round by round (lib/rounds.py), until the rounds
determine whether the target is reached. The value of a row is the median over rounds of the ratio
of the peer's median time to Tutti's. With several peers it is the lowest of these ratios, so Tutti
is compared with the fastest one. All use default settings.

Rows belong to classes (transport, ranks, sizes). After the rows of a class come two more: the
geometric mean of their values, and the lowest one."""

import dataclasses
import math
import re
import statistics
from dataclasses import dataclass

from lib import build, rounds, say, shaped
from lib.contestants import DEFAULT_PEERS, PEERS, Stable, Tutti
from lib.group import Group, GroupError, Refused
from lib.rounds import Case, Entry

SUMMARY = "the collectives against Open MPI, MPICH, Intel MPI and Gloo"

KIB, MIB = 1 << 10, 1 << 20
SIZES = tuple(8 ** k for k in range(1, 10))         # 8 B to 128 MiB
COLLS = ("allreduce", "reduce", "reduce_scatter", "allgather", "broadcast", "gather", "scatter",
         "alltoall")
P2P = ("pingpong", "sendrecv")
IN_PLACE = ("allreduce", "reduce", "reduce_scatter", "allgather", "gather", "scatter", "alltoall")
IN_PLACE_SIZES = (64 * KIB, 512 * KIB, 4 * MIB, 32 * MIB, 256 * MIB)
MPIS = ("openmpi", "mpich", "intel")


@dataclass(frozen=True)
class Row:
    """A comparison in a case: Tutti with one kind of memory, against the best of some contestants.
    reach: the lowest allowed value of a row of its class."""
    case: Case
    against: tuple
    reach: float | None
    memory: str = "malloc"
    their_memory: str = "malloc"

    @property
    def what(self):
        c = self.case
        size = "" if c.coll == "barrier" else f" {say.size(c.bytes)}"
        return f"{c.coll} {c.wire}{size}, {c.ranks} ranks" + \
            {"malloc": "", "in_place": ", in place",
             "mem_alloc": ", tutti_mem_alloc"}[self.memory] + \
            (" / malloc, out of place" if self.against == ("tutti",) else "")

    @property
    def against_text(self):
        names = [PEERS[key].title if key in PEERS else "Tutti with malloc, out of place"
                 for key in self.against]
        return names[0] if len(names) == 1 else "the better of " + ", ".join(names)


@dataclass(frozen=True)
class Class:
    """Rows with common targets, for their geometric mean and for the lowest; None: no target."""
    name: str
    rows: tuple
    mean: float | None = None
    lowest: float | None = None


def peer_rows(wire, ranks, sizes, lowest):
    against = (*MPIS, "gloo") if wire == "tcp" else MPIS
    for n in ranks:
        if 8 in sizes:
            yield Row(Case("barrier", 0, wire, n), against, lowest)
        for coll in COLLS + P2P:
            yield from (Row(Case(coll, nbytes, wire, n), against, lowest) for nbytes in sizes)


def classes():
    short = tuple(n for n in SIZES if n <= KIB)
    middle = tuple(n for n in SIZES if KIB < n <= 2 * MIB)
    large = tuple(n for n in SIZES if n > 2 * MIB)

    def against_peers(name, wire, ranks, sizes, mean, lowest):
        return Class(name, tuple(peer_rows(wire, ranks, sizes, lowest)), mean, lowest)

    yield against_peers("shared memory, 2 ranks, 8 B to 512 B", "shm", (2,), short, 1.35, 1.05)
    yield against_peers("shared memory, 2 ranks, 4 KiB to 2 MiB", "shm", (2,), middle, 1.4, 1.0)
    yield against_peers("shared memory, 2 ranks, from 16 MiB", "shm", (2,), large, 1.6, 1.05)
    yield against_peers("TCP, 2 ranks", "tcp", (2,), SIZES, 1.6, 1.1)
    yield against_peers("shared memory, 3, 4 and 8 ranks", "shm", (3, 4, 8), SIZES, 2.0, 1.0)
    yield against_peers("TCP, 3, 4 and 8 ranks", "tcp", (3, 4, 8), SIZES, 1.4, 0.95)
    cases = [Case(coll, nbytes, "shm", 2) for coll in IN_PLACE for nbytes in IN_PLACE_SIZES]
    yield Class("in place against out of place, 64 KiB to 256 MiB",
                tuple(Row(case, ("tutti",), 0.9, "in_place") for case in cases), 0.97, 0.9)
    yield Class("tutti_mem_alloc against malloc, from 16 MiB",
                tuple(Row(Case("allreduce", nbytes, "shm", 2), ("tutti",), 1.0, "mem_alloc")
                      for nbytes in large), None, 1.0)
    yield Class("in place, against the same of the peers",
                tuple(Row(case, MPIS, None, "in_place", "in_place") for case in cases))


ROUNDS, ROUNDS_MOST, ROUNDS_QUICK = 6, 25, 3
SHAPED_RANKS, SHAPED_MBIT, SHAPED_BYTES = 4, 400, 64 * MIB
SHAPED_WHAT = (f"allreduce ring {say.size(SHAPED_BYTES)}, {SHAPED_RANKS} namespaces, {SHAPED_MBIT} "
               f"Mbit/s links")


def add_options(parser):
    parser.add_argument("--rounds", type=int, metavar="N",
                        help=f"rounds per case (default {ROUNDS}, and up to {ROUNDS_MOST} until it "
                             f"is clear "
                             "whether a row reaches its target)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of shorter measurements")
    parser.add_argument("--contestants", metavar="LIST",
                        help="peers to run, comma-separated, of: " + ", ".join(PEERS)
                        + f" (default {','.join(DEFAULT_PEERS)})")
    parser.add_argument("--classes", metavar="REGEX", type=say.pattern, default="",
                        help="only the classes whose names match")
    parser.add_argument("--without-tutti", action="store_true", help="measure only the peers")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")


def selected(options):
    """[(class, its selected rows)], without empty classes."""
    out = [(some, [row for row in some.rows if re.search(options.only, row.what)])
           for some in classes() if re.search(options.classes, some.name)]
    return [(some, rows) for some, rows in out if rows]


def wants_shaped(options):
    return not options.classes.pattern and re.search(options.only, SHAPED_WHAT)


def listing(options):
    for some, rows in selected(options):
        yield f"{some.name}: {len(rows)} rows" + \
            (f", mean {some.mean}, lowest {some.lowest}" if some.mean else ", without targets")
        for row in rows:
            yield f"  {row.what}  against {row.against_text}"
    if wants_overlap(options):
        yield f"{OVERLAP_WHAT}  reach {OVERLAP_REACH} %"
    if wants_shaped(options):
        yield f"{SHAPED_WHAT}  against one iperf3 stream  reach 0.99"


def peers_of(options):
    names = options.contestants.split(",") if options.contestants else DEFAULT_PEERS
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise say.Problem(f"unknown contestant {unknown[0]} (must be of {', '.join(PEERS)})")
    return {name: PEERS[name] for name in names}


def against_of(row, contestants):
    """The peers of a row that take part. Those of Debian count like the wheels, if chosen."""
    if row.against == ("tutti",):
        return row.against
    debian = [name for name in contestants if name.endswith("-debian")]
    return tuple(key for key in (*row.against, *debian) if key in contestants)


def entries_of(rows, contestants):
    """All entries that the rows of one case need, without duplicates."""
    out = {}
    for row in rows:
        wanted = [Entry("tutti", memory=row.memory)] if "tutti" in contestants else []
        for key in against_of(row, contestants):
            algos = contestants[key].algos.get(row.case.coll, ("",))
            wanted += [Entry(key, algo, row.their_memory) for algo in algos]
        for entry in wanted:
            out.setdefault(entry.name, entry)
    return list(out.values())


def common(row):
    return {"what": row.what, **{k: v for k, v in dataclasses.asdict(row.case).items()},
            "memory": row.memory}


def sides_of(row, entries):
    """The two sides of a row: (Tutti's entry or None, the entries that it is compared with)."""
    ours = next((e for e in entries if e.key == "tutti" and e.memory == row.memory), None)
    against = against_of(row, {e.key for e in entries})
    return ours, [e for e in entries if e.key in against and e is not ours and e.memory
                  == row.their_memory]


def ratios_of(ours, theirs):
    return {e.name: [t / o for t, o in zip(e.turns_us, ours.turns_us)] for e in theirs}


def is_settled(row, entries):
    """Returns whether the rounds so far determine if the row reaches its target."""
    ours, theirs = sides_of(row, entries)
    if not ours or not theirs or row.reach is None:
        return True
    told = [rounds.side(ratios, row.reach) for ratios in ratios_of(ours, theirs).values()]
    return -1 in told or 0 not in told


def ratio_row(row, entries, failed):
    """Makes a row of the table from the measured times of both sides."""
    ours, theirs = sides_of(row, entries)
    base = {**common(row), "against": row.against_text}
    if not ours or not theirs:
        return {**base, "skipped": "; ".join(failed.values())
                or "none of its contestants was chosen"}
    ratios = ratios_of(ours, theirs)
    best = min(ratios, key=lambda name: statistics.median(ratios[name]))
    return {**base, "value": round(statistics.median(ratios[best]), 3), "reach": row.reach,
            "unit": "x", "better": "higher", "best": best,
            "spread": [round(min(ratios[best]), 3), round(max(ratios[best]), 3)],
            "rounds": len(ratios[best]), "settled": is_settled(row, entries),
            "time_us_loop": {e.name: e.loop_us for e in [ours, *theirs]},
            "samples": {e.name: e.turns_us for e in [ours, *theirs]},
            **({"notes": list(failed.values())} if failed else {})}


def time_rows(row, entries, failed):
    """The times of the peers in a case; for a peer's own algorithms, the fastest."""
    by_key = {}
    for entry in sorted(entries, key=lambda e: e.median_us):
        by_key.setdefault(entry.key, entry)
    for key in row.against:         # a row against Tutti has none
        entry = by_key.get(key)
        head = {**common(row), "case": row.what, "contestant": key}
        head["what"] = f"{row.what}, {PEERS[key].title}"
        if entry:
            yield {**head, "value": entry.median_us, "reach": None, "unit": "us", "better": "lower",
                   "against": None, "algo": entry.algo, "time_us_loop": entry.loop_us,
                   "samples": {entry.name: entry.turns_us}}
        else:
            whys = [why for name, why in failed.items() if name.split("/")[0] == key]
            yield {**head, "against": None, "skipped": "; ".join(whys) or "was not chosen"}


def class_rows(some, values):
    """The mean and the lowest value of the measured rows of a class."""
    part = "" if len(values) == len(some.rows) else f" ({len(values)} of {len(some.rows)} rows)"
    base = {"unit": "x", "better": "higher", "against": "the peers", "class": some.name,
            "samples": {}}
    lowest = min(values, key=values.get)
    yield {**base, "what": f"{some.name}: geometric mean{part}", "reach": some.mean,
           "value": round(math.exp(statistics.fmean(map(math.log, values.values()))), 3)}
    yield {**base, "what": f"{some.name}: lowest{part}: {lowest}", "reach": some.lowest,
           "value": values[lowest]}


def run_class(options, contestants, some, rows, head):
    nrounds = options.rounds or (ROUNDS_QUICK if options.quick else ROUNDS)
    most = 0 if options.rounds or options.quick else ROUNDS_MOST
    turn_us = 5e4 if options.quick else 1.2e5
    values = {}
    with Stable(contestants) as stable:
        for i, row in enumerate(rows):
            say.progress(f"[{head}, {i + 1}/{len(rows)}] {row.what}")
            entries, failed = rounds.measure(stable, row.case, entries_of([row], contestants),
                                             nrounds, turn_us, most,
                                             lambda found, row=row: is_settled(row, found))
            if "tutti" not in contestants:
                yield from time_rows(row, entries, failed) if row.against != ("tutti",) else ()
                continue
            out = ratio_row(row, entries, failed)
            if "value" in out:
                values[row.what] = out["value"]
            yield {**out, "class": some.name}
    if values:
        yield from class_rows(some, values)


OVERLAP_BYTES, CALIBRATION, OVERLAP_ITERS = 4 * MIB, 200_000, 20
OVERLAP_WHAT = (f"overlap of a non-blocking allreduce of {say.size(OVERLAP_BYTES)} in shared "
                f"memory with computing, 2 ranks: time hidden")
OVERLAP_REACH = 60


def turned_keys(contestants, number):
    keys = list(contestants)
    return keys[number % len(keys):] + keys[:number % len(keys)]


def hidden_percent(group, us_per_unit):
    """The share of the allreduce that a computation of the same length hides."""
    def median_us(coll):
        return statistics.median(group.command(coll, OVERLAP_BYTES, OVERLAP_ITERS, 2)["samples_us"])

    alone = median_us("overlap/0")
    work = max(1, round(alone / us_per_unit))
    both, computing = median_us(f"overlap/{work}"), median_us(f"compute/{work}")
    return 100 * (alone + computing - both) / alone


def overlap_rows(options, contestants):
    """A row for Tutti, and rows of the peers without a target."""
    case, found, failed = Case("overlap", OVERLAP_BYTES, "shm", 2), {}, {}
    with Stable(contestants) as stable:
        for number in range(options.rounds or (ROUNDS_QUICK if options.quick else ROUNDS)):
            for key in turned_keys(contestants, number):
                if key in failed or "shm" not in contestants[key].wires:
                    continue
                try:
                    group = stable.group(key, case, "")
                    reply = group.command(f"compute/{CALIBRATION}", OVERLAP_BYTES, 1)
                    found.setdefault(key, []).append(hidden_percent(group,
                                                                    reply["samples_us"][0] / CALIBRATION))
                except (GroupError, Refused, say.Problem) as why:
                    failed[key] = str(why)
                    stable.drop(key, case, "", str(why))
    for key, values in found.items():
        yield {"what": f"{OVERLAP_WHAT}, {contestants[key].title}",
               "value": round(statistics.median(values), 1), "unit": "%",
               "better": "higher", "against": "computing alone", "reach": OVERLAP_REACH
               if key == "tutti" else None,
               "spread": [round(min(values), 1), round(max(values), 1)], "rounds": len(values),
               "samples": {"%": values}}
    for key, why in failed.items():
        yield {"what": f"{OVERLAP_WHAT}, {contestants[key].title}", "skipped": why}


def wants_overlap(options):
    return not options.classes.pattern and re.search(options.only, OVERLAP_WHAT)


def run_cases(options, contestants):
    chosen = selected(options)
    for number, (some, rows) in enumerate(chosen):
        yield from run_class(options, contestants, some, rows, f"class {number + 1}/{len(chosen)}")


def shaped_launches(network, options):
    """How the ring is started on the shaped links: Tutti by hand, or Gloo where Tutti is not
    available."""
    if options.without_tutti:
        return "Gloo", [(network.inside(r, build.gloo_peer(), "{dir}", r, SHAPED_RANKS,
                                        network.address(r)), {})
                        for r in range(SHAPED_RANKS)]
    tutti = build.tutti(options.tutti)
    return "Tutti", [(network.inside(r, tutti, "perf", "--interactive", "{dir}", "--wire", "tcp"),
                      {"TUTTI_RANK": str(r), "TUTTI_SIZE": str(SHAPED_RANKS),
                       "TUTTI_RENDEZVOUS": f"tcp://{network.address(0)}:29477"})
                     for r in range(SHAPED_RANKS)]


def shaped_samples(options):
    """Alternates iperf3 and the ring; returns (name, bus rates, iperf rates), Mbit/s."""
    n = SHAPED_RANKS
    bus_bits = 8 * SHAPED_BYTES * 2 * (n - 1) / n
    ring, iperf = [], []
    with shaped.Testbed(n, 1, SHAPED_MBIT) as network:
        name, launches = shaped_launches(network, options)
        with Group(name, n, launches) as group:
            for i in range(options.rounds or 3):
                iperf += network.iperf_mbit(3 if options.quick else 5)
                reply = group.command("allreduce/ring", SHAPED_BYTES, 1 if options.quick else 2,
                                      2 if i == 0 else 1)
                ring.append(bus_bits / statistics.median(reply["samples_us"]))
                say.progress(f"  round {i + 1}: iperf3 {iperf[-1]:.1f} Mbit/s, {name} "
                             f"{ring[-1]:.1f} Mbit/s")
    return name, ring, iperf


def shaped_row(options):
    base = {"what": SHAPED_WHAT, "against": "one iperf3 stream over the same link"}
    say.progress(f"{SHAPED_WHAT}")
    why = shaped.why_not()
    if why:
        return {**base, "skipped": why}
    try:
        name, ring, iperf = shaped_samples(options)
    except (GroupError, Refused, say.Problem, shaped.HostsError) as why:
        return {**base, "skipped": str(why)}
    ratios = [r / i for r, i in zip(ring, iperf)]
    if name != "Tutti":
        base["what"] += f", {name}"
    return {**base, "value": round(statistics.median(ratios), 4), "reach": 0.99, "unit": "x",
            "better": "higher",
            "spread": [round(min(ratios), 4), round(max(ratios), 4)],
            "samples": {f"{name} busbw Mbit/s": ring, "iperf3 Mbit/s": iperf}}


def run(options):
    contestants = peers_of(options)
    if not options.without_tutti:
        build.tutti(options.tutti)      # fail early if it is missing
        contestants = {"tutti": Tutti(options.tutti), **contestants}
    yield from run_cases(options, contestants)
    if wants_overlap(options):
        say.progress(OVERLAP_WHAT)
        yield from overlap_rows(options, contestants)
    if wants_shaped(options):
        yield shaped_row(options)
