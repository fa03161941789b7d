"""Operations on the memory of emulated devices, compared with the same operations on host memory.

The path around a call is the difference of two all-reduces of 8 B: on a device (a call and the
synchronization of its stream), and on host memory. Ranks are threads of one process
(bench/emu.c). Staged operations and their overlap with a kernel of the same duration are measured
between two hosts with a shaped link. The kernel sleeps, so it needs no core. Replays of a captured
all-to-all are compared with calls, in turn, by one thread that drives eight ranks."""

import json
import os
import statistics
import subprocess
import time

from lib import build, quiet, say, shaped

SUMMARY = "operations on emulated devices: path of a call, staging, overlap, graphs, start"

LINK_MBIT = 400
LINK_BYTES = 64 << 20
LINK_ROUNDS = 5
LINK_S = 280
PORT = 29479
PATH_REACH_US, STAGED_REACH, HIDDEN_REACH, REPLAY_REACH, START_REACH_S = 3, 0.97, 0.95, 2, 30
AGAINST = "the same call on host memory"
PATH_RANKS = (1, 2)
GRAPH_RANKS, GRAPH_BYTES = 8, 1024
START_RANKS = 256
HEADERS = build.ROOT / "build" / "cuda" / "nvidia" / "cu13" / "include"
TROUBLE = (say.Problem, shaped.HostsError, subprocess.TimeoutExpired)

STAGED = f"all-reduce of 64 MiB, staged, 2 hosts, {LINK_MBIT} Mbit/s: bandwidth"
HIDDEN = f"a kernel as long as it, on another stream, {LINK_MBIT} Mbit/s: hidden part"
REPLAY = f"replay of an all-to-all of {GRAPH_RANKS} ranks, {GRAPH_BYTES} B each"
START = f"{START_RANKS} emulated ranks: start, one all-reduce, and end"


def path_what(nranks):
    return f"path around an all-reduce of 8 B, {nranks} rank{'s' if nranks > 1 else ''}"


