"""The simulator's predictions compared with real runs on shaped links
(tests/support/testbed.py).

For each shape of the testbed a description is written: the rate of HTB less the headers of
Ethernet, IP and TCP; half of a ping as latency; shared memory between ranks of a host. Nothing
is fitted to the measured times. Real ranks leave a barrier at times that differ by up to one
latency. Therefore the prediction is the median of DRAWS simulations with random start delays up
to that latency. The value of a row is the relative difference between `tutti sim` on that
description and the median of `tutti perf` on the testbed. A row has a target if the links
determine the time: the busiest rail sends during at least LINK_BOUND of the predicted time. For
other rows only the difference is reported: their messages wait for each other, and TCP
determines in which order those of several connections pass a rail, which the simulator does not
model. cpu is the CPU utilization."""

import json
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from lib import build, quiet, rails, say, shaped
from lib.group import GroupError, Refused

SUMMARY = "the simulator's predictions against real runs on shaped links"

MIB = 1 << 20
REACH = 15              # per cent
LINK_BOUND = 0.9        # of the time
SHAPES = ((2, 2), (4, 4), (8, 1))       # hosts, ranks and rails of each
DRAWS = 9
CASES = (("allgather", "ring"), ("allgather", "doubling"), ("allgather", "parallel_rings"),
         ("reduce_scatter", "ring"), ("reduce_scatter", "parallel_rings"),
         ("allreduce", "ring"), ("allreduce", "parallel_rings"), ("broadcast", "binomial"))
CASES_ALONE = (("allgather", "ring"), ("allgather", "doubling"), ("reduce_scatter", "ring"),
               ("reduce_scatter", "halving"), ("allreduce", "ring"),
               # for ranks that are alone on their hosts
               ("allreduce", "rabenseifner"), ("broadcast", "binomial"))
# of a full frame, as HTB counts it: 14 bytes of Ethernet, 20 of IP, 32 of TCP with timestamps
PAYLOAD = 1448 / 1514
MEMORY_GBIT = 40        # between ranks of a host: never the bottleneck here
TROUBLE = (GroupError, Refused, say.Problem, shaped.HostsError)


def add_options(parser):
    parser.add_argument("--mbit", type=int, default=100, help="rate of each rail (default 100)")
    parser.add_argument("--sizes", default="4,16", help="sizes in MiB (default 4,16)")
    parser.add_argument("--shapes", default=",".join(f"{h}x{r}" for h, r in SHAPES),
                        help="hosts x ranks and rails of each (default 2x2,4x4,8x1)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case (default 3)")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")
    quiet.add_option(parser)


def shapes_of(options):
    try:
        pairs = [tuple(int(n) for n in text.split("x")) for text in options.shapes.split(",")]
        return [rails.Shape(hosts, ranks, ranks, options.mbit, "cubic") for hosts, ranks in pairs]
    except ValueError:
        raise say.Problem(f"--shapes {options.shapes}: it should be like 2x2,4x4") from None


def sizes_of(options):
    try:
        return [int(text) * MIB for text in options.sizes.split(",")]
    except ValueError:
        raise say.Problem(f"--sizes {options.sizes}: it should be like 4,16") from None


def what_of(shape, coll, algo, nbytes):
    return f"{coll} {algo} {say.size(nbytes)}, {shape}: prediction is off by"


def cases_of(options, shape):
    return [(coll, algo, nbytes) for coll, algo in (CASES if shape.per_host > 1 else CASES_ALONE)
            for nbytes in sizes_of(options)
            if re.search(options.only, what_of(shape, coll, algo, nbytes))]


def listing(options):
    for shape in shapes_of(options):
        for case in cases_of(options, shape):
            yield f"{what_of(shape, *case)}  reach {REACH} where links bound it"


