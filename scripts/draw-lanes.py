#!/usr/bin/env python3
"""Draws docs/lanes.svg, the effect of limits on lanes, from `tutti lanes`: throughput over the
speed of one slow path, and queue length and throughput over the limit at an oversubscribed switch.

    scripts/draw-lanes.py [--tutti PATH] [--out FILE]"""

import argparse
import json
import math
import subprocess
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 320, 62, 20, 40, 48
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
SLOW = (1, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08)
BOUNDS = (1, 2, 4, 8, 16, 32, 64)
RACK = ("--senders", 64, "--lanes", 2, "--path-rate", 50, "--slow-paths", 0, "--slow", 1,
        "--latency", 20, "--messages", 20)


def lanes(tutti, *options):
    done = subprocess.run([str(word) for word in (tutti, "lanes", "--json", *options)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout)


def text(x, y, content, anchor="middle", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{escape(content)}</text>'


class Axis:
    """Maps values to pixels, on a logarithmic or a linear scale."""

    def __init__(self, low, high, start, end, log):
        self.of = math.log2 if log else float
        self.low, self.high, self.start, self.end = self.of(low), self.of(high), start, end

    def __call__(self, value):
        return (self.start
                + (self.of(value) - self.low) / (self.high - self.low) * (self.end - self.start))


def frame(title, x, x_ticks, x_name, y, y_ticks, y_name):
    out = [text(LEFT, TOP - 18, title, "start", 'font-weight="bold"')]
    for tick in y_ticks:
        out.append(f'<line x1="{x.start}" x2="{x.end}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
                   f'stroke="#ddd"/>')
        out.append(text(x.start - 6, y(tick) + 4, f"{tick:g}", "end"))
    for tick in x_ticks:
        out.append(text(x(tick), y.start + 16, f"{tick:g}"))
    out.append(text((x.start + x.end) / 2, y.start + 34, x_name))
    out.append(text(x.start - 44, (y.start + y.end) / 2, y_name,
                    extra=f'transform="rotate(-90 {x.start - 44:.1f} {(y.start + y.end) / 2:.1f})"'))
    return out


def curve(points, x, y, colour, name, dashed=False):
    path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'] + [
        f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.6" fill="{colour}"><title>{escape(name)}: '
        f'{a:g}, {b:.4g}</title></circle>' for a, b in points]


def legend(names):
    return [line for i, (name, colour) in enumerate(names) for line in (
        f'<line x1="{LEFT + i % 3 * 130}" x2="{LEFT + 16 + i % 3 * 130}" '
        f'y1="{HEIGHT + 10 + i // 3 * 16}" y2="{HEIGHT + 10 + i // 3 * 16}" '
        f'stroke="{colour}" stroke-width="2.5"/>', text(LEFT + 22 + i % 3 * 130,
                                                        HEIGHT + 14 + i // 3 * 16, name, "start"))]


def slow_way(tutti):
    rows = lanes(tutti, "--slow", ",".join(map(str, SLOW)), "--outstanding", "1,2,4,8,16")
    x = Axis(max(SLOW), min(SLOW), LEFT, WIDTH - RIGHT, True)
    y = Axis(0, 1, HEIGHT - BOTTOM, TOP, False)
    out = frame("One way of 16 is slow", x, SLOW[::2], "share of its rate that it has", y,
                (0, 0.25, 0.5, 0.75, 1), "carried, of what could be")
    names = []
    for colour, (how, bound) in zip(COLOURS, [("dqplb", n) for n in (1, 2, 4, 8, 16)]
                                    + [("unlimited", None), ("static", None)]):
        name = (f"{bound} outstanding" if bound else "no bound" if how == "unlimited"
                else "static stripes")
        out += curve([(row["slow"], row["share"]) for row in rows
                      if (row["how"], row.get("outstanding")) == (how, bound)], x, y, colour, name,
                     how == "static")
        names.append((name, colour))
    return out + legend(names)


def rack(tutti):
    rows = lanes(tutti, *RACK, "--outstanding", ",".join(map(str, BOUNDS)))
    bounded = [row for row in rows if row["how"] == "dqplb"]
    unlimited = next(row for row in rows if row["how"] == "unlimited")
    x = Axis(BOUNDS[0], BOUNDS[-1], LEFT, WIDTH - RIGHT, True)
    y = Axis(0.0001, 1, HEIGHT - BOTTOM, TOP, True)
    out = frame("64 senders, uplinks oversubscribed 4 times", x, BOUNDS,
                "segments outstanding on each of 2 lanes", y,
                (0.0001, 0.001, 0.01, 0.1, 1), "beside no bounds")
    names = (("throughput", "bytes_per_s"), ("mean queue", "queue_mean_bytes"),
             ("longest queue", "queue_most_bytes"))
    for colour, (name, key) in zip(COLOURS, names):
        out += curve([(row["outstanding"], row[key] / unlimited[key]) for row in bounded], x, y,
                     colour, name)
    return out + legend([(name, colour) for (name, _), colour in zip(names, COLOURS)])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", type=Path, default=HERE / "build" / "release" / "tutti")
    parser.add_argument("--out", type=Path, default=HERE / "docs" / "lanes.svg")
    options = parser.parse_args()
    height = HEIGHT + 62
    body = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{height}" '
            f'viewBox="0 0 {2 * WIDTH} {height}" '
            'font-family="sans-serif" font-size="11" fill="#222">',
            f'<rect width="{2 * WIDTH}" height="{height}" fill="white"/>',
            "<g>", *slow_way(options.tutti), "</g>", f'<g transform="translate({WIDTH},0)">',
            *rack(options.tutti), "</g>", "</svg>"]
    options.out.write_text("\n".join(body) + "\n")


if __name__ == "__main__":
    main()
