#!/usr/bin/env python3
"""Draws the ratios of a peers run over size, one panel per collective: bench/plot.py [RESULTS]
[--out FILE.svg]"""

import argparse
import math
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from lib import results, say  # noqa: E402

WIDTH, HEIGHT = 420, 270            # of one panel, with its margins
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 30, 34
LEGEND_LINE = 15
COLUMNS = 2
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999933")
COLL_ORDER = ("allreduce", "reduce_scatter", "allgather", "broadcast", "alltoall", "reduce",
              "gather", "scatter",
              "pingpong", "sendrecv")


def series_name(row):
    parts = [row["wire"], f"{row['ranks']} ranks",
             "against " + row["against"].removeprefix("the better of ")]
    if row["memory"] != "malloc":
        parts.append({"in_place": "in place"}.get(row["memory"], "tutti_" + row["memory"]))
    return ", ".join(parts)


def panels_of(rows):
    """Returns {coll: {series: [row by size]}} of the measured rows that have a size (barriers have
    none)."""
    panels = {}
    for row in rows:
        if "coll" in row and "value" in row and row["unit"] == "x" and row["bytes"] > 0:
            panels.setdefault(row["coll"], {}).setdefault(series_name(row), []).append(row)
    for by_series in panels.values():
        for line in by_series.values():
            line.sort(key=lambda row: row["bytes"])
    order = {coll: i for i, coll in enumerate(COLL_ORDER)}
    return dict(sorted(panels.items(), key=lambda item: order.get(item[0], len(order))))


class Scale:
    """A logarithmic axis from low..high to the pixels from..to."""

    def __init__(self, low, high, start, end):
        self.low, self.high = math.log2(low), math.log2(high)
        self.start, self.end = start, end

    def __call__(self, value):
        share = (math.log2(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def text(x, y, content, anchor="middle", size=11, extra=""):
    return (f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" '
            f'{extra}>{escape(content)}</text>')


def line(x1, y1, x2, y2, colour, width=1.0, extra=""):
    return (f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" '
            f'stroke-width="{width}" {extra}/>')


def axes(x, y, sizes):
    out = []
    ticks = [t for t in (2.0 ** k for k in range(-4, 11)) if y.low <= math.log2(t) <= y.high]
    for tick in ticks:
        out.append(line(x.start, y(tick), x.end, y(tick), "#444" if tick == 1 else "#ddd"))
        out.append(text(x.start - 6, y(tick) + 4, f"{tick:g}x", "end"))
    # Labels of sizes that would overlap are omitted; their ticks stay.
    last = -100
    for nbytes in sizes:
        out.append(line(x(nbytes), y.start, x(nbytes), y.start + 4, "#444"))
        if x(nbytes) - last >= 40:
            out.append(text(x(nbytes), y.start + 17, say.size(nbytes)))
            last = x(nbytes)
    return out


def curve(row_line, x, y, colour):
    """A series: the curve, its rounds as a vertical bar, and its target as a short horizontal
    one."""
    points = [(x(row["bytes"]), y(row["value"])) for row in row_line]
    path = " ".join(f"{px},{py}" for px, py in points)
    out = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>']
    for row, (px, py) in zip(row_line, points):
        low, high = row["spread"]
        out.append(line(px, y(low), px, y(high), colour, 1, 'opacity="0.5"'))
        if row["reach"]:
            out.append(line(px - 6, y(row["reach"]), px + 6, y(row["reach"]), colour, 1.4,
                            'opacity="0.6"'))
        out.append(f'<circle cx="{px}" cy="{py}" r="2.8" '
                   f'fill="{colour}"><title>{escape(row["what"])}: '
                   f'{row["value"]} ({low} to {high})</title></circle>')
    return out


def panel(coll, by_series, at_x, at_y):
    rows = [row for one in by_series.values() for row in one]
    sizes = sorted({row["bytes"] for row in rows})
    values = [v for row in rows for v in (*row["spread"], row["reach"] or 1, 1)]
    x = Scale(sizes[0] / 1.5, sizes[-1] * 1.5, LEFT, WIDTH - RIGHT)
    y = Scale(min(0.5, min(values) / 1.1), max(2, max(values) * 1.1), HEIGHT - BOTTOM, TOP)
    out = [f'<g transform="translate({at_x},{at_y})">',
           text(LEFT, 18, coll, "start", 14, 'font-weight="bold"')]
    out += axes(x, y, sizes)
    for i, (name, row_line) in enumerate(by_series.items()):
        colour = COLOURS[i % len(COLOURS)]
        out += curve(row_line, x, y, colour)
        legend_y = HEIGHT + LEGEND_LINE * (i + 0.4)
        out.append(line(LEFT, legend_y, LEFT + 18, legend_y, colour, 2.5))
        out.append(text(LEFT + 24, legend_y + 4, name, "start"))
    return out + ["</g>"]


def svg(rows, subtitle):
    """Returns the drawing; panels in a line have the same height."""
    panels = list(panels_of(rows).items())
    body, at_y = [], 52
    for first in range(0, len(panels), COLUMNS):
        some = panels[first:first + COLUMNS]
        for column, (coll, by_series) in enumerate(some):
            body += panel(coll, by_series, column * WIDTH, at_y)
        at_y += HEIGHT + LEGEND_LINE * max(len(by_series) for _, by_series in some) + 24
    width = WIDTH * min(COLUMNS, max(1, len(panels)))
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{at_y}" '
            f'viewBox="0 0 {width} {at_y}" font-family="sans-serif" fill="#222">',
            f'<rect width="{width}" height="{at_y}" fill="white"/>',
            text(LEFT, 22, "Times faster than the peers (above 1x: Tutti is faster)", "start", 15),
            text(LEFT, 40, subtitle, "start", 11)]
    return "\n".join([*head, *body, "</svg>"]) + "\n"


def subtitle_of(data):
    m = data["machine"]
    return (f"{m['date']}, {m['cpu']}, {m['cores']} cores. Flat marks: to reach. Bars: lowest and "
            f"highest round.")


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/plot.py", description=__doc__)
    parser.add_argument("results", nargs="?", type=Path,
                        default=HERE.parent / "build" / "bench" / "peers.json")
    parser.add_argument("--out", type=Path, default=Path("peers.svg"))
    options = parser.parse_args(argv)
    try:
        data = results.load(options.results)
        if not panels_of(data["rows"]):
            raise say.Problem(f"{options.results} has no ratios to draw (was it measured without "
                              f"Tutti?)")
    except say.Problem as problem:
        print(f"bench/plot.py: {problem}", file=sys.stderr)
        return 1
    options.out.write_text(svg(data["rows"], subtitle_of(data)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
