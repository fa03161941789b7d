"""Writes docs/rails.md from the rows of bench/run rails."""

import statistics

from . import results, say

TITLE = "# Several rails per host"

METHOD = """\
On hosts with several network cards (*rails*), each rank should use a different one. *Parallel
rings* have one ring per local rank, each on its own rail, while data is exchanged within hosts at
the same time ([algorithms.md](algorithms.md)). This page contains measurements on real links, from
one run of `bench/run rails`. Cases that this run omitted are listed with the results.

## Running it

    # 4, 16 and 64 MiB, matrices of 2048 and 4096; about 20 minutes, as root
    bench/run rails
    # 2 rounds, without 64 MiB and 4096; --only 'allgather 4 MiB' selects rows
    bench/run rails --quick
    # lists the rows without measuring
    bench/run rails --list
    # a shell on the first host of the testbed (`on host1 ip link` runs a command on another)
    bench/run rails --testbed-only
    # regenerates this page
    bench/report.py build/bench/rails.json

It requires root and the Debian packages `iproute2 iperf3 iputils-ping openmpi-bin libopenmpi-dev`.
With `--lock FILE`, several users of a machine measure in turn.

## The testbed

Hosts are network namespaces, each with its own name, `/sys` and `/etc/hosts`. Each rail is a veth
pair to the bridge of that rail, and HTB limits the rate in both directions
([tests/support/testbed.py](../tests/support/testbed.py) contains a drawing). Rails are not
connected to each other. One process holds the namespaces; when the run ends in any way, they and
all their processes are removed. TCP uses `cubic`, independent of the system's default, because
`bbr` gives too small a share to flows that pause between rounds.

## Method

Each round measures one iperf3 stream per rail, all at once from host 0 to host 1, and then each
algorithm in turn. The first second of each is ignored, because TCP opens its windows gradually
after a pause. An iteration is a barrier followed by the operation; its time is that of the slowest
rank. The result of each algorithm is checked first. *Share* is the data that must enter each host,
divided by the time and by the rate of all iperf3 streams. *Faster* is the other time divided by
that of parallel rings. Tutti assigns ranks to rails, also for the flat ring. Open MPI can use all
rails (`btl_tcp_if_include`), its ranks on a host share memory, and its fastest allgather is used
(linear, Bruck, recursive doubling, ring, neighbour exchange). *processors* is the CPU utilization
during the measurement (in rows against Open MPI: of Open MPI). All ranks of all hosts are on one
machine, so near 100 % the links are not the bottleneck."""

YARDSTICK = """\
## Results of the paper

The paper on parallel rings ("Scalable, Topology- and Multi-HCA-Aware Hierarchical GPU Allgather
Using Parallel Rings", 2026) reports these results of its implementation on clusters with GPUs and
InfiniBand. They were not reproduced."""

YARDSTICK_ROWS = [
    ["full mesh in hosts, 32 GPUs", "Open MPI", "up to 74 % less latency"],
    ["full mesh in hosts, 32 GPUs", "MVAPICH-Plus", "up to 80 % less latency"],
    ["full mesh in hosts, 32 GPUs", "NCCL", "up to 31 % less latency"],
    ["sockets in hosts", "NCCL", "equal"],
    ["sockets in hosts, training with FSDP", "NCCL", "16 % slower: no reduce_scatter"],
]

# sizes of a run without --quick and --only
WHOLE = (" 4 MiB", " 16 MiB", " 64 MiB", "2048 x 2048", "4096 x 4096")
PLAIN = "times on hosts of one rank and one rail"
ROUNDS, FEWER_ROUNDS = 5, 3     # of such a run, and of its matrices and times

BYTES = """\
The links alone explain only a part of the gain over Open MPI: the ratio of the bytes that the
busiest rail sends. A flat ring that is striped over *R* rails sends (*P* - 1) / *R* blocks per
rail, and parallel rings send *P* / *g* - 1. On 4 hosts of 4 ranks these are 15/4 and 3, a ratio of
1.25. The rest of the gain is CPU time: all ranks of all hosts share the cores of one machine. The
last two columns contain the CPU utilization with parallel rings and with Open MPI."""

TIMES = """\
## Times for the simulator

Medians, with the parameters of the network that a simulator needs. The results file also contains all samples."""


def less(row):
    """The ratio, also as the share of time saved, as in the paper."""
    return f"{say.number(row['value'])} x" + (f" ({100 * (1 - 1 / row['value']):.0f} % less)"
                                              if "faster" in row["what"] else "")


