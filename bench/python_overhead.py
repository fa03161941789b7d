#!/usr/bin/env python3
"""The overhead of a call from Python compared with the C call: both in nanoseconds, and their
difference.

    build/release/tutti run -n 1 -- build/python/bin/python bench/python_overhead.py

The C calls run in a loop of the same length, compiled here against libtutti. Each value is the
minimum of several rounds, in which C and Python calls alternate. A communicator of one rank
excludes the network; with -n 2 the difference is the same, but noisier. Rows of torch need PyTorch
in that Python."""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("TUTTI_BUILD_DIR", ROOT / "build" / "release"))
sys.path.insert(0, os.environ.get("TUTTI_PYTHON_PACKAGE", str(BUILD / "python")))

import numpy as np      # noqa: E402

import tutti        # noqa: E402

CALLS, ROUNDS = 2000, 25
SOURCE = r"""
#include <stdint.h>
#include <time.h>
#include "tutti/tutti.h"
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return 1e9 * t.tv_sec + t.tv_nsec; }
static tutti_comm *comm;
int begin(void) { return tutti_comm_create(&comm, NULL); }
void end(void) { tutti_comm_destroy(comm); }
double allreduce_ns(float *x, size_t n, int calls)
{
    const double t = now();
    for (int i = 0; i < calls; i++)
        if (tutti_allreduce(x, x, n, TUTTI_F32, TUTTI_SUM, comm, NULL)) return -1;
    return (now() - t) / calls;
}
double iallreduce_ns(float *x, size_t n, int calls)
{
    tutti_request *request;
    const tutti_call call = { .size = sizeof call, .request = &request };
    const double t = now();
    for (int i = 0; i < calls; i++)
        if (tutti_allreduce(x, x, n, TUTTI_F32, TUTTI_SUM, comm, &call) || tutti_wait(request)) return -1;
    return (now() - t) / calls;
}
double barrier_ns(float *x, size_t n, int calls)
{
    const double t = now();
    for (int i = 0; i < calls; i++)
        if (tutti_barrier(comm, NULL)) return -1;
    return (now() - t) / calls;
}
"""


def c_loops(folder):
    """The loops in C, as a library that shares libtutti with the package."""
    (Path(folder) / "loops.c").write_text(SOURCE)
    library = next(iter([*BUILD.glob("libtutti.so.0"),
                         *Path(tutti.__file__).parent.glob("libtutti.so.0")]))
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", ROOT / "include", "-o",
                    f"{folder}/loops.so", f"{folder}/loops.c", library,
                    f"-Wl,-rpath,{library.parent}"], check=True)
    loops = ctypes.CDLL(f"{folder}/loops.so")
    for name in ("allreduce_ns", "iallreduce_ns", "barrier_ns"):
        getattr(loops, name).restype = ctypes.c_double
        getattr(loops, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return loops


def python_ns(call, *arguments, **options):
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        call(*arguments, **options)
    return (time.perf_counter_ns() - begin) / CALLS


def cases(comm):
    x, y = np.zeros(2, np.float32), np.zeros(2, np.float32)
    yield "barrier", "barrier_ns", python_ns, (comm.barrier,), {}
    yield "allreduce, in place, NumPy", "allreduce_ns", python_ns, (comm.allreduce, x), {}
    yield ("allreduce, src and dst, options", "allreduce_ns", python_ns,
           (comm.allreduce, x, y, "max"), {"timeout": 60.0})
    yield "allreduce, bytearray", "allreduce_ns", python_ns, (comm.allreduce, bytearray(8)), {}
    yield ("iallreduce and wait", "iallreduce_ns", python_ns, (lambda: comm.iallreduce(x).wait(),),
           {})
    try:
        import torch
    except ImportError:
        return
    yield ("allreduce, in place, torch", "allreduce_ns", python_ns,
           (comm.allreduce, torch.zeros(2)), {})


def main():
    with tempfile.TemporaryDirectory() as folder, tutti.Communicator() as comm:
        loops = c_loops(folder)
        assert loops.begin() == 0
        data = np.zeros(2, np.float32)
        for name, loop, measure, arguments, options in cases(comm):
            c, python = [], []
            for _ in range(ROUNDS):
                c.append(getattr(loops, loop)(data.ctypes.data, 2, CALLS))
                python.append(measure(*arguments, **options))
            if comm.rank == 0:
                c_ns, python_all_ns = min(c), min(python)
                print(f"{name:32s}  C {c_ns:8.0f} ns   Python {python_all_ns:8.0f} ns   overhead "
                      f"{python_all_ns - c_ns:6.0f} ns", flush=True)
        loops.end()


main()
