#!/usr/bin/env python3
"""Draws docs/speed.svg, the README's figure, and fills the table of classes in docs/performance.md,
both from the tables of rows in docs/performance-*.md.

usage: scripts/draw-speed.py [--check]

--check changes nothing: it exits with status 1 if one of the two is out of date."""

import math
import re
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = DOCS / "performance-debian.md"
TARGET = DOCS / "speed.svg"
PAGE = DOCS / "performance.md"
# file: column of the table of classes
RUNS = {"performance-newest.md": "latest MPIs, EPYC 9005",
        "performance-debian.md": "MPIs of Debian, EPYC 7001",
        "performance-amd.md": "MPIs of Debian, EPYC",
        "performance-intel.md": "MPIs of Debian, Xeon"}
CLASSES = (("up to 1 KiB", 0, 2 ** 10), ("4 KiB to 8 MiB", 2 ** 10 + 1, 2 ** 23),
           ("from 16 MiB", 2 ** 23 + 1, math.inf))
BEGIN, END = "<!-- classes: scripts/draw-speed.py -->\n\n", "\n<!-- end of classes -->"

COLOURS = {"allreduce": "#0072b2", "reduce_scatter": "#d55e00", "allgather": "#009e73",
           "broadcast": "#cc79a7", "alltoall": "#e69f00"}
PANELS = (("shm", "shared memory, 2 ranks"), ("tcp", "TCP over loopback, 2 ranks"))
UNITS = {"B": 1, "KiB": 2 ** 10, "MiB": 2 ** 20}
SIZES = ((8, "8 B"), (1024, "1 KiB"), (65536, "64 KiB"), (2 ** 20, "1 MiB"), (2 ** 24, "16 MiB"),
         (2 ** 27, "128 MiB"))
TICKS = (0.5, 1, 2, 4)

WIDTH, HEIGHT = 760, 330
PANEL_WIDTH, TOP, BOTTOM = 370, 70, 262
LEFT, RIGHT = 40, 14
ROW = re.compile(r"\| (\w+) (shm|tcp) ([\d.]+) (B|KiB|MiB), 2 ranks +\| [^|]+\| ([\d.]+) x +\|")
# a row against other libraries: wire, size, ranks, ratio
PEERS_ROW = re.compile(r"\| \w+ (shm|tcp) ([\d.]+) (B|KiB|MiB), (\d) ranks[^|]*"
                       r"\| [^|]*(?:MPI|Gloo)[^|]*\| ([\d.]+) x +\|")


def points_of(page):
    """Returns {wire: {collective: {bytes: ratio}}}; of several rows for one point, the lowest ratio
    counts."""
    points = {wire: {coll: {} for coll in COLOURS} for wire, _ in PANELS}
    for coll, wire, number, unit, ratio in ROW.findall(page):
        if coll in COLOURS:
            nbytes = int(float(number) * UNITS[unit])
            series = points[wire][coll]
            series[nbytes] = min(float(ratio), series.get(nbytes, math.inf))
    return points


def fact_of(page, name):
    return re.search(rf"\| {name} +\| (.+?) +\|", page).group(1)


def at_x(nbytes, left):
    share = (math.log2(nbytes) - 2.5) / (27.8 - 2.5)
    return round(left + LEFT + share * (PANEL_WIDTH - LEFT - RIGHT), 1)


def at_y(ratio):
    share = (math.log2(ratio) - math.log2(TICKS[0])) / (math.log2(TICKS[-1]) - math.log2(TICKS[0]))
    return round(BOTTOM - share * (BOTTOM - TOP), 1)


def text(x, y, content, anchor="start", size=11, extra=""):
    return (f'<text x="{x}" y="{y}" text-anchor="{anchor}" '
            f'font-size="{size}"{extra}>{escape(content)}</text>')


def line(x1, y1, x2, y2, colour, width):
    return (f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" '
            f'stroke-width="{width}"/>')


