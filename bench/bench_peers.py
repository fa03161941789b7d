"""Tutti compared with Open MPI, MPICH and Gloo on this machine, and ring all-reduce compared with
the rate of a shaped link.

In every case the contestants run in turn, round by round (lib/rounds.py), until the rounds
determine whether the target is reached. The value of a row is the median over rounds of the ratio
of the peer's median time to Tutti's. With several peers it is the lowest of these ratios, so Tutti
is compared with the fastest one. All use default settings; in rows with "tuned malloc", peers have
MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=4000000000."""

import dataclasses
import re
import statistics
from dataclasses import dataclass

from lib import build, rounds, say, shaped
from lib.contestants import PEERS, Stable, Tutti
from lib.group import Group, GroupError, Refused
from lib.rounds import Case, Entry

SUMMARY = "the collectives against Open MPI, MPICH and Gloo"

KIB, MIB = 1 << 10, 1 << 20
SMALL = (8, 128, KIB)
MIDDLE = (64 * KIB, MIB)
LARGE = (16 * MIB, 128 * MIB)
MPIS = ("openmpi", "mpich")

GRID_COLLS = ("allreduce", "broadcast", "allgather", "alltoall", "reduce_scatter", "pingpong")
GRID_BYTES = (8, KIB, 64 * KIB, MIB, 16 * MIB, 128 * MIB)


@dataclass(frozen=True)
class Row:
    """A comparison in a case: Tutti with one kind of memory, against the best of some
    contestants."""
    case: Case
    against: tuple
    reach: float | None
    aim: float | None = None
    memory: str = "malloc"

    @property
    def what(self):
        c = self.case
        size = "" if c.coll == "barrier" else f" {say.size(c.bytes)}"
        return f"{c.coll} {c.wire}{size}, {c.ranks} ranks" + \
            (", tuned malloc" if c.malloc == "tuned" else "") + \
            (", tutti_mem_alloc" if self.memory == "mem_alloc" else "")

    @property
    def against_text(self):
        names = [PEERS[key].title if key in PEERS else "Tutti with plain malloc" for key in self.against]
        return names[0] if len(names) == 1 else "the better of " + ", ".join(names)


def table_rows():
    """The table of targets."""
    out = []

    def add(colls, sizes, wire, against, reach, ranks=2, malloc="default", aim=None, memory="malloc"):
        for coll in colls:
            for nbytes in sizes:
                out.append(Row(Case(coll, nbytes, wire, ranks, malloc), against, reach, aim, memory))

    others = ("broadcast", "allgather", "alltoall", "reduce_scatter")
    rooted = ("reduce", "gather", "scatter")

    add(("allreduce", *others), SMALL, "shm", MPIS, 1.0, aim=1.3)
    add(("allreduce",), MIDDLE, "shm", MPIS, 1.5)
    add(("allreduce",), (16 * MIB,), "shm", MPIS, 1.8)
    add(("allreduce",), (128 * MIB,), "shm", MPIS, 4)
    add(("allreduce",), LARGE, "shm", ("tutti",), 1.0, memory="mem_alloc")
    add(("allreduce",), (128 * MIB,), "shm", MPIS, 2.5, malloc="tuned")
    add(("reduce_scatter",), LARGE, "shm", MPIS, 2)
    add(("reduce_scatter",), LARGE, "shm", MPIS, 1.2, malloc="tuned")
    add(("broadcast", "alltoall"), MIDDLE + LARGE, "shm", MPIS, 1.2)
    add(("allgather",), MIDDLE + LARGE, "shm", MPIS, 1.1, aim=1.2)

    add(("allreduce",), SMALL, "tcp", ("openmpi",), 1.2)
    add(("allreduce",), SMALL, "tcp", ("gloo",), 10)
    add(("allreduce",), MIDDLE, "tcp", ("openmpi",), 1.0, aim=1.2)
    add(("allreduce",), LARGE, "tcp", ("openmpi", "gloo"), 1.4)
    add(others, SMALL, "tcp", MPIS, 0.95)
    add(others, (16 * KIB,), "tcp", MPIS, 1.0)
    add(others, MIDDLE + LARGE, "tcp", MPIS, 1.0, aim=1.3)
    add(rooted, SMALL, "tcp", MPIS, 0.95)
    add(rooted, (16 * KIB,), "tcp", MPIS, 1.0)
    add(rooted, MIDDLE + LARGE, "tcp", MPIS, 1.0, aim=1.3)
    add(("barrier",), (0,), "tcp", MPIS, 0.95)

    for wire in ("shm", "tcp"):
        add(("pingpong",), SMALL + MIDDLE, wire, ("openmpi",), 1.0)
        add(("pingpong",), LARGE, wire, ("openmpi",), 1.2 if wire == "shm" else 1.0)
    for wire in ("shm", "tcp"):
        add(("allreduce",), SMALL, wire, ("openmpi",), 1.0, ranks=4)
        add(("allreduce",), (MIB,), wire, ("openmpi", "gloo"), 1.1, ranks=4)
        add(("allreduce",), LARGE, wire, ("openmpi", "gloo"), 1.4, ranks=4)
    return out


