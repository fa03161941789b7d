#!/usr/bin/env python3
"""Generates the drawings and tables of docs/elastic-protocol.md from the state tables of
src/elastic, with the built tutti command.

    scripts/draw-states.py [--check]

docs/states/NAME.svg is the drawing of a state machine: its states in a row, with transitions to
later states above and to earlier states below. Its table is in the page between the comments
"states: NAME" and "end of states". --check writes nothing: it prints the names of outdated parts,
and exits with status 1 if there are any."""

import json
import os
import re
import subprocess
import sys
import textwrap
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TUTTI = Path(os.environ.get("TUTTI_BUILD_DIR", ROOT / "build" / "release")) / "tutti"
PAGE = ROOT / "docs" / "elastic-protocol.md"
FOLDER = ROOT / "docs" / "states"

STEP, BOX, BOX_HEIGHT, LINE, WRAP, MARGIN = 210, 96, 30, 14, 24, 20
# height of an arc to the next state above its boxes or the arcs below it; distance between a label
# and the next arc
RISE, GAP = 34, 12


def arcs_of(machine, later):
    """Transitions to a later state, or to an earlier one, each with its left and right end; short
    ones first."""
    number = {name: i for i, name in enumerate(machine["states"])}
    arcs = []
    for change in machine["changes"]:
        a, b = number[change["from"]], number[change["to"]]
        if (b > a) == later:
            arcs.append({"left": min(a, b), "right": max(a, b),
                         "label": textwrap.wrap(change["when"], WRAP), "to_right": later})
    return sorted(arcs, key=lambda arc: (arc["right"] - arc["left"], arc["left"]))


def heighten(arcs):
    """Sets the height of each arc so that no two overlap; returns the height of the highest one
    with its label."""
    for i, arc in enumerate(arcs):
        below = [a["height"] + a["room"] for a in arcs[:i] if a["left"] < arc["right"]
                 and arc["left"] < a["right"]]
        arc["height"] = max(below, default=0) + RISE
        arc["room"] = LINE * len(arc["label"]) + GAP
    return max((a["height"] + a["room"] for a in arcs), default=0)


def draw_arcs(arcs, base, up):
    """Distributes the ends of arcs over the edges of their boxes: those to the left first, and wide
    arcs outside narrow ones."""
    ends = {}
    for i, arc in enumerate(arcs):
        ends.setdefault(arc["left"], []).append((1, arc["left"] - arc["right"], i, "x_left"))
        ends.setdefault(arc["right"], []).append((0, arc["right"] - arc["left"], i, "x_right"))
    for state, at in ends.items():
        for k, (_, _, i, end) in enumerate(sorted(at)):
            arcs[i][end] = MARGIN + STEP * state + (k + 1) * BOX / (len(at) + 1)
    out, sign = [], -1 if up else 1
    for arc in arcs:
        x1, x2, top, r = arc["x_left"], arc["x_right"], base + sign * arc["height"], 10
        start, end = ((x1, x2) if arc["to_right"] else (x2, x1))
        turn = r if arc["to_right"] else -r
        out.append(f'<path d="M{start:.1f},{base} V{top - sign * r} Q{start:.1f},{top} '
                   f'{start + turn:.1f},{top} H{end - turn:.1f} '
                   f'Q{end:.1f},{top} {end:.1f},{top - sign * r} V{base + sign * 3}" fill="none" '
                   f'stroke="#555" marker-end="url(#head)"/>')
        # between boxes, where no other arc goes up or down
        middle = MARGIN + BOX / 2 + STEP * (arc["left"] + 0.5 if arc["to_right"] else arc["right"]
                                            - 0.5)
        first = top - 5 - LINE * (len(arc["label"]) - 1) if up else top + LINE
        for k, line in enumerate(arc["label"]):
            out.append(f'<text x="{middle:.1f}" y="{first + LINE * k}" '
                       f'text-anchor="middle">{escape(line)}</text>')
    return out


def picture(machine):
    above, below = arcs_of(machine, True), arcs_of(machine, False)
    base = MARGIN + heighten(above)
    height = base + BOX_HEIGHT + heighten(below) + MARGIN
    width = 2 * MARGIN + STEP * (len(machine["states"]) - 1) + BOX
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 '
           f'0 {width} {height}" font-family="sans-serif" '
           'font-size="12" fill="#222">', f"<title>States of {escape(machine['of'])}</title>",
           '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
           'markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z" '
           'fill="#555"/></marker></defs>', f'<rect width="{width}" height="{height}" '
                                            f'fill="white"/>']
    for i, name in enumerate(machine["states"]):
        dash = ' stroke-dasharray="4 3"' if i == 0 else ""      # of the state of an absent object
        out.append(f'<rect x="{MARGIN + STEP * i}" y="{base}" width="{BOX}" height="{BOX_HEIGHT}" '
                   f'rx="6" fill="#eef4fa" stroke="#0072b2"{dash}/>')
        out.append(f'<text x="{MARGIN + STEP * i + BOX / 2:.1f}" '
                   f'y="{base + BOX_HEIGHT / 2 + 4:.1f}" text-anchor="middle" '
                   f'font-weight="bold">{escape(name)}</text>')
    return "\n".join(out + draw_arcs(above, base, True) + draw_arcs(below, base + BOX_HEIGHT, False)
                     + ["</svg>"]) + "\n"


def table(machine):
    rows = [f"| {change['from']} | {change['to']} | {change['when']} |"
            for change in machine["changes"]]
    return "\n".join(["| from | to | when |", "| --- | --- | --- |", *rows])


def with_tables(page, machines):
    for machine in machines:
        begin, end = f"<!-- states: {machine['name']} -->", "<!-- end of states -->"
        pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.S)
        made = (f"{begin}\n\n![States of "
                f"{machine['of']}](states/{machine['name']}.svg)\n\n{table(machine)}\n\n{end}")
        page, found = pattern.subn(lambda _, made=made: made, page)
        if found != 1:
            sys.exit(f"{PAGE.relative_to(ROOT)} must have one \"{begin}\" with an \"{end}\" after "
                     f"it; it has {found}")
    return page


def main():
    check = "--check" in sys.argv[1:]
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    machines = json.loads(subprocess.run([TUTTI, "info", "--states", "--json"],
                                         stdout=subprocess.PIPE, text=True, check=True).stdout)
    made = {FOLDER / f"{machine['name']}.svg": picture(machine) for machine in machines}
    made[PAGE] = with_tables(PAGE.read_text(), machines)
    FOLDER.mkdir(exist_ok=True)
    wrong = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    for path in wrong:
        if check:
            print(f"{path.relative_to(ROOT)} is outdated: run scripts/draw-states.py")
        else:
            path.write_text(made[path])
    sys.exit(1 if check and wrong else 0)


if __name__ == "__main__":
    main()
