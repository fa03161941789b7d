#!/usr/bin/env python3
"""A file includes only its own room and rooms on lower floors, as src/LAYERS lists them.

Checked: every #include "room/file.h" below src/. The public headers ("tutti/...") are open to all.
An include that names no room, a room that LAYERS does not list, and a file that lies in no room
are errors too."""

import os
import re
import sys
import tempfile
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def floors_of(layers):
    """Room -> number of its floor, the lowest 0."""
    lines = [line.split("#")[0].split() for line in layers.read_text().splitlines()]
    rooms = {}
    for floor, names in enumerate(line for line in lines if line):
        for name in names:
            if name in rooms:
                raise SystemExit(f"{layers}: room {name} is on two floors")
            rooms[name] = floor
    return rooms


def errors_of(src):
    """One sentence for each include that goes the wrong way, and the number of includes that were
    looked at."""
    floors = floors_of(src / "LAYERS")
    errors, looked_at = [], 0
    for path in sorted(p for p in src.rglob("*") if p.suffix in (".c", ".h")):
        name = path.relative_to(src)
        room = name.parts[0] if len(name.parts) > 1 else None
        if room not in floors:
            errors.append(f"{name}: lies in no room of src/LAYERS")
            continue
        for match in INCLUDE.finditer(path.read_text()):
            looked_at += 1
            target = match.group(1)
            other = target.split("/")[0] if "/" in target else None
            line = path.read_text().count("\n", 0, match.start()) + 1
            if other == "tutti":
                continue
            if other not in floors:
                errors.append(f'{name}:{line}: "{target}" names no room (write "room/file.h")')
            elif other != room and floors[other] >= floors[room]:
                errors.append(f"{name}:{line}: {room} must not include {other}, which is not on a "
                              f"lower floor")
            elif not (src / target).is_file():
                errors.append(f'{name}:{line}: "{target}" does not exist')
    return errors, looked_at


def check_the_checker():
    """The canary: a small house with every kind of error must be caught."""
    wrong = {
        "low/a.c": '#include "high/h.h"',
        "low/b.c": '#include "beside/h.h"',
        "low/c.c": '#include "h.h"',
        "low/d.c": '#include "nowhere/h.h"',
        "nowhere/e.c": "",
        "f.c": "",
    }
    right = {
        "low/h.h": "#include <high/h.h>",
        "beside/h.h": '#include "tutti/tutti.h"',
        "high/h.h": '#include "low/h.h"\n#include "beside/h.h"\n#include "high/h.h"',
    }
    with tempfile.TemporaryDirectory() as folder:
        src = Path(folder)
        (src / "LAYERS").write_text("# comment\nlow beside\nhigh\n")
        for name, text in {**wrong, **right}.items():
            (src / name).parent.mkdir(exist_ok=True)
            (src / name).write_text(text)
        caught = {error.split(":")[0] for error in errors_of(src)[0]}
    if caught != set(wrong):
        raise SystemExit(f"the checker is broken: it caught {sorted(caught)}, not {sorted(wrong)}")


def main():
    root = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parent.parent))
    check_the_checker()
    errors, looked_at = errors_of(root / "src")
    print("\n".join(errors + [f"{looked_at} includes looked at, {len(errors)} errors"]))
    return 1 if errors or looked_at == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