def panel(title, series, left):
    out = [text(left + LEFT, TOP - 12, title, size=12, extra=' font-weight="bold"')]
    for tick in TICKS:
        out.append(line(left + LEFT, at_y(tick), left + PANEL_WIDTH - RIGHT, at_y(tick),
                        "#444" if tick == 1 else "#ddd", 1.4 if tick == 1 else 1))
        out.append(text(left + LEFT - 6, at_y(tick) + 4, f"{tick:g}x", "end"))
    for nbytes, name in SIZES:
        out.append(line(at_x(nbytes, left), BOTTOM, at_x(nbytes, left), BOTTOM + 4, "#444", 1))
        out.append(text(at_x(nbytes, left), BOTTOM + 17, name, "middle", 9))
    for coll, by_size in series.items():
        path = [(at_x(nbytes, left), at_y(ratio), nbytes, ratio)
                for nbytes, ratio in sorted(by_size.items())]
        out.append(f'<polyline points="{" ".join(f"{x},{y}" for x, y, _, _ in path)}" fill="none" '
                   f'stroke="{COLOURS[coll]}" stroke-width="1.8"/>')
        out += [f'<circle cx="{x}" cy="{y}" r="2.8" fill="{COLOURS[coll]}">'
                f'<title>{coll}, {nbytes} bytes: {ratio}x</title></circle>'
                for x, y, nbytes, ratio in path]
    return out


def legend():
    out, x = [], LEFT
    for coll, colour in COLOURS.items():
        out.append(line(x, HEIGHT - 26, x + 18, HEIGHT - 26, colour, 2.5))
        out.append(text(x + 23, HEIGHT - 22, coll))
        x += 46 + 7 * len(coll)
    return out


def drawing(page):
    points = points_of(page)
    body = []
    for i, (wire, title) in enumerate(PANELS):
        body += panel(title, points[wire], i * (WIDTH - PANEL_WIDTH))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" fill="#222">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(LEFT, 20, "Speed of Tutti relative to the fastest measured peer", size=14),
        text(LEFT, 36, f"Above 1x Tutti is faster. {fact_of(page, 'processor')}, "
                       f"{fact_of(page, 'date')[:10]}, "
                       f"f32, malloc. {fact_of(page, 'versions')}.", size=9),
        *body, *legend(), "</svg>"]) + "\n"


def ratios_of(page):
    """Returns {(wire, ranks, number of the class): ratios}."""
    out = {}
    for wire, number, unit, ranks, ratio in PEERS_ROW.findall(page):
        nbytes = float(number) * UNITS[unit]
        size = next(i for i, (_, low, high) in enumerate(CLASSES) if low <= nbytes <= high)
        out.setdefault((wire, ranks, size), []).append(float(ratio))
    return out


def cell(ratios):
    if not ratios:
        return ""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{mean:.2f} ({min(ratios):.2f}, {len(ratios)})"


def classes_table():
    runs = [ratios_of((DOCS / name).read_text()) for name in RUNS]
    names = {"shm": "shared memory", "tcp": "TCP over loopback"}
    lines = [["class", *RUNS.values()], ["---"] * (1 + len(RUNS))]
    for key in sorted(set().union(*runs), key=lambda k: (k[0], k[1], k[2])):
        wire, ranks, size = key
        lines.append([f"{names[wire]}, {ranks} ranks, {CLASSES[size][0]}",
                      *(cell(run.get(key)) for run in runs)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def filled(page):
    before, rest = page.split(BEGIN)
    return before + BEGIN + classes_table() + END + rest.split(END)[1]


def main(argv):
    if argv not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    wanted = {TARGET: drawing(SOURCE.read_text()), PAGE: filled(PAGE.read_text())}
    status = 0
    for path, content in wanted.items():
        if not argv:
            path.write_text(content)
        elif not path.exists() or path.read_text() != content:
            print(f"docs/{path.name}: out of date with docs/performance-*.md "
                  "(run scripts/draw-speed.py)", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
