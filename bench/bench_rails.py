"""Parallel rings on hosts with several rails, on shaped links (tests/support/testbed.py).

Every round measures iperf3 (one stream per rail, concurrently) and each contestant once, in turn.
"Share" is the necessary bytes into a host, over the time of the operation, over the rate of the
iperf3 streams; "faster" is the other's time over that of parallel rings. The value of a row is the
median over rounds. Tutti binds ranks to rails (or --binding number). Open MPI may use all rails,
and the best of its algorithms counts. A row also shows the CPU utilization (cpu: 1 means all cores;
then the links did not determine the time) and the bytes sent on each rail of each host (rail_mib).

The rows "time of" are reference data for the simulator: the network's parameters and the time."""

import re
import statistics

from lib import build, quiet, rails, say, shaped
from lib.group import GroupError, Refused

SUMMARY = "parallel rings on shaped links, against iperf3, the flat ring and Open MPI"

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * MIB, 16 * MIB, 64 * MIB)
RINGS, FLAT = "parallel_rings", "ring"
OPENMPI_ALGOS = ("linear", "bruck", "recursive_doubling", "ring", "neighbor")
# Open MPI's algorithms that are slower than its best by this factor do not run in the rounds
HEAT_LEVEL = 1.2
MATRICES = (2048, 4096)
GROUP_TROUBLE = (GroupError, Refused, say.Problem, shaped.HostsError)

# Reference data for the simulator: algorithms and sizes on the testbed, and on hosts with one rank
# and one rail.
TIMES = {"allgather": ("ring", "doubling", RINGS), "reduce_scatter": ("ring", RINGS),
         "allreduce": ("ring", RINGS)}
TIME_SIZES = (256 * KIB, MIB, 4 * MIB, 16 * MIB)
PLAIN_HOSTS = 8
PLAIN_TIMES = {"allgather": ("ring", "doubling"), "reduce_scatter": ("ring", "halving"),
               "allreduce": ("ring", "rabenseifner")}


def add_options(parser):
    shaped.add_size_options(parser)
    parser.add_argument("--per-host", type=int, default=4, metavar="N",
                        help="ranks on each host (default 4)")
    parser.add_argument("--binding", choices=("tutti", "number"), default="tutti",
                        help="how the rail of a rank is selected: by Tutti (default), or by its "
                             "number on the host")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds (default 5)")
    parser.add_argument("--quick", action="store_true", help="2 rounds, up to 16 MiB")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")
    parser.add_argument("--testbed-only", action="store_true",
                        help="create the testbed and open a shell on its first host")
    quiet.add_option(parser)


def instead(options):
    """Handles options that replace the measurement. Returns their exit status, or None."""
    return shaped.visit(options) if options.testbed_only else None


# ---- names of rows ----

def shape_of(options):
    if not 1 <= options.per_host <= 64:
        raise say.Problem(f"--per-host {options.per_host}: there can be 1 to 64 ranks on a host")
    return rails.Shape(options.hosts, options.per_host, options.rails, options.mbit,
                       options.congestion)


def plain_shape(shape):
    return rails.Shape(PLAIN_HOSTS, 1, 1, shape.mbit, shape.congestion)


def sizes_of(options):
    return SIZES[:2] if options.quick else SIZES


def matrices_of(options):
    return MATRICES[:1] if options.quick else MATRICES


def rounds_of(options):
    return options.rounds or (2 if options.quick else 5)


def streams(shape):
    return (f"{shape.nrails} iperf3 streams, one per rail" if shape.nrails > 1
            else "one iperf3 stream")


def share_what(coll, nbytes):
    return f"{coll} {say.size(nbytes)}, parallel rings: share"


def ratio_what(nbytes, other):
    return f"allgather {say.size(nbytes)}, parallel rings: faster than {other}"


def case_rows(shape, nbytes):
    """(what, against, target, aim) of the rows of one size."""
    return [(share_what("allgather", nbytes), streams(shape), 0.95, None),
            (ratio_what(nbytes, "the flat ring"), "Tutti's flat ring, same binding", 3.3, None),
            (ratio_what(nbytes, "Open MPI"), "Open MPI over TCP, its best allgather", 1.15, 1.25),
            (share_what("reduce_scatter", nbytes), streams(shape), 0.92, None),
            (share_what("allreduce", nbytes), streams(shape), 0.92, None)]


