#!/usr/bin/env python3
"""Extracts the worked example of docs/algorithms.md: worked_example.py SOURCE_DIR OUT_DIR.

OUT_DIR receives the file that the page describes, and algos.c with the additional line. Fails if
the page does not have exactly one of each, or if the line does not have the form of those in the
register."""

import re
import sys
from pathlib import Path

source, out = map(Path, sys.argv[1:])
page = (source / "docs" / "algorithms.md").read_text()
section = page.split("## Adding one: a file and a line", 1)[1].split("\n## ", 1)[0]
name = re.search(r"The file, `src/algo/(\w+)\.c`", section).group(1)
file, line = re.findall(r"```c\n(.*?)```", section, re.DOTALL)
register = (source / "src" / "algo" / "algos.c").read_text()
last = re.findall(r"^    X\(\w+\) \\\n", register, re.MULTILINE)[-1]
assert line == f"    X({name}) \\\n" and len(line.split()) == len(last.split()), "the line is none of the register"
assert register.count(last) == 1
out.mkdir(parents=True, exist_ok=True)
(out / f"{name}.c").write_text(file)
(out / "algos.c").write_text(register.replace(last, last + line))
