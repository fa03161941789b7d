#!/usr/bin/env python3
"""Counts the source files that one all-reduce executes, from the API to the stores or system calls.

usage: scripts/count-files-of-a-call.py [--build FOLDER] [--list | --instructions]

Two ranks run the call several times under callgrind (Debian: valgrind), which counts instructions
per source file; only the last calls of rank 0 count, including what its thread does for the
transport meanwhile. Inlined functions count for the file that defines them. The build needs debug
information (all presets have it). --list prints the files with their share of the instructions.
--instructions prints the instructions of short calls in shared memory by part of the library, as in
docs/performance.md. Rank 1 is not slowed down by callgrind, so rank 0 hardly waits."""

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
SHORT = (("8 B", 8), ("1 KiB", 1024), ("64 KiB", 65536))
SHORT_CALLS = 1000
# (part of the library, the files of which the path has this beginning); the first one counts
PARTS = (("copies and sums", ("src/reduce/", "src/base/bytes", "libc")),
         ("trace", ("src/trace/", "src/engine/op_trace")),
         ("transport", ("src/wire/",)),
         ("checks and the plan of the call", ("src/comm/", "src/algo/", "include/")),
         ("messages: send, match, credits", ("src/engine/link", "src/engine/receive",
                                             "src/engine/rx_", "src/engine/send",
                                             "src/engine/context")),
         ("operation: start, steps, end", ("src/engine/exec", "src/engine/op", "src/engine/calls",
                                           "src/engine/eager", "src/engine/requests",
                                           "src/sched/")),
         ("progress and its lock", ("src/engine/progress", "src/engine/")),
         ("everything else", ("",)))
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
    const int calls = argc > 2 ? atoi(argv[2]) : 1;
    float *src = calloc(n, sizeof *src), *dst = calloc(n, sizeof *dst);
    tutti_comm *comm;
    int failed;

    if (!n || !src || !dst || tutti_comm_create(&comm, NULL))
        return 1;
    failed = tutti_allreduce(src, dst, n, TUTTI_F32, TUTTI_SUM, comm, NULL) ||
             tutti_allreduce(src, dst, n, TUTTI_F32, TUTTI_SUM, comm, NULL);
    for (int i = 0; i < calls && !failed; i++)
        failed = measured_call(src, dst, n, comm);
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


def counts_of(profile, with_libc):
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
        if count and (part or with_libc):
            out[part.group(1) if part else intrinsics_or_libc(path)] += count
    return out


def intrinsics_or_libc(path):
    """A name for a file outside the library: intrinsics belong to the kernels of src/reduce."""
    return "libc" if "sysdeps" in path or "intrin.h" in path else path


def measured(build, worker, folder, wire, nbytes, calls=1):
    wrapper = folder / "rank.sh"
    wrapper.write_text(f"""#!/bin/sh
[ "$TUTTI_RANK" = 0 ] || exec {worker} {nbytes} {calls}
exec valgrind --tool=callgrind --toggle-collect=measured_call --callgrind-out-file={folder}/{wire}.out \\
    {worker} {nbytes} {calls}
""")
    wrapper.chmod(0o755)
    done = subprocess.run([build / "tutti", "run", "-n", "2", "--", wrapper], capture_output=True,
                          text=True,
                          env={**os.environ, "TUTTI_WIRES": wire}, timeout=600, check=False)
    if done.returncode:
        fail(f"the job failed with status {done.returncode}:\n{done.stderr[-2000:]}")
    return counts_of(folder / f"{wire}.out", calls > 1)


def print_files(build, worker, folder, with_list):
    for name, wire, nbytes, goal in CASES:
        counts = measured(build, worker, folder, wire, nbytes)
        sources = [path for path in counts if path.endswith(".c")]
        print(f"{name}: {len(counts)} files, {len(sources)} of them sources and "
              f"{len(counts) - len(sources)} headers (goal {goal})")
        for path, count in sorted(counts.items(), key=lambda item: -item[1]) if with_list else ():
            print(f"  {100 * count / counts.total():6.2f} %  {path}")


def part_of(path):
    return next(part for part, begins in PARTS if path.startswith(begins))


def print_instructions(build, worker, folder):
    columns = []
    for _, nbytes in SHORT:
        column = collections.Counter()
        for path, count in measured(build, worker, folder, "shm", nbytes, SHORT_CALLS).items():
            column[part_of(path)] += count / SHORT_CALLS
        columns.append(column)
    print("| instructions of an all-reduce, 2 ranks | "
          + " | ".join(name for name, _ in SHORT) + " |")
    print("| --- |" + " --- |" * len(SHORT))
    for part, _ in PARTS:
        print(f"| {part} | " + " | ".join(f"{column[part]:,.0f}" for column in columns) + " |")
    print("| all | " + " | ".join(f"{column.total():,.0f}" for column in columns) + " |")


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release",
                        help="folder of the build (default build/release)")
    parser.add_argument("--list", action="store_true", help="print the files, too")
    parser.add_argument("--instructions", action="store_true",
                        help="print the instructions of short calls by part, and no files")
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
        if options.instructions:
            print_instructions(build, worker, folder)
        else:
            print_files(build, worker, folder, options.list)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