def matrix_rows(n):
    return [(f"matrix program {n} x {n}, parallel rings: communication",
             "the same with the flat ring", None, None),
            (f"matrix program {n} x {n}, parallel rings: whole program",
             "the same with the flat ring", None, None)]


def time_what(shape, coll, algo, nbytes):
    return f"time of {coll} {algo} {say.size(nbytes)}, {shape}"


def time_cases(options):
    """[(shape, [(coll, algo, bytes)])] selected by --only."""
    shape = shape_of(options)
    out = []
    for where, what in ((shape, TIMES), (plain_shape(shape), PLAIN_TIMES)):
        cases = [(coll, algo, nbytes) for coll, algos in what.items() for algo in algos
                 for nbytes in TIME_SIZES
                 if re.search(options.only, time_what(where, coll, algo, nbytes))]
        if cases:
            out.append((where, cases))
    return out


def wants(options, rows):
    return any(re.search(options.only, row[0]) for row in rows)


def listing(options):
    shape = shape_of(options)
    for rows in [*(case_rows(shape, nbytes) for nbytes in sizes_of(options)),
                 *(matrix_rows(n) for n in matrices_of(options))]:
        for what, against, reach, aim in rows:
            if re.search(options.only, what):
                yield (f"{what}  against {against}" + (f"  reach {reach}" if reach else "")
                       + (f", aim {aim}" if aim else ""))
    for where, cases in time_cases(options):
        for case in cases:
            yield time_what(where, *case)


# ---- rows from measurements ----

def ratio(row, values, samples, **more):
    what, against, reach, aim = row
    return {"what": what, "against": against, "value": round(statistics.median(values), 3),
            "reach": reach, "aim": aim, "unit": "x",
            "better": "higher", "spread": [round(min(values), 3), round(max(values), 3)],
            "samples": samples, **more}


def skipped(row, why):
    return {"what": row[0], "against": row[1], "skipped": why}


def share_row(shape, row, coll, nbytes, turns, iperf):
    bits = 8 * shape.host_bytes(coll, nbytes)
    values = [bits / us / mbit for us, mbit in zip(turns.us, iperf)]
    return ratio(row, values, {"parallel rings us": turns.us, "iperf3 Mbit/s": iperf},
                 cpu=turns.cpu, rail_mib=turns.rail_mib)


def faster_row(row, ours, theirs, name):
    values = [t / o for t, o in zip(theirs.us, ours.us)]
    return ratio(row, values, {"parallel rings us": ours.us, f"{name} us": theirs.us}, best=name,
                 cpu=theirs.cpu,
                 rail_mib=theirs.rail_mib)


# ---- measuring ----

class Contestants:
    """The groups on a testbed, kept for all sizes and started when first needed. A failed group is
    not restarted."""

    def __init__(self, bed, options):
        self._make = {"tutti": lambda: bed.tutti(options.tutti), "openmpi": bed.openmpi}
        self._groups, self.failed = {}, {}
        self.bed = bed

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for group in self._groups.values():
            group.close()

    def turn(self, key, coll, nbytes):
        """Returns a Turn, or None, with the cause in failed[(key, coll, nbytes)]."""
        why = self.failed.get(key) or self.failed.get((key, coll, nbytes))
        if not why:
            try:
                if key not in self._groups:
                    self._groups[key] = self._make[key]()
                return rails.take_turn(self.bed, self._groups[key], coll, nbytes)
            except Refused as refusal:
                why = str(refusal)
            except GROUP_TROUBLE as trouble:
                why = self.failed[key] = str(trouble)
                if key in self._groups:
                    self._groups.pop(key).close()
        self.failed[(key, coll, nbytes)] = why
        return None

    def why(self, key, coll, nbytes):
        return self.failed.get((key, coll, nbytes), "was not measured")


def log_turn(name, turn):
    say.progress(f"    {name}: {turn.us / 1000:.1f} ms, processors {100 * turn.cpu:.0f} % busy")


