#!/usr/bin/env python3
"""Counts how often each algorithm is selected, over a grid of sizes, ranks, hosts and topologies.

    scripts/count-selections.py [--table] [--jobs N]

--table prints the table of docs/algorithms.md. The selections are those of `tutti plan why`, whose
cost parameters are measured on this host, so that counts differ between machines. Without v
collectives, send and recv: their selection depends on counts that the grid does not contain. The
tutti command is that of TUTTI_BUILD_DIR (default build/release).
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TUTTI = Path(os.environ.get("TUTTI_BUILD_DIR", ROOT / "build" / "release")) / "tutti"
SIZES = ("8", "128", "1K", "8K", "64K", "512K", "4M", "32M", "256M")
ONE_HOST = [
    ("-n", str(n), "--cores", str(cores))
    for n in (2, 3, 4, 6, 8, 16, 64)
    for cores in (2, 8, 64)
    if cores <= max(n, 2)
]
SOCKETS = [("-n", str(n), "--cores", str(n), "--sockets", "2") for n in (4, 8, 16, 64)]
HOSTS = [
    ("--hosts", str(h), "--ranks-per-host", str(r), "--cores", str(max(r, 2)), *sockets)
    for h in (2, 3, 4, 8, 16, 64, 256)
    for r in (1, 2, 4, 8)
    for sockets in ((), ("--sockets", "2"))
    if r > 2 or not sockets
]
TOPOLOGIES = [
    ("--topo", "two-sockets"),
    *(
        ("--topo", name, "-n", str(n))
        for name in ("uniform", "four-buildings")
        for n in (16, 128, 1024)
    ),
]


def algorithms():
    """Returns {algorithm: collective}."""
    text = subprocess.run(
        [TUTTI, "info", "--algos", "--json"], check=True, capture_output=True, text=True
    ).stdout
    return {algo["name"]: algo["coll"] for algo in json.loads(text)}


def cases(collectives):
    """Yields the arguments of each call of the grid."""
    single = [
        *((*where, "--wire", wire) for where in ONE_HOST for wire in ("shm", "tcp")),
        *SOCKETS,
    ]
    for coll, size, where in itertools.product(collectives, SIZES, [*single, *HOSTS, *TOPOLOGIES]):
        for form in (
            ((), ("--in-place",)) if coll in ("allreduce", "allgather", "reduce_scatter") else ((),)
        ):
            yield (coll, size, *where, *form)


def selection(case):
    """Returns the selected algorithm of a call, or None if it is not possible."""
    done = subprocess.run([TUTTI, "plan", "why", *case, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)["algo"] if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", action="store_true", help="print a Markdown table")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count(),
        metavar="N",
        help="calls at once (default: one per core)",
    )
    options = parser.parse_args()
    known = {
        name: coll
        for name, coll in algorithms().items()
        if not coll.endswith("v") and coll not in ("send", "recv")
    }
    calls = list(cases(sorted(set(known.values()))))
    selected, examples, impossible = collections.Counter(), {}, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done, (case, algo) in enumerate(zip(calls, pool.map(selection, calls)), 1):
            if algo is None:
                impossible += 1
            else:
                selected[algo] += 1
                examples.setdefault(algo, " ".join(case))
            if done % 500 == 0:
                print(f"{done} of {len(calls)} calls", file=sys.stderr)
    print(
        f"{len(calls)} calls, {impossible} not possible, {len(known)} algorithms, "
        f"{sum(1 for algo in known if not selected[algo])} never selected",
        file=sys.stderr,
    )
    if options.table:
        print("| algorithm | selected | first call that selects it |\n| --- | --- | --- |")
    for algo in known:
        print(
            f"| `{algo}` | {selected[algo]} | {examples.get(algo, '')} |"
            if options.table
            else f"{selected[algo]:6} {algo:32} {examples.get(algo, '')}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