def row_line(row):
    if "skipped" in row:
        return [row["what"], row.get("against") or "", "skipped", "", "", "", row["skipped"]]
    low, high = row["spread"]
    reach = "" if row["reach"] is None else say.number(row["reach"])
    cpu = f"{100 * row['cpu']:.0f} %" if "cpu" in row else ""
    against = row.get("best") or row["against"]
    return [row["what"], against, less(row), f"{say.number(low)} to {say.number(high)}", reach, cpu,
            say.outcome(row)]


def rounds_of(row):
    """Number of rounds of the median; 0 for skipped rows."""
    return len(next(iter(row["samples"].values()))) if "samples" in row else 0


def left_out(rows, times):
    """Rows of a complete run that are missing here."""
    told = " ".join(row["what"] for row in rows)
    missing = [what.strip() for what in WHOLE if what not in told]
    if not any(row["network"]["ranks_per_host"] == 1 for row in times):
        missing.append(PLAIN)
    sentences = ["It has nothing of: " + ", ".join(missing) + "."] if missing else []
    short = [(rounds_of(row), FEWER_ROUNDS if row in times or "matrix" in row["what"] else ROUNDS)
             for row in [*rows, *times] if rounds_of(row)]
    short = sorted({(have, whole) for have, whole in short if have < whole})
    if short:
        sentences.append("It has fewer rounds: "
                         + ", ".join(f"{have} of {whole}" for have, whole in short) + ".")
    return " ".join(["This was not a complete run (e.g. with `--quick`).",
                     *sentences]) if sentences else ""


def busiest(row):
    return max(mib for host in row["rail_mib"] for mib in host)


def bytes_lines(rows):
    """For each size that has both: the reduction of bytes on the busiest rail relative to Open MPI,
    and the measured speed-up."""
    ours = {row["what"].split(":")[0]: row for row in rows if row["what"].endswith(": share")
            and row.get("rail_mib")}
    for row in rows:
        case = row["what"].split(":")[0]
        if row["what"].endswith("faster than Open MPI") and row.get("rail_mib") and case in ours:
            mine = ours[case]
            yield [case.split(",")[0], row["best"], say.number(busiest(row)),
                   say.number(busiest(mine)), f"{busiest(row) / busiest(mine):.2f} x",
                   f"{say.number(row['value'])} x", f"{100 * mine['cpu']:.0f} %",
                   f"{100 * row['cpu']:.0f} %"]


def rail_lines(rows):
    """The balance of rails: minimum and maximum bytes sent by a rail, over all hosts."""
    for row in rows:
        if "rail_mib" in row and "share" in row["what"]:
            sent = [mib for host in row["rail_mib"] for mib in host]
            yield [row["what"].split(":")[0], say.number(min(sent)),
                   say.number(statistics.mean(sent)), say.number(max(sent))]


def time_line(row):
    n = row["network"]
    shape = (f"{n['hosts']} x {n['ranks_per_host']} ranks, {n['rails']} "
             f"rail{'s' if n['rails'] > 1 else ''}")
    network = f"{n['goodput_mbit']} of {n['rate_mbit']} Mbit/s, ping {n['ping_rtt_us']:.0f} us"
    return [row["collective"], row["algo"], say.size(row["size"]), shape,
            f"{row['value'] / 1000:.2f}", f"{100 * row['cpu']:.0f} %", network]


def markdown(data, machine_table):
    times = [row for row in data["rows"] if row["what"].startswith("time of")]
    rows = [row for row in data["rows"] if row not in times]
    measured = [row for row in times if "value" in row]
    missing = [row for row in times if "skipped" in row]
    parts = [TITLE, METHOD, "## Results", machine_table]
    if rows:
        parts.append(results.aligned(["what", "against", "value", "rounds", "target", "processors",
                                      ""], map(row_line, rows)))
    if left_out(rows, measured):
        parts.append(left_out(rows, measured))
    beside = list(bytes_lines(rows))
    if beside:
        parts += [BYTES, results.aligned(["operation", "Open MPI's", "its busiest rail, MiB",
                                          "ours", "by bytes", "measured", "processors",
                                          "with Open MPI"], beside)]
    rails = list(rail_lines(rows))
    if rails:
        parts += ["MiB that each rail of each host sent in one operation, with all headers:",
                  results.aligned(["operation", "least", "mean", "most"], rails)]
    parts += [YARDSTICK, results.aligned(["where", "against", "result"], YARDSTICK_ROWS)]
    if measured:
        parts += [TIMES, results.aligned(["", "algorithm", "size", "where", "ms", "processors",
                                          "network"], map(time_line, measured))]
    if missing:
        parts.append("Not measured:\n\n" + "\n".join(f"- {row['what']}: {row['skipped']}"
                                                     for row in missing))
    return "\n\n".join(parts) + "\n"
