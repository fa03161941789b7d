"""The ring with bounded bytes in flight (docs/algorithms.md, FTAR) compared with the plain ring,
and its number of bytes in flight.

Four ranks are four replica groups. Both algorithms run in the same processes, in turn. The value of
a row is the median over rounds of the ratio. On shaped links both times depend on the link, on one
host on the processors."""

import contextlib
import json
import os
import statistics
import subprocess

from lib import build, quiet, say, shaped
from lib.group import Group, GroupError, Refused

SUMMARY = "the all-reduce with bounded bytes in flight, against the plain ring"

RANKS = 4
LINK_MBIT = 400
REACH = 1.05
TROUBLE = (GroupError, Refused, say.Problem, shaped.HostsError)
# (network, MiB, rounds, iterations per round)
RATIOS = [("shaped links", 16, 3, 1), ("shaped links", 64, 3, 1), ("one host, shm", 16, 31, 5),
          ("one host, shm", 64, 31, 2),
          ("one host, tcp", 16, 31, 3), ("one host, tcp", 64, 31, 1)]
# (wire, chunk bytes, chunks)
FLIGHTS = [("shm", 8 << 20, 4), ("tcp", 8 << 20, 4), ("tcp", 1 << 20, 2)]


def add_options(parser):
    parser.add_argument("--tutti", metavar="FILE",
                        help="the tutti command (default build/release/tutti)")
    quiet.add_option(parser)


def ratio_what(where, mib):
    link = f", {LINK_MBIT} Mbit/s" if where == "shaped links" else ""
    return f"FTAR against the plain ring, {RANKS} groups, {mib} MiB, {where}{link}"


def flight_what(wire, chunk_bytes, chunks):
    return (f"FTAR, most bytes in flight between two peers, {RANKS} groups, 64 MiB, {wire}, S = "
            f"{chunk_bytes >> 20} MiB, C = {chunks}")


def wanted(options, cases, what_of):
    return [case for case in cases if not options.only or options.only.search(what_of(*case))]


def ratio_cases(options):
    return wanted(options, RATIOS, lambda where, mib, *_: ratio_what(where, mib))


def flight_cases(options):
    return wanted(options, FLIGHTS, flight_what)


def listing(options):
    for where, mib, *_ in ratio_cases(options):
        yield f"{ratio_what(where, mib)}  reach {REACH}"
    for case in flight_cases(options):
        yield f"{flight_what(*case)}  reach {case[1] * case[2]}"


@contextlib.contextmanager
def group_on_links(tutti):
    with shaped.Testbed(RANKS, 1, LINK_MBIT) as net:
        launches = [(net.inside(r, tutti, "perf", "--interactive", "{dir}", "--wire", "tcp"),
                     {"TUTTI_RANK": str(r), "TUTTI_SIZE": str(RANKS),
                      "TUTTI_RENDEZVOUS": f"tcp://{net.address(0)}:29478"})
                    for r in range(RANKS)]
        with Group("Tutti", RANKS, launches) as group:
            yield group


def group_of(where, tutti):
    if where == "shaped links":
        return group_on_links(tutti)
    wire = where.rsplit(" ", 1)[1]
    return Group("Tutti", RANKS, [([tutti, "run", "-n", RANKS, "--", tutti, "perf", "--interactive",
                                    "{dir}", "--wire", wire], {})])


def turn_us(group, algo, mib, iters, first):
    reply = group.command(f"allreduce/{algo}", mib << 20, iters, 1 if first else 0)
    if reply["wrong"]:
        raise say.Problem(f"{algo}: {reply['wrong']} elements are wrong")
    return statistics.median(reply["samples_us"])


def ratio_row(options, tutti, where, mib, nrounds, iters):
    times = {"ftar": [], "ring": []}
    with quiet.alone(options.lock), group_of(where, tutti) as group:
        for i in range(nrounds):
            for algo in ("ring", "ftar") if i % 2 else ("ftar", "ring"):
                times[algo].append(turn_us(group, algo, mib, iters, i == 0))
    ratios = [f / r for f, r in zip(times["ftar"], times["ring"])]
    say.progress(f"    {ratio_what(where, mib)}: {statistics.median(ratios):.3f}")
    return {"what": ratio_what(where, mib), "value": round(statistics.median(ratios), 4),
            "reach": REACH, "unit": "x", "better": "lower",
            "against": "allreduce_ring in the same processes",
            "spread": [round(min(ratios), 4), round(max(ratios), 4)], "samples": times}


def flight_row(options, tutti, wire, chunk_bytes, chunks):
    argv = [tutti, "perf", "-n", RANKS, "--wire", wire, "allreduce", "--algo", "ftar", "--min",
            "64M", "--max", "64M", "--iters", 3, "--warmup", 1,
            "--out-of-place", "--check", "--timers", "--json"]
    with quiet.alone(options.lock):
        done = subprocess.run([str(word) for word in argv], capture_output=True, text=True,
                              check=False, timeout=120, env={
            **os.environ, "TUTTI_FTAR_CHUNK_BYTES": str(chunk_bytes),
                                  "TUTTI_FTAR_CHUNKS": str(chunks)})
    if done.returncode:
        raise say.Problem(f"tutti perf: {done.stderr.strip() or done.stdout.strip()}")
    row = json.loads(done.stdout)
    return {"what": flight_what(wire, chunk_bytes, chunks), "value": row["in_flight_max_bytes"],
            "reach": chunk_bytes * chunks, "unit": "B",
            "better": "lower", "against": "S x C",
            "samples": {"in_flight_max_bytes": [row["in_flight_max_bytes"]]},
            "where_us": {part: row[part] for part in ("call_us", "send_us", "forward_us",
                                                      "reduce_us", "copy_us", "wire_us",
                                                      "wait_us")}}


def row_or_why(what, measure):
    try:
        return measure()
    except TROUBLE as why:
        return {"what": what, "skipped": str(why)}


def run(options):
    tutti = build.tutti(options.tutti)
    no_links = shaped.why_not()
    for case in ratio_cases(options):
        what = ratio_what(case[0], case[1])
        if case[0] == "shaped links" and no_links:
            yield {"what": what, "skipped": no_links}
        else:
            yield row_or_why(what, lambda case=case: ratio_row(options, tutti, *case))
    for case in flight_cases(options):
        yield row_or_why(flight_what(*case), lambda case=case: flight_row(options, tutti, *case))
