#!/usr/bin/env python3
"""Generates the drawings and tables of docs/algorithms.md with the built tutti command.

    scripts/draw-algorithms.py [--check]

docs/algorithms/NAME.svg is each algorithm's plan for a few ranks, drawn by `tutti plan draw`.
docs/algorithms/fastest.md lists the fastest algorithm for each size in simulation, by `tutti sim`.
--check writes nothing: it prints the names of missing and outdated drawings, and exits with status
1 if there are any."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TUTTI = Path(os.environ.get("TUTTI_BUILD_DIR", ROOT / "build" / "release")) / "tutti"
FOLDER = ROOT / "docs" / "algorithms"

HOSTS = ["--hosts", "3", "--ranks-per-host", "4"]
SOCKETS = [*HOSTS, "--sockets", "2"]
EIGHT = ["--ranks", "8"]
# Algorithms that need other options than the default, which is eight ranks of one host.
SPECIAL = {
    "allgather_parallel_rings": HOSTS, "allgather_parallel_rings_linear": HOSTS,
    "allgather_parallel_rings_doubling": HOSTS,
    "allgather_parallel_rings_halving": HOSTS,
    "allgather_parallel_rings_knomial": ["--hosts", "2", "--ranks-per-host", "8"],
    "allgather_parallel_rings_sockets": SOCKETS, "reduce_scatter_parallel_rings": SOCKETS,
    "allreduce_parallel_rings": ["--hosts", "2", "--ranks-per-host", "4", "--sockets", "2"],
    "allreduce_hierarchical": ["--hosts", "4", "--ranks-per-host", "4"],
    "alltoall_two_level": ["--hosts", "3", "--ranks-per-host", "3"],
    "alltoallv_by_hosts": ["--hosts", "3", "--ranks-per-host", "2"],
    "alltoallv_two_level": ["--hosts", "3", "--ranks-per-host", "3", "--bytes", "64"],
    "alltoall_direct": ["--ranks", "5"], "alltoallv_direct": ["--ranks", "5"],
    "alltoallv_stretches": ["--ranks", "3"], "allgather_direct": ["--ranks", "5"],
    "reduce_scatter_direct": ["--ranks", "5"], "allreduce_onestep": ["--ranks", "5"],
    "allreduce_ring": ["--ranks", "5"], "allreduce_ftar": ["--ranks", "4"],
    "barrier_onestep": ["--ranks", "5"],
    "allgather_hybrid": ["--ranks", "8", "--topo", "BUILDINGS"],
    "reduce_scatter_hybrid": ["--ranks", "8", "--topo", "BUILDINGS"],
    "broadcast_knomial4": ["--ranks", "16"], "broadcast_knomial8": ["--ranks", "16"],
    "reduce_knomial4": ["--ranks", "16"], "reduce_knomial8": ["--ranks", "16"],
    "gather_knomial4": ["--ranks", "16"], "gather_knomial8": ["--ranks", "16"],
    "scatter_knomial4": ["--ranks", "16"], "scatter_knomial8": ["--ranks", "16"],
    "send_direct": ["--ranks", "2"], "recv_direct": None,      # the other end of the same transfer
}
BUILDINGS = {"name": "two-buildings", "machine": {"hosts_per_rack": 1, "racks_per_zone": 1,
                                                  "zones_per_building": 4, "buildings": 2}}

SIZES = [1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20]
MACHINES = [("uniform", 16), ("uniform", 48), ("four-buildings", 48)]
COLLS = ["allreduce", "reduce_scatter", "allgather", "broadcast", "reduce", "gather", "scatter",
         "alltoall", "barrier"]


def run(*args):
    return subprocess.run([TUTTI, *args], stdout=subprocess.PIPE, text=True, check=True).stdout


def pictured():
    """The algorithms with a drawing: a v kind has the drawing of its counterpart with equal
    blocks."""
    algos = json.loads(run("info", "--algos", "--json"))
    names = {a["name"] for a in algos}
    for algo in algos:
        coll, name = algo["coll"], algo["name"]
        sister = coll[:-1] + name[len(coll):] if coll.endswith("v") else None
        if sister not in names and SPECIAL.get(name, EIGHT):
            yield coll, name


def picture(coll, name, buildings):
    options = [str(buildings) if option == "BUILDINGS" else option
               for option in SPECIAL.get(name, EIGHT)]
    return run("plan", "draw", coll, name, "--bytes", "1K", *options)


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def fastest(coll, machine, ranks, size):
    args = ["sim", coll, "--topo", machine, "--ranks", str(ranks), "--algo", "all", "--json",
            "--quiet"]
    if coll != "barrier":
        args += ["--bytes", str(size)]
    times = sorted((one["time_us"], one["algo"][len(coll) + 1:])
                   for one in map(json.loads, run(*args).splitlines()))
    return f"`{times[0][1]}` {times[0][0]:.4g}" + (f" (`{times[1][1]}` {times[1][0]:.4g})"
                                                   if len(times) > 1 else "")


def table():
    lines = ["# Which algorithm is fastest, in simulation", "",
             "Made by `scripts/draw-algorithms.py` with `tutti sim`; what is assumed is in "
             "[../simulation.md](../simulation.md) and shown by "
             "`tutti topo --topo NAME`.", "Times are in microseconds; in brackets is the second. "
                                          "Sizes are of the larger buffer, as `tutti perf` "
             "counts it.", ""]
    for machine, ranks in MACHINES:
        lines += [f"## {ranks} ranks of {machine}", "", "| | " + " | ".join(map(size_text, SIZES))
                  + " |", "| --- |" + " --- |" * len(SIZES)]
        for coll in COLLS:
            sizes = SIZES if coll != "barrier" else SIZES[:1]
            cells = [fastest(coll, machine, ranks, size) for size in sizes]
            lines.append(f"| {coll} | " + " | ".join(cells + [""] * (len(SIZES) - len(cells)))
                         + " |")
        lines.append("")
    return "\n".join(lines)


def main():
    check = "--check" in sys.argv[1:]
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    FOLDER.mkdir(exist_ok=True)
    buildings = FOLDER / "two-buildings.json"
    if not check:
        buildings.write_text(json.dumps(BUILDINGS, indent=2) + "\n")
    wrong = []
    for coll, name in pictured():
        path = FOLDER / f"{name}.svg"
        drawn = picture(coll, name, buildings)
        if not check:
            path.write_text(drawn)
        elif not path.exists() or path.read_text() != drawn:
            wrong.append(path.relative_to(ROOT))
    if not check:
        (FOLDER / "fastest.md").write_text(table())
    for path in wrong:
        print(f"{path} is not what would be drawn: run scripts/draw-algorithms.py")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
