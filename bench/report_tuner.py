"""docs/tuning-measured.md out of the rows of bench/run tuner: how good choices are by wire and number of ranks, and where they are not."""

import math
import statistics

from lib import results, say

TITLE = """\
# Quality of the selection of algorithms

Measured by `bench/run tuner`, and written by `bench/report.py build/bench/tuner.json`.
[tuning.md](tuning.md#how-good-it-is) describes the selection. All algorithms that support a call
were run by name, in turn, round by round. The value of a case is the median over rounds of the time
of the selected algorithm divided by that of the algorithm with the lowest median. The targets are a
geometric mean of at most 1.10, and at most 1.5 in each case."""

FAR = 1.2       # cases from there on are listed


def rounds_of(rows):
    return min(len(times) for row in rows for times in row["samples"].values())


def setting_line(name, rows):
    values = [row["value"] for row in rows]
    worst = max(rows, key=lambda row: row["value"])
    mean = math.exp(statistics.fmean(map(math.log, values)))
    return [name, len(rows), f"{mean:.3f}", f"{worst['value']:.2f}", sum(say.verdict(row) == "short" for row in rows),
            "" if worst["chosen"] == worst["best"] else f"{case_of(worst)}: {worst['chosen']} instead of {worst['best']}"]


def case_of(row):
    return f"{row['collective']} of {say.size(row['bytes'])}"


def setting_of(row):
    return f"{'shared memory' if row['wire'] == 'shm' else 'TCP'}, {row['ranks']} ranks"


def case_line(row):
    low, high = row["spread"]
    return [setting_of(row), case_of(row), row["chosen"], row["best"], f"{row['value']:.2f}", f"{low:.2f} to {high:.2f}", say.verdict(row)]


def markdown(data, machine_table):
    cases = [row for row in data["rows"] if "chosen" in row]
    skipped = [row for row in data["rows"] if "skipped" in row]
    if not cases:
        raise say.Problem("there is no case in it that was measured")
    settings = {}
    for row in cases:
        settings.setdefault(setting_of(row), []).append(row)
    lines = [setting_line(name, rows) for name, rows in settings.items()]
    if len(settings) > 1:
        lines.append(setting_line("all", cases))
    parts = [TITLE, machine_table, f"{len(cases)} cases, {rounds_of(cases)} rounds."]
    parts.append(results.aligned(["", "cases", "mean", "worst", "above the target", "worst case"], lines))
    far = sorted((row for row in cases if row["value"] >= FAR), key=lambda row: -row["value"])
    if far:
        parts += [f"All that are {FAR} times slower than the best, or more; *rounds* is the range over rounds.",
                  results.aligned(["", "call", "chosen", "best", "value", "rounds", ""], map(case_line, far))]
    if skipped:
        parts.append("Not measured:\n\n" + "\n".join(f"- {row['what']}: {row['skipped']}" for row in skipped))
    return "\n\n".join(parts) + "\n"
