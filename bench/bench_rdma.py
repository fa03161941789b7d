"""DQPLB over a simulated network (docs/lanes.md): `tutti lanes`, in simulated time, so the numbers
are the same on every machine. The ofi transport over TCP, on this machine (lib/fabric.py). The
verbs transport compared with perftest on the same soft-RoCE device (docs/rdma.md), in the virtual
machine of scripts/rdma-vm; only ratios, because it is emulated. Puts with signals over both, in
each mode of the proxy (lib/proxies.py).

Simulated cases: one slow path among 16, with the achieved share of the possible throughput,
compared with static striping; and a switch whose uplinks carry a quarter of the traffic of 64
senders, with the queue at the uplinks compared with that of unlimited senders, and the cost of the
limits. Both use four outstanding segments per lane, and the limits that the verbs transport uses
for peers at this distance, without and with a description of the link."""

import json
import os
import statistics
import subprocess

from lib import build, fabric, proxies, say

SUMMARY = ("lane limits (DQPLB) over a simulated network; ofi against tcp and fi_pingpong; "
           "verbs against perftest on soft-RoCE; modes of the proxy over both")

SLOW = (0.5, 0.25)
OUTSTANDING = 4
SENDERS = ("--senders", "64", "--path-rate", "50", "--slow-paths", "0", "--slow", "1", "--latency",
           "20", "--messages", "20")
AT_FOUR = ("--outstanding", str(OUTSTANDING))
FAR_US = 30         # one way
# Source of the limits: for lanes to peers in the same fabric, and in the same rack
BOUNDS = {
    "4 outstanding": (AT_FOUR, (*AT_FOUR, "--lanes", "2")),
    "limits of the wire": (("--distance", "fabric", "--latency", str(FAR_US)),
                           ("--distance", "rack")),
    "limits of the wire, link told": (("--distance", "fabric", "--latency", str(FAR_US),
                                       "--described"), ("--distance", "rack", "--described")),
}


VM_S = 1200
CASES = {        # (what, bytes): peer, better direction, target
    ("bandwidth", 1 << 20): ("ib_write_bw", "higher", 0.9),
    ("bandwidth", 4 << 20): ("ib_write_bw", "higher", 0.9),
    ("latency", 8): ("ib_write_lat", "lower", 1.3),
}


def add_options(parser):
    parser.add_argument("--tutti", metavar="PATH",
                        help="the tutti to run (default build/release/tutti)")
    parser.add_argument("--rounds", metavar="N", type=int, default=5,
                        help="measurements of each side, in rows of transports (default 5)")


def slow_names(slow, bounds):
    return tuple(f"a way of 16 at {slow:g} of its rate, {bounds}: {what}"
                 for what in ("share of ideal", "against static stripes"))


def rack_names(bounds):
    return tuple(f"64 senders, uplinks oversubscribed 4 times, {bounds}: {what}"
                 for what in ("throughput", "mean queue", "longest queue"))


def lanes_names():
    """The names of all rows of simulated lanes."""
    for bounds in BOUNDS:
        for slow in SLOW:
            yield from slow_names(slow, bounds)
        yield from rack_names(bounds)


def case_name(what, nbytes):
    return (f"verbs on soft-RoCE, {'sendrecv' if what == 'bandwidth' else 'pingpong'} "
            f"{say.size(nbytes)}: {what}")


def listing(options):
    yield from lanes_names()
    yield from fabric.listing()
    for case in CASES:
        yield case_name(*case)
    yield from proxies.listing()


def lanes(program, *options):
    """{how: row} of one run with one limit."""
    done = subprocess.run([program, "lanes", "--json", *options], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise say.Problem(done.stderr.strip())
    return {row["how"]: row for row in json.loads(done.stdout)}


def row(what, value, reach, better, against, of):
    """Makes a row from the output of `tutti lanes` for a limit."""
    return {"what": what, "value": value, "reach": reach, "unit": "x", "better": better,
            "against": against, "lanes": of["lanes"],
            "segment_bytes": of["segment_bytes"], "outstanding": of["outstanding"], "samples": []}


def lanes_rows(program):
    for bounds, (far, near) in BOUNDS.items():
        for slow in SLOW:
            of_ideal, of_static = slow_names(slow, bounds)
            got = lanes(program, *far, "--slow", str(slow))
            share = got["dqplb"]["share"]
            yield row(of_ideal, share, 0.95, "higher", "all ways at their rates", got["dqplb"])
            yield row(of_static, share / got["static"]["share"], 1.5, "higher",
                      "a stripe for each lane", got["dqplb"])
        got = lanes(program, *SENDERS, *near)
        keys = (("bytes_per_s", 0.97, "higher"), ("queue_mean_bytes", 0.1, "lower"),
                ("queue_most_bytes", 0.1, "lower"))
        for what, (key, reach, better) in zip(rack_names(bounds), keys):
            yield row(what, got["dqplb"][key] / got["unlimited"][key], reach, better, "no bounds",
                      got["dqplb"])


def turns_on_rdma(program, rounds):
    """{(what, bytes): {"tutti": [...], "perftest": [...]}} of alternating measurements in the
    virtual machine."""
    done = subprocess.run([build.ROOT / "scripts" / "rdma-vm", "--work", build.ROOT, "--timeout",
                           str(VM_S), "--",
                           build.BENCH / "peers" / "rdma_turns.sh", program, str(rounds)],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise say.Problem(f"scripts/rdma-vm ended with status {done.returncode}: "
                          f"{done.stdout[-500:]}")
    found = {}
    for line in done.stdout.splitlines():
        what, who, nbytes, value = line.split()
        found.setdefault((what, int(nbytes)), {}).setdefault(who, []).append(float(value))
    return found


def rdma_rows(options, program):
    wanted = [case for case in CASES if not options.only or options.only.search(case_name(*case))]
    if not wanted:
        return
    try:
        build.program("ib_write_bw", "perftest")
        found = turns_on_rdma(program, options.rounds)
    except say.Problem as why:
        for case in wanted:
            yield {"what": case_name(*case), "skipped": str(why)}
        return
    for case in wanted:
        peer, better, reach = CASES[case]
        ratios = [ours / theirs for ours, theirs in zip(found[case]["tutti"],
                                                        found[case]["perftest"])]
        yield {"what": case_name(*case), "value": round(statistics.median(ratios), 3),
               "reach": reach, "unit": "x", "better": better, "against": peer,
               "spread": [round(min(ratios), 3), round(max(ratios), 3)], "samples": found[case]}


def run(options):
    program = str(build.tutti(options.tutti))
    if not os.access(program, os.X_OK):
        raise say.Problem(f"{program} cannot be run: build it first (cmake --build --preset "
                          f"release)")
    if not options.only or any(options.only.search(what) for what in lanes_names()):
        yield from (one for one in lanes_rows(program) if not options.only
                    or options.only.search(one["what"]))
    yield from fabric.rows(program, options.rounds, options.only)
    yield from rdma_rows(options, program)
    yield from proxies.rows(program, options.rounds, options.only)
