"""The cost of observability: the trace of operations, tutti status, tutti analyze, and the clock of
the job; and what tutti top shows of lanes, over the number of lanes.

The cost of the trace is the added time of an allreduce of 8 bytes between two ranks in shared
memory, compared with the same program without the trace (CMake option TUTTI_TRACE), also when it is
switched off by TUTTI_TRACE=0. Each round measures them in tight loops, in alternating order, while
the processes of the others sleep. The placement of processes in memory changes such times by some
percent, so they are started several times. Of each start, the 10 % quantiles over the rounds are
compared, because other programs on a core make a loop many times longer; the value is the median
over the starts. tutti status queries real ranks that wait in a collective, and ranks in the
simulation of tests/status. tutti analyze reads dumps of the simulated jobs of tests/analyze. The
error of the clock of the job is known exactly, because the hosts are network namespaces, behind an
emulated line of 20 ms: they have the same clock, so each offset is an error. Lanes are those of an
allreduce that two ranks repeat, on this machine; each value is the median of samples of half a
second."""

import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from lib import build, contestants, quiet, say, wan
from lib.group import GroupError
from lib.rounds import Case

SUMMARY = "the cost of the trace, of status queries of a job, and of the analysis of its dumps"

ADDED_REACH = 2
STATUS_RANKS, STATUS_REACH = 512, 2
STATUS_TIMEOUT_S = 10
SIMULATED_RANKS, SIMULATED_REACH, SIMULATED_MIB = 98304, 10, 64
# ranks, tensor * data * stages, seconds, GiB
DUMPS = [(8192, (8, 256, 4), 10, None), (98304, (8, 3072, 4), 90, 8)]
EXPERT = 8
ONE_WAY_MS, CLOCK_MBIT, CLOCK_TIMEOUT_MS, CLOCK_REACH = 10, 100, 3000, 10
LOOPS, ROUNDS, STARTS = 4000, 100, 15
START_S = 120
BYTES = 8
LANES, LANES_WIRES, LANES_SIZE, LANES_SAMPLES = (1, 2, 4, 8), ("tcp", "verbs"), "8M", 10

TRACE = "trace: added time of an allreduce of 8 B, shm, 2 ranks"
TRACE_OFF = "trace off (TUTTI_TRACE=0): added time of an allreduce of 8 B, shm, 2 ranks"
CLOCK = "clock of the job: largest error over a round trip, 2 hosts"
CLOCK_BOUND = "clock of the job: largest stated bound over a round trip, 2 hosts"


def status_name(ranks):
    return f"status: {ranks} ranks in a collective"


def simulated_names():
    what = f"status: {SIMULATED_RANKS:,} simulated ranks"
    return f"{what}: virtual time", f"{what}: memory of a rank"


def dumps_names(ranks):
    return f"analyze: dumps of {ranks:,} ranks: time", f"analyze: dumps of {ranks:,} ranks: memory"


# quantity, unit, of the lanes of a transport in the document of tutti top
CURVES = {
    "bytes posted": ("MB/s", lambda x: x["bytes_per_s"] / 1e6),
    "posts": ("1/s", lambda x: x["posts_per_s"]),
    "idle": ("% of lanes", lambda x: 100 * x["idle"] / x["up"]),
    "outstanding": ("KiB", lambda x: x["outstanding_bytes"] / 1024),
    "out-of-order depth": ("segments", lambda x: x["out_of_order_depth"]),
}


def lanes_names(wire, lanes):
    return [f"lanes: {wire}, {lanes} per peer: {quantity}" for quantity in CURVES]


def lanes_cases(options):
    return [(wire, n) for wire in LANES_WIRES for n in (LANES[:2] if options.quick else LANES)]


def add_options(parser):
    parser.add_argument("--tutti", metavar="PATH",
                        help="the tutti to run (default build/release/tutti)")
    parser.add_argument("--runs", type=int, default=7,
                        help="status queries; analyses are run a third as often (default 7)")
    parser.add_argument("--rounds", type=int, default=ROUNDS,
                        help=f"rounds of the trace's cost, in each start (default {ROUNDS})")
    parser.add_argument("--starts", type=int, default=STARTS,
                        help=f"starts of the groups for the trace's cost (default {STARTS})")
    parser.add_argument("--quick", action="store_true",
                        help="64 ranks, two starts, and no dumps of 98,304 ranks")
    quiet.add_option(parser)


