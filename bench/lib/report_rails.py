"""docs/rails.md out of the rows of bench/run rails."""

import statistics

from . import results, say

TITLE = "# Several rails per host"

METHOD = """\
A host with several network cards (*rails*) is served well when each of its ranks drives one of them: *parallel rings*, one ring per
local rank, each on its own rail, with the exchange inside hosts running beside them ([algorithms.md](algorithms.md)). This
page says what that brings on real links; all of it comes from one run of `bench/run rails`, and what that run left out is told with its numbers.

## How to run it

    bench/run rails                         4, 16 and 64 MiB, matrices of 2048 and 4096; about 20 minutes, as root
    bench/run rails --quick                 2 rounds, without 64 MiB and 4096; with --only 'allgather 4 MiB' these rows alone
    bench/run rails --list                  the rows, measuring nothing
    bench/run rails --testbed-only          a shell on the first host of the testbed, to look around (`on host1 ip link`)
    bench/report.py build/bench/rails.json  this page, anew

It needs root, and the Debian packages `iproute2 iperf3 iputils-ping openmpi-bin libopenmpi-dev`. On a machine on which others measure
too, `--lock FILE` makes runs take turns.

## The testbed

Hosts are network namespaces with a name, a `/sys` and an `/etc/hosts` of their own. Each rail is a veth pair to a bridge of that rail, and
HTB holds both of its directions at the rate ([tests/support/testbed.py](../tests/support/testbed.py) draws it). Rails are not joined. One small
process holds the namespaces; when the run ends, however it ends, they are gone with all that ran in them. TCP uses `cubic` on all of
them, whatever the system's default: `bbr` gives flows that pause between rounds less than their share.

## What a row says

Each round measures one iperf3 stream per rail, all at once from host 0 to host 1, and then every contestant in turn. Of all of them the
first second is left out: after a pause TCP opens its windows only by and by. An iteration is
barrier, time, operation, and counts as long as its slowest rank took; every algorithm's result is checked first. *Share* is what must enter
each host, over the time taken, over the sum of the iperf3 streams. *Faster* is the other's time over that of parallel rings. Ranks are bound to
a rail by Tutti (`--binding`), for the flat ring too; to Open MPI all rails are offered (`btl_tcp_if_include`), ranks of a host
share memory, and the best of its all-gathers (linear, Bruck, recursive doubling, ring, neighbour exchange) counts. *Processors* is how
busy they were meanwhile (of rows against Open MPI: while Open MPI ran): where that is near 100 %, all ranks of all hosts being on this one machine, links did not set the time."""

YARDSTICK = """\
## The yardstick

What the paper of parallel rings ("Scalable, Topology- and Multi-HCA-Aware Hierarchical GPU Allgather Using Parallel Rings", 2026) says of
its own implementation, on its own clusters with GPUs and InfiniBand. None of this was measured here."""

YARDSTICK_ROWS = [
    ["full mesh in hosts, 32 GPUs", "Open MPI", "up to 74 % less latency"],
    ["full mesh in hosts, 32 GPUs", "MVAPICH-Plus", "up to 80 % less latency"],
    ["full mesh in hosts, 32 GPUs", "NCCL", "up to 31 % less latency"],
    ["sockets in hosts", "NCCL", "level with it"],
    ["sockets in hosts, training with FSDP", "NCCL", "16 % behind it: no reduce_scatter"],
]

WHOLE = (" 4 MiB", " 16 MiB", " 64 MiB", "2048 x 2048", "4096 x 4096")     # what rows of a run without --quick and --only are about
PLAIN = "times on hosts of one rank and one rail"
ROUNDS, FEWER_ROUNDS = 5, 3     # of such a run, and of its matrices and times

BYTES = """\
Of Open MPI by bytes alone: the best that links let parallel rings gain is what the busiest rail sends for the one over what it sends for the other. A flat ring that is striped over *R* rails moves
(*P* - 1) / *R* blocks a rail, where parallel rings move *P* / *g* - 1: 15/4 against 3 on 4 hosts of 4 ranks, which is 1.25. What is measured above that is no gain of the links: it is what all ranks of all hosts cost the processors
of this one machine, which are as busy meanwhile as is told here, with parallel rings and with Open MPI."""

TIMES = """\
## Times for the simulator

Medians, with what a simulator has to know of the network. The results file has them with all samples."""


def less(row):
    """The ratio, also as the share of time that is saved: the paper's way to say it."""
    return f"{say.number(row['value'])} x" + (f" ({100 * (1 - 1 / row['value']):.0f} % less)" if "faster" in row["what"] else "")


