"""Quantized all-reduce compared with the plain one, on links of a known rate and in shared memory.

On the links (tests/support/testbed.py: one rank per host, one rail) the value of a row is the
speed-up over plain f32, including encoding and decoding. Its target is 0.9 times the reduction in
bytes. In shared memory, where nothing can be gained, the row shows the cost. Every result is
checked against the bound of tutti.h. Measurements of all methods of a shape alternate; a row
contains their medians."""

import contextlib
import statistics
import subprocess

from lib import build, jobs, quiet, say, shaped

SUMMARY = "quantized all-reduce against the plain one"

MIB = 1 << 20
BLOCK = {"minmax8": (248, 256), "zero8": (248, 256), "e4m3": (252, 256), "e5m2": (252, 256),
         "minmax4": (240, 128), "zero4": (240, 128)}
SHARE = 0.9             # of the ratio of bytes
PORT = 18990
TURN_S = 55


def add_options(parser):
    parser.add_argument("--mbit", type=int, default=1000, help="rate of the links (default 1000)")
    parser.add_argument("--sizes", default="1,16,64", help="sizes in MiB (default 1,16,64)")
    parser.add_argument("--ranks", default="2,4", help="numbers of ranks, one per host "
                                                       "(default 2,4)")
    parser.add_argument("--ways", default="minmax8,minmax4,zero8,e4m3",
                        help=f"encodings, of {' '.join(BLOCK)} (default minmax8,minmax4,zero8,e4m3)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case (default 3)")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")
    quiet.add_option(parser)


def numbers(text, option):
    try:
        return [int(n) for n in text.split(",")]
    except ValueError:
        raise say.Problem(f"{option} {text}: it should be numbers with commas") from None


def ways_of(options):
    ways = options.ways.split(",")
    for way in ways:
        if way not in BLOCK:
            raise say.Problem(f"--ways {way}: it must be of {' '.join(BLOCK)}")
    return ways


def less(way):
    """The ratio of a block's unencoded size to its encoded size."""
    count, nbytes = BLOCK[way]
    return 4 * count / nbytes


def places(options):
    return [(n, over) for n in numbers(options.ranks, "--ranks")
            for over in (f"{options.mbit} Mbit/s", "shared memory")]


def what_of(nranks, over, nbytes, way):
    return (f"allreduce of {say.size(nbytes)} f32 as {way}, {nranks} ranks, {over}: times as fast "
            f"as plain")


def cases_of(options, nranks, over):
    return [(nbytes, way) for nbytes in (n * MIB for n in numbers(options.sizes, "--sizes"))
            for way in ways_of(options)
            if not options.only or options.only.search(what_of(nranks, over, nbytes, way))]


def reach_of(over, way):
    return None if over == "shared memory" else round(SHARE * less(way), 2)


def listing(options):
    for nranks, over in places(options):
        for nbytes, way in cases_of(options, nranks, over):
            yield (what_of(nranks, over, nbytes, way) + (f"  reach {reach_of(over, way)}"
                                                         if reach_of(over, way) else ""))


def perf_us(options, program, bed, nranks, nbytes, way):
    """The median time of one measurement."""
    argv = [program, "perf", "allreduce", "--json", "--check", "--out-of-place", "--min",
            str(nbytes), "--max", str(nbytes), "--quant", way]
    return next(row["time_us"] for row in jobs.rows(argv, nranks, bed, options.lock, PORT, TURN_S)
                if "coll" in row)


def row_of(options, nranks, over, case, us):
    nbytes, way = case
    plain, packed = us[nbytes, "none"], us[nbytes, way]
    turns = [p / q for p, q in zip(plain, packed)]
    return {"what": what_of(nranks, over, nbytes, way),
            "value": round(statistics.median(plain) / statistics.median(packed), 3),
            "reach": reach_of(over, way), "unit": "x", "better": "higher", "against": "plain f32",
            "spread": [round(min(turns), 3), round(max(turns), 3)],
            "samples": {"plain us": plain, f"{way} us": packed}}


def measure(options, program, nranks, over):
    cases = cases_of(options, nranks, over)
    wanted = list(dict.fromkeys((nbytes, w) for nbytes, way in cases for w in ("none", way)))
    us = {case: [] for case in wanted}
    with contextlib.ExitStack() as stack:
        bed = (None if over == "shared memory" or not cases
               else stack.enter_context(shaped.Testbed(nranks, 1, options.mbit)))
        for number in range(options.rounds):
            for nbytes, way in wanted:
                us[nbytes, way].append(perf_us(options, program, bed, nranks, nbytes, way))
            if cases:
                say.progress(f"round {number + 1} of {options.rounds}: {nranks} ranks, {over}")
    return [row_of(options, nranks, over, case, us) for case in cases]


def run(options):
    if options.rounds < 1:
        raise say.Problem(f"--rounds {options.rounds}: at least one is needed")
    program = str(build.tutti(options.tutti))
    why = shaped.why_not()
    for nranks, over in places(options):
        if why and over != "shared memory":
            yield from ({"what": what_of(nranks, over, *case), "skipped": why}
                        for case in cases_of(options, nranks, over))
            continue
        try:
            yield from measure(options, program, nranks, over)
        except (shaped.HostsError, subprocess.TimeoutExpired) as trouble:
            raise say.Problem(f"{nranks} ranks, {over}: {trouble}") from None