def entries_of(options, shape, nbytes):
    """{(contestant, coll with algorithm)} for the selected rows of a size."""
    rows = case_rows(shape, nbytes)
    wanted = [bool(re.search(options.only, row[0])) for row in rows]
    entries = []
    if any(wanted[:3]):
        entries.append(("tutti", f"allgather/{RINGS}"))
    if wanted[1]:
        entries.append(("tutti", f"allgather/{FLAT}"))
    if wanted[2]:
        entries += [("openmpi", f"allgather/{algo}") for algo in OPENMPI_ALGOS]
    if wanted[3]:
        entries.append(("tutti", f"reduce_scatter/{RINGS}"))
    if wanted[4]:
        entries.append(("tutti", f"allreduce/{RINGS}"))
    return entries


def heat(contestants, options, entries, nbytes):
    """Excludes those of Open MPI's algorithms that are far slower than its best."""
    theirs = [entry for entry in entries if entry[0] == "openmpi"]
    seen = {}
    for entry in theirs:
        with quiet.alone(options.lock):
            turn = contestants.turn(*entry, nbytes)
        if turn:
            seen[entry] = turn.us
            log_turn(f"heat: Open MPI {entry[1]}", turn)
    best = min(seen.values(), default=0)
    return [entry for entry in entries if entry not in theirs
            or seen.get(entry, HEAT_LEVEL * best + 1) <= HEAT_LEVEL * best]


def measure_size(contestants, options, shape, nbytes):
    """Returns ({entry: Turns of all rounds}, [sum of the iperf3 streams of each round])."""
    entries = heat(contestants, options, entries_of(options, shape, nbytes), nbytes)
    found, iperf = {entry: rails.Turns() for entry in entries}, []
    for i in range(rounds_of(options)):
        say.progress(f"  {say.size(nbytes)}, round {i + 1} of {rounds_of(options)}")
        at = i % len(entries) if entries else 0
        with quiet.alone(options.lock):
            iperf.append(sum(contestants.bed.net.iperf_mbit(2 if options.quick else 3)))
            say.progress(f"    iperf3: {iperf[-1]:.1f} Mbit/s")
            for entry in entries[at:] + entries[:at]:
                turn = contestants.turn(*entry, nbytes) if entry in found else None
                if turn:
                    found[entry].turns.append(turn)
                    log_turn(" ".join(entry), turn)
                else:
                    found.pop(entry, None)
    return found, iperf


def size_rows(contestants, options, shape, nbytes):
    found, iperf = measure_size(contestants, options, shape, nbytes)
    rows = case_rows(shape, nbytes)
    ours = found.get(("tutti", f"allgather/{RINGS}"))
    flat = found.get(("tutti", f"allgather/{FLAT}"))
    theirs = {entry[1]: turns for entry, turns in found.items() if entry[0] == "openmpi"}
    best = min(theirs, key=lambda name: theirs[name].median_us, default=None)

    def why(coll):
        return contestants.why("tutti", coll, nbytes)

    yield share_row(shape, rows[0], "allgather", nbytes, ours,
                    iperf) if ours else skipped(rows[0], why(f"allgather/{RINGS}"))
    if ours and flat:
        yield faster_row(rows[1], ours, flat, "the flat ring")
    else:
        yield skipped(rows[1], why(f"allgather/{FLAT if ours else RINGS}"))
    if ours and best:
        yield faster_row(rows[2], ours, theirs[best], f"Open MPI {best}")
    else:
        yield skipped(rows[2], contestants.why("openmpi", f"allgather/{OPENMPI_ALGOS[-1]}", nbytes)
                      if ours
                      else why(f"allgather/{RINGS}"))
    for row, coll in ((rows[3], "reduce_scatter"), (rows[4], "allreduce")):
        turns = found.get(("tutti", f"{coll}/{RINGS}"))
        yield share_row(shape, row, coll, nbytes, turns,
                        iperf) if turns else skipped(row, why(f"{coll}/{RINGS}"))