def add_options(parser):
    parser.add_argument(
        "--tutti", metavar="PATH", help="a tutti beside emu/ (default build/release/tutti)"
    )
    parser.add_argument(
        "--ranks", type=int, default=START_RANKS, help="ranks that start (default %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quiet.add_option(parser)


def names(options):
    yield from ((path_what(n), PATH_REACH_US) for n in PATH_RANKS)
    yield REPLAY, REPLAY_REACH
    yield STAGED, STAGED_REACH
    yield HIDDEN, HIDDEN_REACH
    yield START.replace(str(START_RANKS), str(options.ranks)), START_REACH_S


def wanted(options, what):
    return not options.only or options.only.search(what)


def listing(options):
    for what, reach in names(options):
        if wanted(options, what):
            yield f"{what}  reach {reach}"


def program(tutti):
    """Compiles bench/emu.c with the libraries beside the command."""
    folder = tutti.parent
    emu = folder / "emu"
    if not (emu / "libcuda.so.1").exists():
        raise say.Problem(
            f"{emu / 'libcuda.so.1'} does not exist (scripts/install-cuda-headers.sh, then build)"
        )
    folders = [HEADERS, build.ROOT / "include", build.ROOT / "emu" / "include"]
    build.OUT.mkdir(parents=True, exist_ok=True)
    target = build.OUT / "emu"
    argv = [build.program("gcc", "gcc"), "-std=c17", "-D_GNU_SOURCE", "-O2"]
    argv += [word for include in folders for word in ("-isystem", include)]
    argv += [build.BENCH / "emu.c", "-o", target, f"-L{folder}", "-ltutti", f"-L{emu}"]
    argv += ["-lcudart", "-lcuda", f"-Wl,-rpath,{folder}:{emu}", "-lpthread"]
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    if done.returncode:
        raise say.Problem(f"bench/emu.c does not compile:\n{done.stderr[:2000]}")
    return target


def environment(**more):
    return {**os.environ, "TUTTI_EMU_DEVICES": "16", "TUTTI_EMU_QUIET": "1", **more}


def rounds_of(options, path, *argv):
    """{name: [us of each round]} of a mode of the program."""
    with quiet.alone(options.lock):
        done = subprocess.run(
            [str(path), *map(str, argv)],
            capture_output=True,
            text=True,
            check=False,
            timeout=LINK_S,
            env=environment(),
        )
    if done.returncode:
        raise say.Problem(f"emu {argv[0]}: {done.stderr.strip()[-300:]}")
    return columns(done.stdout)


def columns(text):
    rounds = [json.loads(line) for line in text.splitlines()]
    return {name: [one[name] for one in rounds] for name in rounds[0]}


def row(what, values, reach, unit, better, against, samples):
    return {
        "what": what,
        "value": round(statistics.median(values), 4),
        "reach": reach,
        "unit": unit,
        "better": better,
        "against": against,
        "spread": [round(min(values), 4), round(max(values), 4)],
        "rounds": len(values),
        "samples": samples,
    }


def path_row(options, path, nranks):
    us = rounds_of(options, path, "path", nranks, 8, 5 if options.quick else 15, 200)
    more = [a - b for a, b in zip(us["call"], us["host"])]
    return row(path_what(nranks), more, PATH_REACH_US, "us", "lower", AGAINST, us)


def replay_row(options, path):
    rounds = 5 if options.quick else 15
    us = rounds_of(options, path, "graph", GRAPH_RANKS, GRAPH_BYTES, rounds, 50)
    ratios = [a / b for a, b in zip(us["call"], us["replay"])]
    return row(REPLAY, ratios, REPLAY_REACH, "x", "higher", "calls, in the same process", us)


def link_rounds(options, path):
    """The rounds of `emu link` on two hosts."""
    with quiet.alone(options.lock), shaped.Testbed(2, 1, LINK_MBIT) as bed:
        env = environment(TUTTI_SIZE="2", TUTTI_RENDEZVOUS=f"tcp://{bed.address(0)}:{PORT}")
        argv = [str(path), "link", str(LINK_BYTES), str(2 if options.quick else LINK_ROUNDS)]
        jobs = [
            subprocess.Popen(
                bed.inside(r, *argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**env, "TUTTI_RANK": str(r)},
            )
            for r in range(2)
        ]
        try:
            output = [job.communicate(timeout=LINK_S) for job in jobs]
        finally:
            for job in jobs:
                job.kill()
                job.wait()
    for job, (_, told) in zip(jobs, output):
        if job.returncode:
            raise say.Problem(f"emu link: {told.strip()[-300:]}")
    return columns(output[0][0])


def link_rows(options, path):
    us = link_rounds(options, path)
    ratios = [a / b for a, b in zip(us["host"], us["device"])]
    yield row(STAGED, ratios, STAGED_REACH, "x", "higher", AGAINST, us)
    hidden = [(d + k - b) / min(d, k) for d, k, b in zip(us["device"], us["kernel"], us["both"])]
    yield row(HIDDEN, hidden, HIDDEN_REACH, "x", "higher", "the kernel's duration", us)


def start_row(options, tutti, path):
    what = START.replace(str(START_RANKS), str(options.ranks))
    argv = [str(tutti), "run", "-n", str(options.ranks), "--", str(path), "start"]
    seconds = []
    with quiet.alone(options.lock):
        for _ in range(1 if options.quick else 3):
            begin = time.monotonic()
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                check=False,
                timeout=LINK_S,
                env=environment(TUTTI_TIMEOUT_MS=str(LINK_S * 1000)),
            )
            seconds.append(time.monotonic() - begin)
            if done.returncode:
                raise say.Problem(f"emu start: {done.stderr.strip()[-300:]}")
    return row(what, seconds, START_REACH_S, "s", "lower", "", {"seconds": seconds})


def attempt(what, measure):
    try:
        yield from measure()
    except TROUBLE as why:
        yield from ({"what": one, "skipped": str(why)} for one in what)


def run(options):
    tutti = build.tutti(options.tutti)
    path = program(tutti)
    no_links = shaped.why_not()
    for nranks in PATH_RANKS:
        if wanted(options, path_what(nranks)):
            one = path_what(nranks)
            yield from attempt([one], lambda n=nranks: [path_row(options, path, n)])
    if wanted(options, REPLAY):
        yield from attempt([REPLAY], lambda: [replay_row(options, path)])
    links = [what for what in (STAGED, HIDDEN) if wanted(options, what)]
    if links and no_links:
        yield from ({"what": what, "skipped": no_links} for what in links)
    elif links:
        rows = attempt(links, lambda: link_rows(options, path))
        yield from (one for one in rows if one["what"] in links)
    what = list(names(options))[-1][0]
    if wanted(options, what):
        yield from attempt([what], lambda: [start_row(options, tutti, path)])
