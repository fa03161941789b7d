#!/usr/bin/env python3
"""Formats the C and C++ sources with clang-format, and keeps deliberate layout.

    scripts/format.py [--check] [file...]       no files: all sources

clang-format determines indentation, braces, blanks and line ends. Three things stay as written:
  - the columns of trailing comments (even past the last one) and of aligned names;
  - lists (enumerators, initializers, arguments) broken into lines by meaning;
  - static functions and switch cases that fit on one line.
--check writes nothing: it prints the necessary changes, and exits with status 1 if there are
any."""

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("include", "src", "tools", "examples", "bench", "tests", "python", "shim", "emu")
COLUMNS = 100
ONE_LINE = re.compile(r"""$                         # blank, or
    | static\ [^;]*\)\ \{\ [^;]*;\ \}$            # a whole function, or
    | \s*((case\ [^:]*|default):\s?)+([^:;]*;)?$  # cases, perhaps with their one statement
    """, re.VERBOSE)


def sources():
    found = (path for folder in FOLDERS for kind in ("*.[ch]", "*.[ch]pp")
             for path in (ROOT / folder).rglob(kind))
    return sorted(path for path in found if "build" not in path.relative_to(ROOT).parts)


def without_columns(line):
    """The line with every run of blanks as one, except the indentation of code."""
    text = " ".join(line.split())
    comment_only = text.startswith(("/*", "*")) or (text.endswith("*/") and "/*" not in text)
    indent = "" if comment_only else line[: len(line) - len(line.lstrip())]
    return indent + text


def bare(lines):
    """The lines without white space and without the backslashes that join them."""
    return "".join("".join(lines).replace("\\\n", "").split())


def code_of(line):
    """The line without its strings and its comment."""
    return re.sub(r"/\*.*", "", re.sub(r'"(\\.|[^"\\])*"', '""', line)).rstrip()


def without_comment(line):
    return re.sub(r'("(?:\\.|[^"\\])*")|/\*.*', lambda match: match[1] or "", line).rstrip()


def is_laid_out(lines):
    """Returns true if the lines are a list broken by meaning, functions or cases on one line, or
    too long only because of a comment."""
    code = [code_of(line) for line in lines]
    if any(len(line) > COLUMNS for line in code):
        return False
    if all(len(line.rstrip()) > COLUMNS >= len(without_comment(line)) for line in lines):
        return True
    if all(ONE_LINE.match(line) for line in code):
        return True
    is_list = all(line.endswith(",") for line in code[:-1]) and any("," in line for line in code)
    return is_list and not any(";" in line for line in code) and not code[-1].endswith(("{", ")"))


def formatted(path):
    """Returns the lines of the file after formatting, and before."""
    tool = os.environ.get("CLANG_FORMAT", "clang-format")
    before = path.read_text().splitlines(keepends=True)
    result = subprocess.run([tool, "--style=file", str(path)], capture_output=True, text=True,
                            check=True, cwd=ROOT)
    after = re.sub(r"^(\s*\}) \* (?=\w)", r"\1 *", result.stdout,
                   flags=re.MULTILINE).splitlines(keepends=True)

    out = []
    keys = [without_columns(line) for line in before], [without_columns(line) for line in after]
    for kind, a, a_end, b, b_end in difflib.SequenceMatcher(None, *keys,
                                                            autojunk=False).get_opcodes():
        ours, theirs = before[a:a_end], after[b:b_end]
        keep = kind == "equal" or (ours and bare(ours) == bare(theirs) and is_laid_out(ours))
        out += [line.rstrip() + "\n" for line in ours] if keep else theirs
    return before, out


def main(args):
    check = "--check" in args
    paths = [Path(arg).resolve() for arg in args if arg != "--check"] or sources()
    wrong = 0
    for path in paths:
        before, after = formatted(path)
        if before == after:
            continue
        wrong += 1
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
        if check:
            sys.stdout.writelines(difflib.unified_diff(before, after, name, name + " (formatted)"))
        else:
            path.write_text("".join(after))
            print(f"formatted {name}")
    print(f"{len(paths)} files, {wrong} {'to format: run make format' if check else 'changed'}")
    return 1 if check and wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
