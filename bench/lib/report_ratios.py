"""The measured parts of docs/moe.md, out of the rows of bench/run moe (exchanges, the sender's cost of a message, and layers from end to end), that of docs/one-sided.md out of those
of bench/run gemm, and that of docs/elastic.md out of those of bench/run elastic: ratios, each part between marks of its own. A part of which the run has no rows stays as it is."""

import re

from . import report_sim, results, say

HEAD = """\
By `bench/run {benchmark}`, which documents the rows, and written by `bench/report.py build/bench/{benchmark}.json`. On {cpu}, {cores} cores; commit {commit}, {date}; {rounds} rounds of each case; a value is the median of their ratios."""

# By benchmark and the name in the marks: what its rows begin with, and what is above them.
PARTS = {"moe": {
    "moe: exchanges": (r"^(sizes decided late|padded)", "Times on links with limited rates. The target of a padded exchange is nine tenths of the ratio of bytes on the busiest rank's link (*bytes*), because its time should be proportional to the bytes. *cores* is the share of the machine's CPU time that ranks use in an exchange with late sizes, without the kernel's work for the links."),
    "moe: cost": (r"^sender's cost", "CPU time to start a replay, per destination rank (Tc), relative to a replay with all optimizations."),
    "moe: layers": (r"^experts of", "A complete layer, on links so slow that the puts of a rank take as long as its computation. Each result was compared with the dense reference."),
}, "elastic": {
    "elastic": (r"", "Over loopback TCP; 3, 4 and 8 members share the two cores. Times over the other's; PCCL is the better of 1 and 8 connections, and its small ones wait in its coordinator, which is no merit here. A loss: how much longer the "
                     "operation took in which it happened; the rest of that time is the operation's own, run again by who is left."),
}, "gemm": {
    "gemm": (r"", "Over a link whose rate (*Mbit/s*) makes communication take as long as computation. *as long* is the actual ratio, and *size* the number of rows, columns and inner elements of the product."),
}}

# What some rows have besides: columns.
MORE = {"bytes_ratio": "bytes", "cores_busy": "cores", "product": "size", "link_mbit": "Mbit/s", "communication_over_computation": "as long"}


def rounds_of(rows):
    samples = [row["samples"] for row in rows if row.get("samples")]
    counts = sorted({len(side) for sides in samples for side in (sides.values() if isinstance(sides, dict) else [sides])})
    return " or ".join(map(str, counts)) or "no"


def noise_of(machine):
    """What must be said of a machine that was not quiet."""
    if machine["busy_cores_before"] > 0.1:
        yield f"**Other work kept {machine['busy_cores_before']:.1f} of {machine['cores']} cores busy when this run began**: ratios are noise to that extent."


def short_of(rows):
    """How many reach what they should, and which do not."""
    judged = [row for row in rows if say.verdict(row)]
    short = [row["what"] for row in judged if say.verdict(row) == "short"]
    if judged:
        yield f"{len(judged) - len(short)} of {len(judged)} rows meet their targets" + (". Not met: " + "; ".join(short) if short else "") + "."


def table(rows):
    more = [key for key in MORE if any(key in row for row in rows)]
    return results.aligned(["what", "against", "value", "rounds", "target", "", *(MORE[key] for key in more)],
                           [[*results.ratio_line(row), *(say.number(row[key]) if key in row else "" for key in more)] for row in rows])


def markdown(data, old):
    """The old page with the parts made anew of which there are rows."""
    benchmark, machine, told = data["benchmark"], data["machine"], False
    for name, (begins, about) in PARTS[benchmark].items():
        rows = [row for row in data["rows"] if re.match(begins, row["what"])]
        if not rows:
            continue
        begin, end = report_sim.marks(name)
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if not pattern.search(old):
            raise say.Problem(f"the page has no place for this: it should have {begin.strip()} and {end.strip()}")
        parts = [about + " " + HEAD.format(benchmark=benchmark, rounds=rounds_of(rows), **machine), *noise_of(machine), *short_of(rows), table(rows)]
        new, told = "\n\n".join(parts).join((begin, end)), True
        old = pattern.sub(lambda _, new=new: new, old)
    if not told:
        raise say.Problem(f"the results have no row that the page tells of: bench/run {benchmark}")
    return old
