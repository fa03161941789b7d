"""The measured parts of docs/rdma.md and docs/lanes.md, out of the rows of bench/run rdma, each between marks of its own: lanes with bounds in simulated time, verbs
beside perftest, ofi beside tcp and fi_pingpong, and the modes of the proxy over verbs and ofi. A part of which the run has no rows stays as it is."""

import re

from . import fabric, proxies, report_sim, results, say

LANES = """\
By `bench/run rdma --only 'a way of|64 senders'`, and written by `bench/report.py build/bench/rdma.json`. The time is simulated, and thus the same on every machine. Commit {commit}, {date}."""

VERBS = """\
By `bench/run rdma --only verbs.on`, and written by `bench/report.py build/bench/rdma.json`. Both use the same soft-RoCE device of the emulated machine; a value is the median of {rounds} rounds'
ratios. On {cpu}, {cores} cores. Commit {commit}, {date}."""

OFI = """\
By `bench/run rdma --only ofi.over`, and written by `bench/report.py build/bench/rdma.json`. Two processes on one machine, over {provider} on loopback; a value is the median of {rounds} rounds' ratios. On {cpu}, {cores} cores.
Commit {commit}, {date}."""

HEAD = """\
By `bench/run rdma --only putsignal`, and written by `bench/report.py build/bench/rdma.json`. {ranks} ranks on {cores} cores; rank 0 has {transfers} puts of {sizes} in flight to the two others, each with a signal, and each byte was compared. *verbs* uses soft-RoCE
on the emulated machine: its times show the difference between modes, not the speed of RDMA. The
time of a transfer is fitted as alpha + beta * bytes over the sizes. +- is the standard error;
*noise* marks values with a standard error of more than half. Commit {commit}, {date}."""


def with_error(value, error, digits):
    if error is not None and error > value / 2:
        return "noise"
    return f"{value:.{digits}f}" + ("" if error is None else f" +- {error:.{digits}f}")


def line(row):
    if "skipped" in row:
        return [row["what"], "", "", "", "", "", "skipped", row["skipped"]]
    return [row["wire"], row["lanes"], row["policy"], row["mode"], f"{row['drains']:g}", f"{row['fences']:g}", with_error(row["value"], row["error"], 0),
            with_error(1024 * row["beta"], row["beta_error"] and 1024 * row["beta_error"], 1)]


def noise_of(machine, what):
    """What must be said of a machine that was not quiet."""
    busy = machine["busy_cores_before"]
    if busy > 0.1:
        yield f"**Other work kept {busy:.1f} of {machine['cores']} cores busy when this run began**: {what}."


def rounds_of(rows):
    return max((len(side) for row in rows for side in (row.get("samples") or {}).values()), default=0)


def bounded(row):
    """The lanes' bounds, as `tutti lanes` says them."""
    return f"{row['lanes']} lanes, {row['outstanding']} of {say.size(row['segment_bytes'])}" if "lanes" in row else ""


def lanes_part(rows, machine):
    lines = [[row["what"], bounded(row), row.get("against", ""), *results.ratio_line(row)[2:3], *results.ratio_line(row)[4:]] for row in rows]
    return [LANES.format(**machine), results.aligned(["what", "bounds", "against", "value", "target", ""], lines)]


def ratios_part(head):
    def part(rows, machine):
        return [head.format(rounds=rounds_of(rows), provider=f"`{fabric.PROVIDER}`", **machine),
                *noise_of(machine, "ratios are noise to that extent, as both sides wait for cores"), results.ratio_table(rows)]
    return part


def putsignal_part(rows, machine):
    head = HEAD.format(ranks=proxies.RANKS, cores=machine["cores"], transfers=proxies.TRANSFERS, commit=machine["commit"], date=machine["date"],
                       sizes=", ".join(map(say.size, proxies.SIZES[:-1])) + " or " + say.size(proxies.SIZES[-1]))
    table = results.aligned(["wire", "lanes", "used", "mode", "drains of a burst", "fences of a burst", "alpha, us", "beta, us/KiB"], [line(row) for row in rows])
    return [head, *noise_of(machine, "alpha and beta are noise to that extent; how often a mode stands still, and how often it marks, is not"), table]


# By the name in the marks: what its rows begin with, and what makes paragraphs of them.
PARTS = {
    "lanes": (("a way of", "64 senders"), lanes_part),
    "verbs": (("verbs on",), ratios_part(VERBS)),
    "ofi": (("ofi over",), ratios_part(OFI)),
    "putsignal": (("putsignal",), putsignal_part),
}


def written(data, pages):
    """{page: its text} of all of pages {page: old text} that have a place for what was measured, with those parts made anew."""
    out = {}
    for name, (begins, part) in PARTS.items():
        rows = [row for row in data["rows"] if row["what"].startswith(begins)]
        if not rows:
            continue
        begin, end = report_sim.marks(f"rdma: {name}")
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        found = [page for page, old in pages.items() if pattern.search(old)]
        if not found and len(pages) > 1:
            raise say.Problem(f"no page has a place for this: it should have {begin.strip()} and {end.strip()}")
        new = "\n\n".join(part(rows, data["machine"]))
        for page in found:
            out[page] = pattern.sub(lambda _: begin + new + end, out.get(page, pages[page]))
    if not out:
        raise say.Problem("the results have no row that a page tells of: bench/run rdma")
    return out