def matrix_round(bed, options, n, samples):
    """Appends one run of each algorithm; {algorithm: [rank 0's report]}."""
    program = build.tutti(options.tutti).parent / "examples" / "matmul"
    if not program.exists():
        raise say.Problem(f"{program} does not exist: build the examples")
    for algo in (RINGS, FLAT):
        with quiet.alone(options.lock):
            report = rails.run_program(bed, program, n, algo)
        samples[algo].append(report)
        say.progress(f"    {algo}: gather B {report['gather_b_ms']:.0f} ms, product "
                     f"{report['product_ms']:.0f} ms, "
                     f"gather C {report['gather_c_ms']:.0f} ms")


def matrix_results(bed, options, n):
    rows = matrix_rows(n)
    samples = {RINGS: [], FLAT: []}
    try:
        for i in range(2 if options.quick else 3):
            say.progress(f"  matrix program, {n} x {n}, round {i + 1}")
            matrix_round(bed, options, n, samples)
    except GROUP_TROUBLE as why:
        yield from (skipped(row, str(why)) for row in rows)
        return

    def communication(report):
        return report["gather_b_ms"] + report["gather_c_ms"]

    for row, part in zip(rows, (communication, lambda report: communication(report)
                                + report["product_ms"])):
        times = {algo: [part(report) for report in reports] for algo, reports in samples.items()}
        yield ratio(row, [f / r for f, r in zip(times[FLAT], times[RINGS])],
                    {"parallel rings ms": times[RINGS], "flat ring ms": times[FLAT]})


def network_of(bed, options):
    """The parameters of the testbed for the simulator."""
    with quiet.alone(options.lock):
        goodput, ping = bed.net.iperf_mbit(2 if options.quick else 3), bed.net.ping_us()
    shape = bed.shape
    return {"hosts": shape.nhosts, "ranks_per_host": shape.per_host, "rails": shape.nrails,
            "rate_mbit": shape.mbit, "congestion_control": shape.congestion,
            "goodput_mbit": round(statistics.mean(goodput), 2), "ping_rtt_us": round(ping, 1)}


def time_rows(bed, contestants, options, cases):
    network = network_of(bed, options)
    for coll, algo, nbytes in cases:
        what = time_what(bed.shape, coll, algo, nbytes)
        turns = rails.Turns()
        for _ in range(2 if options.quick else 3):
            with quiet.alone(options.lock):
                turn = contestants.turn("tutti", f"{coll}/{algo}", nbytes)
            if not turn:
                break
            turns.turns.append(turn)
        if not turns.turns:
            yield {"what": what, "against": None,
                   "skipped": contestants.why("tutti", f"{coll}/{algo}", nbytes)}
            continue
        yield {"what": what, "against": None, "value": round(turns.median_us, 1), "reach": None,
               "unit": "us", "better": "lower",
               "spread": [min(turns.us), max(turns.us)], "samples": {"us": turns.us},
               "collective": coll, "algo": algo, "size": nbytes,
               "network": network, "cpu": turns.cpu, "rail_mib": turns.rail_mib}


def everything(options, shape):
    times = time_cases(options)
    sizes = [nbytes for nbytes in sizes_of(options) if wants(options, case_rows(shape, nbytes))]
    matrices = [n for n in matrices_of(options) if wants(options, matrix_rows(n))]
    main_times = [cases for where, cases in times if where == shape]
    if sizes or matrices or main_times:
        say.progress(f"{shape}")
        with rails.Bed(shape, options.binding == "number") as bed:
            with Contestants(bed, options) as contestants:
                for nbytes in sizes:
                    yield from size_rows(contestants, options, shape, nbytes)
                for cases in main_times:
                    yield from time_rows(bed, contestants, options, cases)
            for n in matrices:
                yield from matrix_results(bed, options, n)
    for where, cases in times:
        if where != shape:
            say.progress(f"{where}")
            with rails.Bed(where, options.binding
                           == "number") as bed, Contestants(bed, options) as contestants:
                yield from time_rows(bed, contestants, options, cases)


def run(options):
    build.tutti(options.tutti)      # fail early if it is missing
    shape = shape_of(options)
    why = shaped.why_not()
    try:
        if why:
            raise say.Problem(f"the testbed cannot be made: {why}")
        for row in everything(options, shape):
            if re.search(options.only, row["what"]):
                yield row
    except shaped.HostsError as trouble:
        raise say.Problem(str(trouble)) from None