def grid_rows():
    """Every collective, size, transport and number of ranks against all peers, without targets."""
    return [Row(Case(coll, nbytes, wire, ranks), ("openmpi", "mpich", *(("gloo",) if wire == "tcp" else ())), None)
            for ranks in (2, 4) for wire in ("shm", "tcp") for coll in GRID_COLLS for nbytes in GRID_BYTES
            if coll != "pingpong" or ranks == 2]


ROUNDS, ROUNDS_MOST, ROUNDS_QUICK = 6, 25, 3
SHAPED_RANKS, SHAPED_MBIT, SHAPED_BYTES = 4, 400, 64 * MIB
SHAPED_WHAT = f"allreduce ring {say.size(SHAPED_BYTES)}, {SHAPED_RANKS} namespaces, {SHAPED_MBIT} Mbit/s links"


def add_options(parser):
    parser.add_argument("--rounds", type=int, metavar="N",
                        help=f"rounds per case (default {ROUNDS}, and up to {ROUNDS_MOST} until it is clear "
                             "whether a row reaches its target)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of shorter turns")
    parser.add_argument("--contestants", metavar="LIST",
                        help="peers to run, comma-separated, of: " + ", ".join(PEERS))
    parser.add_argument("--grid", action="store_true",
                        help="every collective, size, transport and number of ranks, instead of the table")
    parser.add_argument("--without-tutti", action="store_true", help="measure only the peers")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")


def selected(options):
    rows = grid_rows() if options.grid else table_rows()
    return [row for row in rows if re.search(options.only, row.what)]


def wants_shaped(options):
    return not options.grid and re.search(options.only, SHAPED_WHAT)


def listing(options):
    for row in selected(options):
        reach = "" if row.reach is None else f"  reach {row.reach}" + (f", aim {row.aim}" if row.aim else "")
        yield f"{row.what}  against {row.against_text}{reach}"
    if wants_shaped(options):
        yield f"{SHAPED_WHAT}  against one iperf3 stream  reach 0.99"


def peers_of(options):
    if not options.contestants:
        return dict(PEERS)
    names = options.contestants.split(",")
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise say.Problem(f"unknown contestant {unknown[0]}; there are {', '.join(PEERS)}")
    return {name: PEERS[name] for name in names}


def entries_of(rows, contestants):
    """All entries that the rows of one case need, without duplicates."""
    out = {}
    for row in rows:
        wanted = [Entry("tutti", memory=row.memory)] if "tutti" in contestants else []
        for key in row.against:
            if key in contestants:
                algos = contestants[key].algos.get(row.case.coll, ("",))
                wanted += [Entry(key, algo) for algo in algos]
        for entry in wanted:
            out.setdefault(entry.name, entry)
    return list(out.values())


