#!/usr/bin/env python3
"""All names of OpenSHMEM 1.5 exist, by tests/shmem/names.txt: every function is declared and
linked, every C11 name is a macro, every constant has a value; and the library exports nothing else.
The header is self-contained in C99, C11 and, if a compiler is available, C++11."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("TUTTI_BUILD_DIR", SOURCE / "build/release"))
INCLUDE = SOURCE / "shim/shmem/include"
LIBRARY = BUILD / "shim/shmem"
CC = os.environ.get("CC", "cc")
CFLAGS = os.environ.get("CFLAGS", "").split()


def expand(pattern, lists):
    """All names of a pattern."""
    parts = re.findall(r"\[[^]]*\]|\{[^}]*\}|[^[{]+", pattern)
    choices = []
    for part in parts:
        if part[0] == "[":
            choices.append([part[1:-1], ""])
        elif part[0] == "{":
            inner = part[1:-1]
            choices.append(lists[inner] if inner in lists else inner.split("|"))
        else:
            choices.append([part])
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def read_names(path):
    """{"function" | "macro" | "constant": names}"""
    lists, names = {}, {"function": [], "macro": [], "constant": []}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "list":
            lists[words[1]] = words[2:]
        elif words[0] in names and len(words) == 2:
            names[words[0]] += expand(words[1], lists)
        else:
            raise SystemExit(f"{path}:{number}: neither list, function, macro nor constant: {line}")
    return names


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout}{done.stderr[:4000]}")
    return done.stdout


def program_of(names):
    """A C program that fails to compile or link if one of them is missing."""
    lines = ["#include <shmem.h>", "typedef void function(void);",
             "function *const functions[] = {"]
    lines += [f"    (function *)&{name}," for name in names["function"]]
    lines += ["};", "int main(void)", "{", "    int n = functions[0] == 0;"]
    for name in names["macro"]:
        lines += [f"#ifndef {name}", f"#error {name} is no macro", "#endif"]
    lines += [f"    n += sizeof({name}) == 0;" for name in names["constant"]]
    lines += ["    return n;", "}"]
    return "\n".join(lines) + "\n"


def exported():
    listing = run("nm", "-D", "--defined-only", LIBRARY / "libtutti-shmem.so")
    symbols = (line.split() for line in listing.splitlines())
    return {symbol[2].split("@")[0] for symbol in symbols if len(symbol) == 3 and symbol[1] != "A"}


def check_headers(work):
    alone = work / "alone.c"
    alone.write_text("#include <shmem.h>\n#include <mpp/shmem.h>\nint main(void) { return 0; }\n")
    strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I", INCLUDE]
    for standard in ("c99", "c11", "c17"):
        run(CC, f"-std={standard}", *strict, alone)
    if not shutil.which("c++"):
        print("no C++ compiler: C++ was not looked at")
        return
    outside = SOURCE / "tests/shmem/programs/outside.cpp"
    run("c++", "-std=c++11", *strict, outside)
    if not CFLAGS:              # the sanitizers of another compiler cannot be linked with these
        run("c++", "-std=c++11", "-I", INCLUDE, outside, "-o", work / "outside", *link())
        said = run(BUILD / "tutti", "run", "-n", 3, "--", work / "outside")
        if "9 from C++" not in said:
            raise SystemExit(f"FAILED: the C++ program said {said!r}")


def link():
    return ["-L", LIBRARY, f"-Wl,-rpath,{LIBRARY}:{BUILD}", f"-Wl,-rpath-link,{BUILD}",
            "-ltutti-shmem"]


def main():
    names = read_names(SOURCE / "tests/shmem/names.txt")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "names.c").write_text(program_of(names))
        run(CC, *CFLAGS, "-std=c11", "-I", INCLUDE, work / "names.c", "-o", work / "names", *link())
        run(work / "names")
        check_headers(work)
    there, wanted = exported(), set(names["function"])
    if there != wanted:
        raise SystemExit(f"FAILED: not exported: {sorted(wanted - there)[:20]}; not in the list: "
                         f"{sorted(there - wanted)[:20]}")
    print(f"ok: {len(wanted)} functions, {len(names['macro'])} C11 names, {len(names['constant'])} "
          f"constants")


if __name__ == "__main__":
    sys.exit(main())
