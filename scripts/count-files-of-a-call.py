#!/usr/bin/env python3
"""Counts the source files that one all-reduce executes, from the API to the stores or system calls.

usage: scripts/count-files-of-a-call.py [--build FOLDER] [--list]

Two ranks run the call three times under callgrind (Debian: valgrind), which counts instructions per
source file; only the last call of rank 0 counts, including what its thread does for the transport
meanwhile. Inlined functions count for the file that defines them. The build needs debug information
(all presets have it). --list prints the files with their share of the instructions."""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = (("1 MiB, shared memory", "shm", 1 << 20, 35), ("64 MiB, TCP", "tcp", 64 << 20, 40))
PROGRAM = r"""
#include <stdlib.h>
#include "tutti/tutti.h"

/* The call that is measured. */
__attribute__((noinline)) tutti_status measured_call(float *src, float *dst, size_t n, tutti_comm *comm)
{
    tutti_status st = tutti_allreduce(src, dst, n, TUTTI_F32, TUTTI_SUM, comm, NULL);

    __asm__ volatile("" ::: "memory");
    return st;
}

int main(int argc, char **argv)
{
    const size_t n = argc > 1 ? strtoull(argv[1], NULL, 0) / sizeof(float) : 0;
    float *src = calloc(n, sizeof *src), *dst = calloc(n, sizeof *dst);
    tutti_comm *comm;
    int failed;

    if (!n || !src || !dst || tutti_comm_create(&comm, NULL))
        return 1;
    failed = tutti_allreduce(src, dst, n, TUTTI_F32, TUTTI_SUM, comm, NULL) ||
             tutti_allreduce(src, dst, n, TUTTI_F32, TUTTI_SUM, comm, NULL) ||
             measured_call(src, dst, n, comm);
    tutti_comm_destroy(comm);
    return failed;
}
"""
LINE = re.compile(r"(fl|fi|fe|cfi|cfl)=\((\d+)\)(?: (.*))?$")


def fail(why):
    print(f"count-files-of-a-call: {why}", file=sys.stderr)
    sys.exit(1)


def program(build, folder):
    source, target = folder / "call.c", folder / "call"
    source.write_text(PROGRAM)
    done = subprocess.run(["cc", "-O1", "-g", "-I", ROOT / "include", source, "-L", build,
                           "-ltutti",
                           f"-Wl,-rpath,{build}", "-o", target], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        fail(f"the program does not compile:\n{done.stderr}")
    return target


def counts_of(profile):
    """{source file below src or include: executed instructions} of a callgrind profile."""
    names, counts, at, called = {}, collections.Counter(), None, False
    for line in profile.read_text(errors="replace").splitlines():
        found = LINE.match(line)
        if found:
            kind, number, name = found.groups()
            if name:
                names[number] = name
            if kind in ("fl", "fi", "fe"):
                at = number
        elif line.startswith("calls="):
            called = True       # the next line has the cost of the called function
        elif re.match(r"[+\-*\d]", line):
            if not called and at is not None:
                counts[at] += int(line.split()[-1])
            called = False
    out = collections.Counter()
    for number, count in counts.items():
        path = os.path.normpath(names.get(number, ""))
        part = re.search(r"(?:^|/)((?:src|include/tutti)/[\w./]+)$", path)
        if count and part:
            out[part.group(1)] += count
    return out


def measured(build, worker, folder, wire, nbytes):
    wrapper = folder / "rank.sh"
    wrapper.write_text(f"""#!/bin/sh
[ "$TUTTI_RANK" = 0 ] || exec {worker} {nbytes}
exec valgrind --tool=callgrind --toggle-collect=measured_call --callgrind-out-file={folder}/{wire}.out \\
    {worker} {nbytes}
""")
    wrapper.chmod(0o755)
    done = subprocess.run([build / "tutti", "run", "-n", "2", "--", wrapper], capture_output=True,
                          text=True,
                          env={**os.environ, "TUTTI_WIRES": wire}, timeout=600, check=False)
    if done.returncode:
        fail(f"the job failed with status {done.returncode}:\n{done.stderr[-2000:]}")
    return counts_of(folder / f"{wire}.out")


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release",
                        help="folder of the build (default build/release)")
    parser.add_argument("--list", action="store_true", help="print the files, too")
    options = parser.parse_args(argv)
    build = options.build.resolve()
    if not (build / "libtutti.so").exists() or not (build / "tutti").exists():
        fail(f"{build} has no libtutti.so or no tutti (make build, or name another one with "
             f"--build)")
    if not shutil.which("valgrind"):
        fail("valgrind is not installed (Debian: apt-get install valgrind)")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        worker = program(build, folder)
        for name, wire, nbytes, goal in CASES:
            counts = measured(build, worker, folder, wire, nbytes)
            sources = [path for path in counts if path.endswith(".c")]
            print(f"{name}: {len(counts)} files, {len(sources)} of them sources and "
                  f"{len(counts) - len(sources)} headers (goal {goal})")
            for path, count in sorted(counts.items(),
                                      key=lambda item: -item[1]) if options.list else ():
                print(f"  {100 * count / counts.total():6.2f} %  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