def status_ranks(options):
    return 64 if options.quick else STATUS_RANKS


def dumps_of(options):
    return DUMPS[:1] if options.quick else DUMPS


def listing(options):
    yield TRACE
    yield TRACE_OFF
    yield status_name(status_ranks(options))
    yield from simulated_names()
    for ranks, *_ in dumps_of(options):
        yield from dumps_names(ranks)
    yield from (CLOCK, CLOCK_BOUND)
    for case in lanes_cases(options):
        yield from lanes_names(*case)


def row(what, value, reach, unit, against, samples):
    spread = {} if isinstance(samples, dict) else {"spread": (min(samples), max(samples))}
    return {"what": what, "value": value, "reach": reach, "unit": unit, "better": "lower",
            "against": against, "samples": samples, **spread}


def skipped(whats, why):
    return [{"what": what, "skipped": str(why)} for what in whats]


def program_of(tutti, *names):
    path = Path(tutti).parent.joinpath("tests", *names)
    if not os.access(path, os.X_OK):
        raise say.Problem(f"{path} does not exist: build the tests (cmake --build --preset "
                          f"release)")
    return str(path)


# ---- the trace ----

class Traced(contestants.Tutti):
    def __init__(self, title, path, **env):
        super().__init__(path)
        self.title, self.env = title, env

    def launches(self, wire, ranks):
        return [(argv, {**env, **self.env}) for argv, env in super().launches(wire, ranks)]