def description(shape, ping_us):
    """The testbed as a topology description."""
    memory = {"latency_ns": 1000, "gbit_s": MEMORY_GBIT}
    return {"name": "testbed", "node": "mesh", "rails": shape.nrails,
            "links": {"socket": memory, "host": memory,
                      "rack": {"latency_ns": round(ping_us * 1000 / 2),
                               "gbit_s": round(shape.mbit * PAYLOAD / 1000, 6)}},
            "machine": {"ranks_per_host": shape.per_host, "hosts_per_rack": shape.nhosts}}


def predicted_us(program, topo, case, skew_ns, seed):
    coll, algo, nbytes = case
    done = subprocess.run([program, "sim", coll, "--topo", topo, "--algo", algo, "--bytes",
                           str(nbytes), "--skew-ns", str(skew_ns), "--seed", str(seed),
                           "--json", "--quiet"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise say.Problem((done.stderr.strip().splitlines()
                           or [f"exit status {done.returncode}"])[-1])
    return json.loads(done.stdout)["time_us"]


def busiest(turns, network, predicted_us):
    """The share of the predicted time during which the busiest rail sends the bytes that it
    sent."""
    most = max(mib for host in turns.rail_mib for mib in host)
    return round(most * MIB * 8 / (network["gbit_s"] * 1e9) / (predicted_us * 1e-6), 3)


def rows_of(bed, group, options, topo, cases):
    program = build.tutti(options.tutti)
    network = json.loads(Path(topo).read_text(encoding="ascii"))["links"]["rack"]
    for case in cases:
        coll, algo, nbytes = case
        what = what_of(bed.shape, *case)
        try:
            draws = [predicted_us(program, topo, case, network["latency_ns"], seed)
                     for seed in range(1, DRAWS + 1)]
            simulated = statistics.median(draws)
            turns = rails.Turns()
            for _ in range(options.rounds):
                with quiet.alone(options.lock):
                    turns.turns.append(rails.take_turn(bed, group, f"{coll}/{algo}", nbytes))
        except Refused as why:
            yield {"what": what, "skipped": str(why)}
            continue
        off, busy = 100 * (simulated / turns.median_us - 1), busiest(turns, network, simulated)
        say.progress(f"    {what} {off:+.1f} % (predicted {simulated / 1000:.1f} ms, real "
                     f"{turns.median_us / 1000:.1f} ms, a rail busy for {100 * busy:.0f} % of what "
                     f"is predicted)")
        yield {"what": what, "value": round(abs(off), 2), "reach": REACH if busy >= LINK_BOUND
               else None, "unit": "%", "better": "lower", "against": "tutti perf on the testbed",
               "predicted_us": simulated, "measured_us": round(turns.median_us, 1),
               "spread": [round(100 * (simulated / us - 1), 2) for us in
               (max(turns.us), min(turns.us))], "cpu": turns.cpu, "busy": busy,
               "rail_mib": turns.rail_mib, "network": network,
               "samples": {"measured_us": turns.us, "predicted_us": draws}}


def on_bed(options, shape, cases):
    with rails.Bed(shape, False) as bed, tempfile.TemporaryDirectory() as where:
        topo = Path(where) / "testbed.json"
        topo.write_text(json.dumps(description(shape, bed.net.ping_us())), encoding="ascii")
        group = bed.tutti(options.tutti)
        try:
            yield from rows_of(bed, group, options, str(topo), cases)
        finally:
            group.close()


def run(options):
    build.tutti(options.tutti)
    why = shaped.why_not()
    if why:
        raise say.Problem(f"the testbed cannot be made: {why}")
    for shape in shapes_of(options):
        cases = cases_of(options, shape)
        if not cases:
            continue
        say.progress(f"{shape}")
        left = [what_of(shape, *case) for case in cases]
        try:
            for row in on_bed(options, shape, cases):
                left.remove(row["what"])
                yield row
        except TROUBLE as trouble:
            for what in left:
                yield {"what": what, "skipped": str(trouble)}