def row_line(row):
    if "skipped" in row:
        return [row["what"], row.get("against") or "", "skipped", "", "", "", row["skipped"]]
    low, high = row["spread"]
    reach = "" if row["reach"] is None else say.number(row["reach"])
    cpu = f"{100 * row['cpu']:.0f} %" if "cpu" in row else ""
    against = row.get("best") or row["against"]
    return [row["what"], against, less(row), f"{say.number(low)} to {say.number(high)}", reach, cpu, say.verdict(row)]


def rounds_of(row):
    """How many it is the median of; 0 for what was skipped."""
    return len(next(iter(row["samples"].values()))) if "samples" in row else 0


def left_out(rows, times):
    """What a whole run has and these rows have not."""
    told = " ".join(row["what"] for row in rows)
    missing = [what.strip() for what in WHOLE if what not in told]
    if not any(row["network"]["ranks_per_host"] == 1 for row in times):
        missing.append(PLAIN)
    sentences = ["It has nothing of: " + ", ".join(missing) + "."] if missing else []
    short = [(rounds_of(row), FEWER_ROUNDS if row in times or "matrix" in row["what"] else ROUNDS) for row in [*rows, *times] if rounds_of(row)]
    short = sorted({(have, whole) for have, whole in short if have < whole})
    if short:
        sentences.append("It has fewer rounds: " + ", ".join(f"{have} of {whole}" for have, whole in short) + ".")
    return " ".join(["This run was a part of the whole one (`--quick`, say).", *sentences]) if sentences else ""


def busiest(row):
    return max(mib for host in row["rail_mib"] for mib in host)


def bytes_lines(rows):
    """Of each size that has both: how much less the busiest rail sends than Open MPI's, beside what was measured."""
    ours = {row["what"].split(":")[0]: row for row in rows if row["what"].endswith(": share") and row.get("rail_mib")}
    for row in rows:
        case = row["what"].split(":")[0]
        if row["what"].endswith("faster than Open MPI") and row.get("rail_mib") and case in ours:
            mine = ours[case]
            yield [case.split(",")[0], row["best"], say.number(busiest(row)), say.number(busiest(mine)), f"{busiest(row) / busiest(mine):.2f} x",
                   f"{say.number(row['value'])} x", f"{100 * mine['cpu']:.0f} %", f"{100 * row['cpu']:.0f} %"]


def rail_lines(rows):
    """How evenly the rails were used: the least and the most that one sent, of all hosts."""
    for row in rows:
        if "rail_mib" in row and "share" in row["what"]:
            sent = [mib for host in row["rail_mib"] for mib in host]
            yield [row["what"].split(":")[0], say.number(min(sent)), say.number(statistics.mean(sent)), say.number(max(sent))]


def time_line(row):
    n = row["network"]
    shape = f"{n['hosts']} x {n['ranks_per_host']} ranks, {n['rails']} rail{'s' if n['rails'] > 1 else ''}"
    network = f"{n['goodput_mbit']} of {n['rate_mbit']} Mbit/s, ping {n['ping_rtt_us']:.0f} us"
    return [row["collective"], row["algo"], say.size(row["size"]), shape, f"{row['value'] / 1000:.2f}", f"{100 * row['cpu']:.0f} %", network]


def markdown(data, machine_table):
    times = [row for row in data["rows"] if row["what"].startswith("time of")]
    rows = [row for row in data["rows"] if row not in times]
    measured = [row for row in times if "value" in row]
    missing = [row for row in times if "skipped" in row]
    parts = [TITLE, METHOD, "## Measured here", machine_table]
    if rows:
        parts.append(results.aligned(["what", "against", "value", "rounds", "reach", "processors", ""], map(row_line, rows)))
    if left_out(rows, measured):
        parts.append(left_out(rows, measured))
    beside = list(bytes_lines(rows))
    if beside:
        parts += [BYTES, results.aligned(["operation", "Open MPI's", "its busiest rail, MiB", "ours", "by bytes", "measured", "processors", "with Open MPI"], beside)]
    rails = list(rail_lines(rows))
    if rails:
        parts += ["MiB that each rail of each host sent in one operation, with all headers:",
                  results.aligned(["operation", "least", "mean", "most"], rails)]
    parts += [YARDSTICK, results.aligned(["where", "against", "result"], YARDSTICK_ROWS)]
    if measured:
        parts += [TIMES, results.aligned(["", "algorithm", "size", "where", "ms", "processors", "network"], map(time_line, measured))]
    if missing:
        parts.append("Not measured:\n\n" + "\n".join(f"- {row['what']}: {row['skipped']}" for row in missing))
    return "\n\n".join(parts) + "\n"