def without_trace(tutti):
    """Builds the tool without the trace."""
    folder = Path(tutti).parent
    argv = ["cmake", "--build", str(folder), "--target", "tutti_tool_without_trace"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    path = folder / "bench" / "tutti_tool_without_trace"
    if done.returncode or not path.exists():
        raise say.Problem(f"{' '.join(argv)} failed: {(done.stdout + done.stderr).strip()[-500:]}")
    return path


def loop_us(group):
    return group.command("allreduce", BYTES, 1, 200, LOOPS)["time_us_loop"]


def trace_rows(options, tutti):
    members = {"on": Traced("Tutti", tutti),
               "out": Traced("Tutti without the trace", without_trace(tutti)),
               "off": Traced("Tutti with TUTTI_TRACE=0", tutti, TUTTI_TRACE="0")}
    starts = 2 if options.quick else options.starts
    found = [one_start(options, members, i) for i in range(starts)]
    return [trace_row(TRACE, "on", ADDED_REACH, found), trace_row(TRACE_OFF, "off", None, found)]


def one_start(options, members, number):
    """Starts the groups, and returns the 10 % quantiles of their times over the rounds."""
    case = Case("allreduce", BYTES, "shm", 2)
    times = {name: [] for name in members}
    with contestants.Stable(members) as stable:
        groups = {name: stable.group(name, case, "") for name in members}
        for group in groups.values():
            loop_us(group)
        for i in range(options.rounds):
            with quiet.alone(options.lock):
                for name in list(members)[::1 if (i + number) % 2 else -1]:
                    times[name].append(loop_us(groups[name]))
    return {name: statistics.quantiles(found, n=10)[0] for name, found in times.items()}


def trace_row(what, name, reach, found):
    added = [100 * (one[name] / one["out"] - 1) for one in found]
    without = statistics.median(one["out"] for one in found)
    return row(what, statistics.median(added), reach, "%",
               f"compiled out, {without:.3f} us; 10 % quantiles of each start", added)


# ---- tutti status ----

def await_lines(process, n):
    for i in range(n):
        if not process.stdout.readline():
            raise say.Problem(f"the job of {n} ranks ended after {i} of them had started")


def query(tutti, env):
    begin = time.monotonic()
    done = subprocess.run([tutti, "status", "--json", "--timeout", str(STATUS_TIMEOUT_S)], env=env,
                          capture_output=True, text=True, timeout=10 * STATUS_TIMEOUT_S,
                          check=False)
    seconds = time.monotonic() - begin
    if done.returncode:
        raise say.Problem(done.stderr.strip())
    return seconds, json.loads(done.stdout)


def status_rows(options, tutti):
    """All ranks but one wait in a collective. Only answers with all ranks count."""
    ranks = status_ranks(options)
    program = program_of(tutti, "cluster", "prog_status")
    times = []
    with tempfile.TemporaryDirectory(prefix="tutti-bench.") as base:
        env = {**os.environ, "TUTTI_STATUS": base}
        job = subprocess.Popen([tutti, "run", "-n", str(ranks), "--", program, "never", "3"],
                               env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
        try:
            await_lines(job, ranks)
            end = time.monotonic() + START_S
            while query(tutti, env)[1]["active"] < ranks - 1 and time.monotonic() < end:
                pass
            for _ in range(options.runs):
                with quiet.alone(options.lock):
                    seconds, answer = query(tutti, env)
                if answer["reported"] == ranks:
                    times.append(seconds)
        finally:
            job.terminate()
            job.communicate()
    if not times:
        raise say.Problem(f"no answer had all {ranks} ranks")
    return [row(status_name(ranks), statistics.median(times), STATUS_REACH, "s",
                f"all on this machine; {len(times)} of {options.runs} answers had all ranks",
                times)]


def simulated_rows(_options, tutti):
    name = "big_jobs_are_collected_in_time_and_memory"
    env = {**os.environ, "TUTTI_TEST_SHARE": "4", "TUTTI_TEST_TURN": "0",
           "CMOCKA_TEST_FILTER": name}
    done = subprocess.run([program_of(tutti, "status", "test_collect")], env=env,
                          capture_output=True, text=True, check=False)
    found = re.search(rf"{SIMULATED_RANKS} ranks: ([0-9.]+) s, .* at most ([0-9.]+) MiB",
                      done.stdout + done.stderr)
    if done.returncode or not found:
        raise say.Problem(f"tests/status/test_collect: {(done.stdout + done.stderr)[-300:]}")
    what = simulated_names()
    return [row(what[0], float(found[1]), SIMULATED_REACH, "s",
                "links with up to 0.1 ms, one rank stopped", [float(found[1])]),
            row(what[1], float(found[2]), SIMULATED_MIB, "MiB", "the busiest rank",
                [float(found[2])])]


# ---- tutti analyze ----

def used_by(argv):
    """Returns the seconds and the peak resident bytes of a command, and its output."""
    with tempfile.TemporaryFile("w+") as out:
        begin = time.monotonic()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return seconds, usage.ru_maxrss * 1024, out.read()


def dumps_rows(options, tutti, ranks, shape, reach_s, reach_gib):
    tensor, data, stages = shape
    with tempfile.TemporaryDirectory(prefix="tutti-bench.", dir="/var/tmp") as folder:
        argv = [program_of(tutti, "analyze", "prog_job"), folder, "1", "died", str(tensor),
                str(data), str(EXPERT), str(stages)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise say.Problem(f"prog_job: exit status {done.returncode} {done.stderr.strip()}")
        culprit = int(done.stdout.split()[-1])
        nbytes = sum(entry.stat().st_size for entry in os.scandir(folder))
        found = []
        for _ in range(max(1, options.runs // 3)):
            with quiet.alone(options.lock):
                found.append(used_by([tutti, "analyze", folder]))
    if any(f"Rank {culprit} died" not in " ".join(text.split()) for _, _, text in found):
        raise say.Problem(f"the analysis did not name rank {culprit}: {found[0][2][:300]}")
    times, memory = [one[0] for one in found], [one[1] / (1 << 30) for one in found]
    what = dumps_names(ranks)
    return [row(what[0], statistics.median(times), reach_s, "s",
                f"{nbytes / 1e6:.0f} MB in files that were just written", times),
            row(what[1], max(memory), reach_gib, "GiB", "peak resident set", memory)]


# ---- the clock ----

def clock_rows(options, tutti):
    why = wan.wan.why_not()
    if why:
        raise say.Problem(why)
    program = program_of(tutti, "cluster", "prog_hang")
    trip_us = 2e3 * ONE_WAY_MS
    matrix = {"hosts": [{"name": "host0"}, {"name": "host1"}],
              "delay_ms": ONE_WAY_MS, "rate_mbit": CLOCK_MBIT}
    errors, bounds = [], []
    with quiet.alone(options.lock), wan.Wan(matrix) as net:
        for _ in range(options.runs):
            clock = one_clock(net, tutti, program)
            errors.append(100 * abs(clock["offset_ns"]) / 1e3 / trip_us)
            bounds.append(100 * clock["error_ns"] / 1e3 / trip_us)
    against = f"a line of {CLOCK_MBIT} Mbit/s and {2 * ONE_WAY_MS} ms"
    return [row(CLOCK, max(errors), CLOCK_REACH, "%", against, errors),
            row(CLOCK_BOUND, max(bounds), None, "%", against, bounds)]


def one_clock(net, tutti, program):
    """A job whose rank 1 never makes a call. Returns the clock in the dump of rank 1."""
    with tempfile.TemporaryDirectory(prefix="tutti-bench.") as folder:
        env = {**os.environ, "TUTTI_TRACE_DIR": folder, "EXITS": "1", "TUTTI_STATUS": "0"}
        argv = net.inside(0, tutti, "run", "-n", 2, "--survive", "--hosts", "host0:1,host1:1",
                          "--rsh", net.on, "-x", "TUTTI_TRACE_DIR", "-x", "EXITS",
                          "-x", "TUTTI_STATUS", "--", program, "never", 1, 1, 1, 0, 64,
                          CLOCK_TIMEOUT_MS, folder)
        job = subprocess.Popen([str(word) for word in argv], env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            return await_clock(Path(folder), job)
        finally:
            (Path(folder) / "done").touch()
            job.terminate()
            job.communicate()


def await_clock(folder, job):
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        for path in folder.glob("*.1.jsonl"):
            with open(path, encoding="utf-8") as f:
                clock = json.loads(f.readline())["clock"]
            if clock["offset_ns"] is None:
                raise say.Problem("rank 1 does not know the clock of the job")
            return clock
        if job.poll() is not None:
            raise say.Problem(f"the job ended: {job.stderr.read()[-300:]}")
        time.sleep(0.05)
    raise say.Problem(f"no dump of rank 1 after {START_S} s")


# ---- lanes ----

def lanes_rows(options, tutti, wire, lanes):
    with tempfile.TemporaryDirectory(prefix="tutti-bench.") as base, quiet.alone(options.lock):
        env = {**os.environ, "TUTTI_STATUS": base, "TUTTI_LANES": str(lanes)}
        job = subprocess.Popen([tutti, "perf", "allreduce", "-n", "2", "--wire", wire, "--min",
                                LANES_SIZE, "--max", LANES_SIZE, "--iters", "1000000"],
                               env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
        try:
            found = lanes_samples(tutti, env, job, wire, 2 * lanes)
        finally:
            job.terminate()
            job.communicate()
    against = f"allreduce of {LANES_SIZE}, 2 ranks on this machine: sum over both"
    rows = []
    for what, (unit, value) in zip(lanes_names(wire, lanes), CURVES.values()):
        samples = [value(one) for one in found]
        rows.append(row(what, statistics.median(samples), None, unit, against, samples))
    return rows


def lanes_samples(tutti, env, job, wire, ends):
    """The lanes of the transport in answers of both ranks: LANES_SAMPLES of them, 1 s apart."""
    found = []
    end = time.monotonic() + START_S
    while len(found) < LANES_SAMPLES:
        if job.poll() is not None:
            raise say.Problem(job.stderr.readline().strip())
        if time.monotonic() > end:
            raise say.Problem(f"tutti top does not show {ends} lanes of {wire}")
        done = subprocess.run([tutti, "top", "--json", "--once"], env=env, capture_output=True,
                              text=True, check=False)
        shown = json.loads(done.stdout)["lanes"] if done.returncode == 0 else []
        found += [x for x in shown if x["wire"] == wire and x["ranks"] == 2 and x["up"] == ends]
        time.sleep(1)
    return found


# ---- all ----

def parts(options, tutti):
    """(rows, function that measures them) in order."""
    yield (TRACE, TRACE_OFF), lambda: trace_rows(options, tutti)
    yield (status_name(status_ranks(options)),), lambda: status_rows(options, tutti)
    yield simulated_names(), lambda: simulated_rows(options, tutti)
    for one in dumps_of(options):
        yield dumps_names(one[0]), lambda one=one: dumps_rows(options, tutti, *one)
    yield (CLOCK, CLOCK_BOUND), lambda: clock_rows(options, tutti)
    for one in lanes_cases(options):
        yield lanes_names(*one), lambda one=one: lanes_rows(options, tutti, *one)


def run(options):
    tutti = str(build.tutti(options.tutti))
    for whats, measure in parts(options, tutti):
        chosen = [what for what in whats if not options.only or options.only.search(what)]
        if not chosen:
            continue
        say.progress(chosen[0])
        try:
            rows = measure()
        except (say.Problem, wan.HostsError, GroupError, subprocess.TimeoutExpired,
                OSError) as why:
            rows = skipped(whats, why)
        yield from (one for one in rows if one["what"] in chosen)
