"""Writes docs/simulation-measured.md from the rows of bench/run sim and bench/run predict. The page
has a part for each; the report of one leaves the other's part unchanged."""

import re

from . import results, say

TITLE = """\
# The simulator, measured

[simulation.md](simulation.md) describes the model and its limits. Each part of this page is generated from the last run of one benchmark. To generate both:

    bench/run sim && bench/run predict && bench/report.py build/bench/sim.json build/bench/predict.json"""

COST = """\
## Cost, and comparison with closed forms

Measured by `bench/run sim`. Each case is one run of `tutti sim` on `four-buildings`, in its own process,
with one thread; of several runs the slowest is used. The targets are 60 s and 8 GiB for 131,072 and
4,096 ranks. *seconds* is the wall time, including other load on the machine. *of a processor* is
the CPU time of the run, to which the events per second refer."""

FORMS = """\
Compared with closed forms on a uniform network, in microseconds. The target is 0.1 %."""

PREDICTIONS = """\
## Predictions for real links

Measured by `bench/run predict`: `tutti sim` on a description of the testbed
([tests/support/testbed.py](../tests/support/testbed.py)), compared with `tutti perf` there. Nothing
in the description is fitted to the measured times. Each prediction is the median of nine
simulations in which each rank begins up to one latency late. *off* is the error of the prediction,
and *rounds* its error relative to the slowest and the fastest round. *link* is the share of the
predicted time in which the busiest rail sends, and *processors* the CPU utilization. The target is
15 % if links are the bottleneck, i.e. if this share is at least nine tenths. There is no target for
other cases, in which messages wait for each other
([simulation.md](simulation.md#against-real-links))."""

MISSING = """\
{head}

No run of `bench/run {name}` is in the repository."""

PARTS = {"sim": COST, "predict": PREDICTIONS}


def case_of(row):
    """The name of a row without the quantity."""
    return row["what"].rsplit(": ", 1)


def skipped_list(rows):
    missing = [row for row in rows if "skipped" in row]
    return ["Not measured:\n\n" + "\n".join(f"- {row['what']}: {row['skipped']}"
                                            for row in missing)] if missing else []


def cost_table(rows):
    cases = {}
    for row in rows:
        case, quantity = case_of(row)
        cases.setdefault(case, {})[quantity] = row
    lines = []
    for case, by in cases.items():
        wall, processor, memory, events = (by.get(what) for what in ("wall time", "processor time", "memory", "events"))
        if not (wall and processor and memory and events):
            continue        # an interrupted run
        short = [name for name, row in (("time", wall), ("memory", memory)) if say.outcome(row)
                 == "short"]
        lines.append([case, say.number(wall["value"]), say.number(processor["value"]),
                      say.number(memory["value"]), events["against"].removesuffix(" events"),
                      f"{events['value']:.2f}", " and ".join(short) + " short" if short else "ok"])
    return results.aligned(["case", "seconds", "of a processor", "peak GiB", "events",
                            "million events/s", ""], lines)


def form_line(row):
    sample = row["samples"]
    return [case_of(row)[0], f"{sample['simulated_us']:.3f}", f"{sample['formula_us']:.3f}",
            f"{row['value']:.3f} %", say.outcome(row)]


def cost_part(rows):
    measured = [row for row in rows if "value" in row]
    forms = [row for row in measured if "closed form" in row["what"]]
    scale = [row for row in measured if row not in forms]
    parts = [cost_table(scale)] if scale else []
    if forms:
        parts += [FORMS, results.aligned(["case", "simulated", "formula", "distance", ""],
                                         map(form_line, forms))]
    return parts


def prediction_line(row):
    off = 100 * (row["predicted_us"] / row["measured_us"] - 1)
    low, high = row["spread"]
    return [case_of(row)[0], f"{row['predicted_us'] / 1000:.1f}",
            f"{row['measured_us'] / 1000:.1f}", f"{off:+.1f} %",
            f"{low:+.1f} to {high:+.1f} %", f"{100 * row['busy']:.0f} %",
            f"{100 * row['cpu']:.0f} %", say.outcome(row)]


def prediction_part(rows):
    measured = [row for row in rows if "value" in row]
    head = ["case", "predicted ms", "measured ms", "off", "rounds", "link", "processors", ""]
    return [results.aligned(head, map(prediction_line, measured))] if measured else []


def marks(name):
    return f"<!-- bench/run {name} -->\n\n", f"\n\n<!-- end of bench/run {name} -->"


def kept(name, old):
    """That benchmark's part of the page, or a note that there is none."""
    begin, end = map(re.escape, marks(name))
    found = re.search(begin + ".*?" + end, old, re.DOTALL)
    return (found.group(0) if found else MISSING.format(head=PARTS[name].splitlines()[0],
                                                        name=name).join(marks(name)))


def markdown(data, machine_table, counts, old):
    """The page with data's part replaced; the other part is copied from the old page's text."""
    name, rows = data["benchmark"], data["rows"]
    body = cost_part(rows) if name == "sim" else prediction_part(rows)
    new = "\n\n".join([PARTS[name], machine_table, counts, *body,
                       *skipped_list(rows)]).join(marks(name))
    return "\n\n".join([TITLE, *(new if part == name else kept(part, old)
                                 for part in PARTS)]) + "\n"