def common(row):
    return {"what": row.what, **{k: v for k, v in dataclasses.asdict(row.case).items()}, "memory": row.memory}


def sides_of(row, entries):
    """The two sides of a row: (Tutti's entry or None, the entries that it is compared with)."""
    ours = next((e for e in entries if e.key == "tutti" and e.memory == row.memory), None)
    return ours, [e for e in entries if e.key in row.against and e is not ours and e.memory == "malloc"]


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
    """Makes a row of the table from the turns."""
    ours, theirs = sides_of(row, entries)
    base = {**common(row), "against": row.against_text}
    if not ours or not theirs:
        return {**base, "skipped": "; ".join(failed.values()) or "none of its contestants was chosen"}
    ratios = ratios_of(ours, theirs)
    best = min(ratios, key=lambda name: statistics.median(ratios[name]))
    return {**base, "value": round(statistics.median(ratios[best]), 3), "reach": row.reach, "aim": row.aim,
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
    for key in row.against:
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


def run_cases(options, contestants):
    nrounds = options.rounds or (ROUNDS_QUICK if options.quick else ROUNDS)
    most = 0 if options.rounds or options.quick else ROUNDS_MOST
    turn_us = 5e4 if options.quick else 1.2e5
    cases = {}
    for row in selected(options):
        cases.setdefault(row.case, []).append(row)
    order = sorted(cases, key=lambda c: (c.ranks, c.wire))      # groups are kept per ranks and wire
    with Stable(contestants) as stable:
        for i, case in enumerate(order):
            say.progress(f"[{i + 1}/{len(order)}] {cases[case][0].what}")
            entries, failed = rounds.measure(stable, case, entries_of(cases[case], contestants), nrounds, turn_us, most,
                                             lambda some, rows=cases[case]: all(is_settled(row, some) for row in rows))
            for row in cases[case]:
                if "tutti" in contestants:
                    yield ratio_row(row, entries, failed)
                elif row.against != ("tutti",):
                    yield from time_rows(row, entries, failed)


def shaped_launches(network, options):
    """How the ring is started on the shaped links: Tutti by hand, or Gloo where Tutti is not
    available."""
    if options.without_tutti:
        return "Gloo", [(network.inside(r, build.gloo_peer(), "{dir}", r, SHAPED_RANKS, network.address(r)), {})
                        for r in range(SHAPED_RANKS)]
    tutti = build.tutti(options.tutti)
    return "Tutti", [(network.inside(r, tutti, "perf", "--interactive", "{dir}", "--wire", "tcp"),
                      {"TUTTI_RANK": str(r), "TUTTI_SIZE": str(SHAPED_RANKS),
                       "TUTTI_RENDEZVOUS": f"tcp://{network.address(0)}:29477"}) for r in range(SHAPED_RANKS)]


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
                reply = group.command("allreduce/ring", SHAPED_BYTES, 1 if options.quick else 2, 2 if i == 0 else 1)
                ring.append(bus_bits / statistics.median(reply["samples_us"]))
                say.progress(f"  round {i + 1}: iperf3 {iperf[-1]:.1f} Mbit/s, {name} {ring[-1]:.1f} Mbit/s")
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
    return {**base, "value": round(statistics.median(ratios), 4), "reach": 0.99, "unit": "x", "better": "higher",
            "spread": [round(min(ratios), 4), round(max(ratios), 4)],
            "samples": {f"{name} busbw Mbit/s": ring, "iperf3 Mbit/s": iperf}}


def run(options):
    contestants = peers_of(options)
    if not options.without_tutti:
        build.tutti(options.tutti)      # fail early if it is missing
        contestants = {"tutti": Tutti(options.tutti), **contestants}
    yield from run_cases(options, contestants)
    if wants_shaped(options):
        yield shaped_row(options)
