"""Rows as files and as tables."""

import json
import os

from . import say


def save(path, name, machine, rows):
    """Writes {benchmark, machine, rows} and returns it. The file is replaced atomically."""
    data = {"benchmark": name, "machine": machine, "rows": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    os.replace(part, path)
    return data


def load(path):
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise say.Problem(f"{path} does not exist: run the benchmark first (bench/run {path.stem})") from None


def aligned(head, lines):
    """A table that is aligned for the terminal and is valid Markdown."""
    lines = [[str(cell) for cell in line] for line in lines]
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]

    def draw(cells):
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths)) + " |"

    return "\n".join([draw(head), "|" + "|".join("-" * (w + 2) for w in widths) + "|",
                      *map(draw, lines)])


def rounds_line(row):
    """The minimum and maximum over rounds, and the number of rounds, if the row has them."""
    low, high = row.get("spread") or (row["value"], row["value"])
    counted = f", {row['rounds']}" if "rounds" in row else ""
    return f"{say.number(low)} to {say.number(high)}{counted}"


def ratio_line(row):
    if "skipped" in row:
        return [row["what"], row.get("against") or "", "skipped", "", "", row["skipped"]]
    return [row["what"], row["against"] or "", f"{say.number(row['value'])} {row['unit']}",
            rounds_line(row),
            "" if row["reach"] is None else say.number(row["reach"]),
            say.outcome(row) + ("" if row.get("settled", True) else "?")]


def ratio_table(rows):
    return aligned(["what", "against", "value", "rounds", "target", ""],
                   [ratio_line(row) for row in rows])


def time_table(rows):
    """One line per case, one column per contestant; microseconds."""
    names = list(dict.fromkeys(row["contestant"] for row in rows))
    cases = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["contestant"]] = row
    lines = []
    for case, by_name in cases.items():
        cells = [by_name.get(name, {}) for name in names]
        algos = [f" ({c['algo']})" if c.get("algo") else "" for c in cells]
        lines.append([case] + [say.number(c.get("value")) + a for c, a in zip(cells, algos)])
    return aligned(["us", *names], lines)


def table(rows):
    times = [row for row in rows if "case" in row]
    ratios = [row for row in rows if "case" not in row]
    return "\n\n".join(text for text in (times and time_table(times),
                                         ratios and ratio_table(ratios)) if text)
