#!/usr/bin/env python3
"""Writes the page of docs/ for a benchmark's results: docs/performance-newest.md, its plot and the
classes in docs/performance.md from a peers run, docs/rails.md from rails,
docs/simulation-measured.md from sim and predict, docs/tuning-measured.md from tuner, parts of
docs/one-sided.md and its figure from putsignal and gemm, of docs/moe.md from moe, of
docs/elastic.md from elastic, and of docs/rdma.md and docs/lanes.md from rdma: bench/report.py
[RESULTS...] [--out FILE.md]"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import plot  # noqa: E402
import report_tuner  # noqa: E402
# noqa: E402
from lib import report_putsignal, report_rails, report_ratios, report_rdma, report_sim, results, say

METHOD = """\
All values were measured in one run of `bench/run peers`. [bench/README.md](../bench/README.md)
describes the method. An iteration is a barrier, a common start time (if each rank has a core), and
the operation; its time is that of the slowest rank. The time of a library in a round is the median
of its iterations. The libraries are measured in turn, round by round. **Value** is the median over
rounds of the other library's time divided by Tutti's: 2 x means that Tutti needs half the time.
*rounds* is the range over rounds, and the number of rounds: six, or up to 25 if six do not show on
which side of the target the median is. A question mark means that this is still uncertain. Calls
are out of place, on float32, with sums, in memory of `malloc` unless stated otherwise; buffers are
allocated once and touched. The targets of a class are for the geometric mean of its rows, and for
the lowest one."""


def machine_table(machine):
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return results.aligned(["", ""], [
        ["date", machine["date"]],
        ["commit", machine["commit"]],
        ["processor", f"{machine['cpu']}, {machine['cores']} cores"],
        ["memory", f"{machine['memory_gib']} GiB"],
        ["system", f"{machine['system']}, Linux {machine['kernel']}"],
        ["TCP congestion control", machine["congestion_control"]],
        ["cores busy with something else", f"{machine['busy_cores_before']} when the run began"],
        *([["versions", versions]] if versions else []),
    ])


def sections_of(rows):
    """Returns {heading: rows}, in the order of the run."""
    out = {}
    for row in rows:
        title = row.get("class") or ("Overlap" if "computing alone" in (row.get("against") or "")
                                     else "Shaped links")
        if "class" in row and "coll" not in row:
            title = "Classes"
        out.setdefault(title[0].upper() + title[1:], []).append(row)
    return {title: out[title] for title in sorted(out, key=lambda title: title != "Classes")}


def counts(rows):
    judged = [row for row in rows if say.outcome(row)]
    met = sum(say.outcome(row) == "ok" for row in judged)
    skipped = sum("skipped" in row for row in rows)
    doubtful = sum(not row.get("settled", True) for row in judged)
    return (f"{met} of {len(judged)} rows meet their targets"
            + (f"; {doubtful} of all are uncertain" if doubtful else "")
            + (f"; {skipped} were skipped." if skipped else "."))


def markdown(data, plot_name):
    rows = data["rows"]
    parts = ["# Performance", METHOD, machine_table(data["machine"]), counts(rows)]
    if plot_name:
        parts.append(f"![speed relative to the other libraries, over size]({plot_name})")
    for title, some in sections_of(rows).items():
        times = any("case" in row for row in some)
        parts += [f"## {title}", results.time_table(some) if times else results.ratio_table(some)]
    return "\n\n".join(parts) + "\n"


def write_peers(data, out):
    drawing = None
    if plot.panels_of(data["rows"]):
        drawing = out.with_suffix(".svg")
        drawing.write_text(plot.svg(data["rows"], plot.subtitle_of(data)))
    out.write_text(markdown(data, drawing and drawing.name))
    if out.parent == HERE.parent / "docs":
        # the README's figure and the classes in docs/performance.md
        subprocess.run([HERE.parent / "scripts" / "draw-speed.py"], check=True)


def write_sim(data, out):
    old = out.read_text() if out.exists() else ""
    out.write_text(report_sim.markdown(data, machine_table(data["machine"]), counts(data["rows"]),
                                       old))


def write(data, out):
    """The page for one benchmark's results."""
    docs = HERE.parent / "docs"
    if data["benchmark"] == "rails":
        (out or docs / "rails.md").write_text(report_rails.markdown(data,
                                                                    machine_table(data["machine"])))
    elif data["benchmark"] in report_sim.PARTS:
        write_sim(data, out or docs / "simulation-measured.md")
    elif data["benchmark"] == "tuner":
        (out or docs / "tuning-measured.md").write_text(report_tuner.markdown(data, machine_table(data["machine"])))
    elif data["benchmark"] == "putsignal":
        report_putsignal.write(data, machine_table(data["machine"]), out or docs / "one-sided.md")
    elif data["benchmark"] in report_ratios.PARTS:
        page = out or docs / {"moe": "moe.md", "gemm": "one-sided.md",
                              "elastic": "elastic.md"}[data["benchmark"]]
        page.write_text(report_ratios.markdown(data, page.read_text()))
    elif data["benchmark"] == "rdma":
        pages = [out] if out else [docs / "rdma.md", docs / "lanes.md"]
        for page, text in report_rdma.written(data,
                                              {page: page.read_text() for page in pages}).items():
            page.write_text(text)
    elif data["benchmark"] == "peers":
        write_peers(data, out or docs / "performance-newest.md")
    else:
        raise say.Problem(f"these are results of the benchmark {data['benchmark']}, which has "
                          f"no page")


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/report.py", description=__doc__)
    parser.add_argument("results", nargs="*", type=Path,
                        default=[HERE.parent / "build" / "bench" / "peers.json"])
    parser.add_argument("--out", type=Path, help="default docs/performance-newest.md, "
                                                 "docs/rails.md, docs/simulation-measured.md, "
                                                 "docs/tuning-measured.md, docs/one-sided.md, "
                                                 "docs/moe.md, docs/elastic.md, or docs/rdma.md "
                                                 "and docs/lanes.md")
    options = parser.parse_args(argv)
    try:
        for results_file in options.results:
            write(results.load(results_file), options.out)
    except say.Problem as problem:
        print(f"bench/report.py: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
