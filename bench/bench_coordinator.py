"""Measures what a coordinator needs for many members: time per epoch, time to admit a newcomer, and
memory.

The members are minimal (tests/coordinator/prog_lights.c): real state machines over real connections
to a real `tutti coordinator` with its journal, all in one thread of one other process. The times
include the work of that thread. The memory is the coordinator's peak."""

import json
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from lib import build, quiet, say

SUMMARY = "a coordinator of elastic runs with 8 and with 1,000 members"

CASES = [(8, "TLS", "disk"), (8, "plain", "disk"), (8, "plain", "memory"), (1000, "TLS", "disk"),
         (1000, "plain", "disk")]
ROUNDS = 5
SECURITY = {"TLS": "8f3c1c6f0a6b4e5d", "plain": None}
# directory of the journal; each view is one sync of it
JOURNALS = {"disk": build.ROOT / "build", "memory": "/dev/shm"}
# Targets by number of members: an epoch without changes, ms; an epoch that admits a newcomer, s;
# memory, MB. None: only reported.
REACH = {8: (1.0, None, None), 1000: (1000.0, 1.0, 200)}


def add_options(parser):
    parser.add_argument("--tutti", metavar="PATH",
                        help="the tutti to run (default build/release/tutti)")
    parser.add_argument("--runs", type=int, default=3,
                        help="runs of each case; the median counts (default 3)")
    quiet.add_option(parser)


def names(n, security, journal):
    what = (f"{n} members, {security}, journal on {journal}" if journal == "disk"
            else f"{n} members, {security}, journal in {journal}")
    return (f"{what}: an epoch that changes nothing", f"{what}: an epoch that admits one",
            f"{what}: until all are in the first view",
            f"{what}: memory of the coordinator")


def cases(options):
    return [case for case in CASES if any(re.search(options.only, what) for what in names(*case))]


def listing(options):
    for case in cases(options):
        for what, reach in zip(names(*case), reaches(case[0])):
            yield f"{what}  reach {reach}"


def reaches(n):
    same, grow, memory = REACH[n]
    return same, grow, None, memory


def memory_mb(pid):
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1000


def measure(program, lights, n, security, journal):
    """Runs once; returns the output of prog_lights, and the coordinator's memory."""
    env = {name: value for name, value in os.environ.items() if name != "TUTTI_TOKEN"}
    if SECURITY[security]:
        env["TUTTI_TOKEN"] = SECURITY[security]
    with tempfile.TemporaryDirectory(dir=JOURNALS[journal]) as where:
        args = [program, "coordinator", "--run", "bench", "--listen", "127.0.0.1:0", "--journal",
                f"{where}/journal"]
        with subprocess.Popen(args, stdout=subprocess.PIPE, text=True, env=env) as coordinator:
            try:
                line = coordinator.stdout.readline().split()
                if line[:2] != ["listening", "on"]:
                    raise say.Problem("the coordinator does not start")
                done = subprocess.run([lights, line[2], "bench", str(n), str(ROUNDS)], env=env,
                                      capture_output=True, text=True,
                                      timeout=120, check=False)
                if done.returncode:
                    raise say.Problem(done.stderr.strip()
                                      or f"prog_lights: exit status {done.returncode}")
                return {**json.loads(done.stdout), "memory_mb": memory_mb(coordinator.pid)}
            finally:
                coordinator.terminate()


def rows_of(options, program, lights, case):
    found = []
    for _ in range(options.runs):
        with quiet.alone(options.lock):
            found.append(measure(program, lights, *case))
    same = [1000 * s for one in found for s in one["same_s"]]
    columns = (same, [one["grow_s"] for one in found], [one["first_s"] for one in found],
               [one["memory_mb"] for one in found])
    against = ("calls of all to answers of all", "the same", "from the first connection",
               "the most it had")
    for what, unit, values, reach, beside in zip(names(*case), ("ms", "s", "s", "MB"), columns,
                                                 reaches(case[0]), against):
        value = round(max(values) if unit == "MB" else statistics.median(values), 4)
        say.progress(f"    {what}: {value} {unit}")
        yield {"what": what, "value": value, "reach": reach, "unit": unit, "better": "lower",
               "against": beside, "spread": [min(values), max(values)],
               "samples": values}


def run(options):
    program = build.tutti(options.tutti)
    lights = Path(program).parent / "tests" / "coordinator" / "prog_lights"
    if not os.access(lights, os.X_OK):
        raise say.Problem(f"{lights} is not there: build the tests (cmake --build --preset release)")
    for case in cases(options):
        try:
            yield from rows_of(options, program, str(lights), case)
        except (say.Problem, subprocess.TimeoutExpired) as why:
            for what in names(*case):
                yield {"what": what, "skipped": str(why)}
