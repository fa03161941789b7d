#!/usr/bin/env python3
"""The README of each room in src names all of its files, and no file that does not exist.

A .c and a .h file of one name are one entry, `name`, `name.c` or `name.h` in backticks; `name_*`
stands for all files that begin with it. Files elsewhere, as `engine/exec.h` or a test, must exist
in src, include, tests or the root."""

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUOTED = re.compile(r"`([\w./]*\w[*]?)`")


def matches(name, stem):
    return stem.startswith(name[:-1]) if name.endswith("*") else stem == name


def file_exists(room, name):
    root = room.parent.parent
    if any((base / name).exists() for base in (room, room.parent, root, root / "include")):
        return True
    return "/" not in name and any(True for _ in (root / "tests").rglob(name))


def errors_of(room):
    """One message for each file that the README omits, and for each name without a file."""
    readme = room / "README.md"
    if not readme.is_file():
        return [f"{readme} does not exist"]
    text = readme.read_text()
    stems = {path.stem for path in room.rglob("*") if path.suffix in (".c", ".h")}
    quoted = set(QUOTED.findall(text))
    names = {re.sub(r"\.[ch]$", "", name.rsplit("/", 1)[-1]) for name in quoted}
    errors = [f"{readme}: {stem} is not listed" for stem in sorted(stems)
              if not any(matches(name, stem) for name in names)]
    errors += [f"{readme}: {name} does not exist" for name in sorted(quoted)
               if name.endswith((".c", ".h")) and not file_exists(room, name)]
    for row in re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE):
        for name in QUOTED.findall(row):
            stem = re.sub(r"\.[ch]$", "", name.rsplit("/", 1)[-1])
            if not any(matches(stem, other) for other in stems) and not file_exists(room, name):
                errors.append(f"{readme}: {name} does not exist")
    return sorted(set(errors))


def check_the_checker():
    """The canary: an omitted file and two names without a file must be found."""
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder) / "src" / "room"
        room.mkdir(parents=True)
        for name in ("listed.c", "listed.h", "group_a.c", "omitted.c"):
            (room / name).write_text("")
        (room / "README.md").write_text(
            "Start with `gone.h`.\n\n| file | purpose |\n| --- | --- |\n"
            "| `listed`, `group_*` | present |\n| `landing` | absent |\n")
        found = [error.split(": ")[1] for error in errors_of(room)]
        expected = ["gone.h does not exist", "landing does not exist", "omitted is not listed"]
        if found != expected:
            raise SystemExit(f"the checker itself is wrong: {found}")


def main():
    check_the_checker()
    rooms = sorted(path for path in (ROOT / "src").iterdir() if path.is_dir())
    errors = [error for room in rooms for error in errors_of(room)]
    if len(rooms) < 20:
        errors.append(f"only {len(rooms)} rooms found in {ROOT / 'src'}")
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
