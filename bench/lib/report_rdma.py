"""The measured part of docs/rdma.md, out of the rows of bench/run rdma: the modes of the proxy over verbs and ofi."""

import re

from . import proxies, report_sim, results, say

HEAD = """\
By `bench/run rdma --only putsignal`; written here by `bench/report.py build/bench/rdma.json`. {ranks} ranks on {cores} cores; rank 0 has {transfers} puts of {sizes} under way to the two
others, each with a signal, and each byte was compared. *verbs* runs on the soft-RoCE of the machine above, which is emulated: its times say how modes differ, and nothing of RDMA.
The time of a transfer is fitted as alpha + beta * bytes over the sizes; +- is the standard error, and *noise* what has one of more than half of itself. Commit {commit}, {date}."""


def with_error(value, error, digits):
    if error is not None and error > value / 2:
        return "noise"
    return f"{value:.{digits}f}" + ("" if error is None else f" +- {error:.{digits}f}")


def line(row):
    if "skipped" in row:
        return [row["what"], "", "", "", "", "", "skipped", row["skipped"]]
    return [row["wire"], row["lanes"], row["policy"], row["mode"], f"{row['drains']:g}", f"{row['fences']:g}", with_error(row["value"], row["error"], 0),
            with_error(1024 * row["beta"], row["beta_error"] and 1024 * row["beta_error"], 1)]


def noise_of(machine):
    """What must be said of a machine that was not quiet."""
    busy = machine["busy_cores_before"]
    if busy > 0.1:
        yield (f"**Other work kept {busy:.1f} of {machine['cores']} cores busy when this run began**: alpha and beta are noise to that extent; how often a mode "
               "stands still, and how often it marks, is not.")


def markdown(data, old):
    """The old page with the part between the marks made anew."""
    rows = [row for row in data["rows"] if row["what"].startswith("putsignal")]
    if not rows:
        raise say.Problem("the results have no rows of putsignal: bench/run rdma --only putsignal")
    machine = data["machine"]
    begin, end = report_sim.marks("rdma")
    head = HEAD.format(ranks=proxies.RANKS, cores=machine["cores"], transfers=proxies.TRANSFERS, commit=machine["commit"], date=machine["date"],
                       sizes=", ".join(map(say.size, proxies.SIZES[:-1])) + " or " + say.size(proxies.SIZES[-1]))
    table = results.aligned(["wire", "lanes", "used", "mode", "drains of a burst", "fences of a burst", "alpha, us", "beta, us/KiB"], [line(row) for row in rows])
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(old):
        raise say.Problem(f"the page has no place for this: it should have {begin.strip()} and {end.strip()}")
    new = "\n\n".join([head, *noise_of(machine), table])
    return pattern.sub(lambda _: begin + new + end, old)
