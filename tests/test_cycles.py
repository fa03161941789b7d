#!/usr/bin/env python3
"""Files of one room of src/ do not call each other in a circle.

A circle is a set of files each of which calls, directly or over others, a function of each other.
The calls are read from the object files of the build by nm.
"""

import collections
import os
import subprocess
import sys
from pathlib import Path


def calls_between(objects):
    """Returns {file: {file whose functions or data it uses}}; files by their paths below src/."""
    text = subprocess.run(
        ["nm", "-A", "-g", *objects], check=True, capture_output=True, text=True
    ).stdout
    home, uses = {}, collections.defaultdict(set)
    lines = [line.split(":", 1) for line in text.splitlines() if ":" in line]
    for path, rest in lines:
        kind, symbol = rest.split()[-2:]
        if kind != "U":
            home[symbol] = path
    for path, rest in lines:
        kind, symbol = rest.split()[-2:]
        if kind == "U" and symbol in home:
            uses[path].add(home[symbol])
    return uses


def circles_of(files, uses):
    """Returns the sets of files that reach each other (Tarjan's strongly connected components)."""
    index, low, stack, found = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in uses[file] & files:
            if other not in index:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], index[other])
        if low[file] == index[file]:
            at = stack.index(file)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for file in sorted(files):
        if file not in index:
            visit(file)
    return found


def check_the_checker():
    uses = collections.defaultdict(
        set, {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": set()}
    )
    if circles_of({"a", "b", "c", "d", "e"}, uses) != [["a", "b", "c"]] or circles_of(
        {"a", "b", "d"}, uses
    ):
        raise SystemExit("the checker is broken")


def main():
    check_the_checker()
    src = Path(os.environ["TUTTI_BUILD_DIR"]) / "CMakeFiles" / "tutti_objects.dir" / "src"
    objects = sorted(str(path) for path in src.rglob("*.o"))
    rooms = collections.defaultdict(set)
    for path in objects:
        rooms[Path(path).relative_to(src).parts[0]].add(path)
    uses, wrong = calls_between(objects), 0
    for room, files in sorted(rooms.items()):
        circles = circles_of(files, uses)
        wrong += len(circles)
        print(f"{room}: {len(files)} files, {sum(map(len, circles))} in circles")
        for circle in circles:
            print(
                "  "
                + " ".join(
                    str(Path(path).relative_to(src / room)).removesuffix(".o") for path in circle
                )
            )
    return 1 if wrong or not objects else 0


if __name__ == "__main__":
    sys.exit(main())
