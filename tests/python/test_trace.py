#!/usr/bin/env python3
"""The trace of operations in the Python package: reading, annotations, names, dumps."""

import package

import json
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

import tutti


@package.ranks(2)
def records_are_read(comm):
    comm.set_name("data parallel")
    x = np.ones(6, np.float32)
    before_ns = time.monotonic_ns()
    tutti.trace_annotate("iteration 7")
    comm.allreduce(x)
    tutti.trace_annotate("")
    comm.broadcast(x, root=1)
    after_ns = time.monotonic_ns()
    records = [r for r in tutti.trace_read() if r["kind"] in ("allreduce", "broadcast")]
    first, second = records[-2:]
    assert first["kind"] == "allreduce" and first["comm_name"] == "data parallel", first
    assert (first["count"], first["bytes"], first["type"], first["op"]) == (
        6,
        24,
        "f32",
        "sum",
    ), first
    assert (
        first["note"] == "iteration 7" and first["status"] == "OK" and first["root"] is None
    ), first
    # the counter and the clock are compared to some microseconds
    assert (
        before_ns - 100_000 <= first["called_ns"] <= first["ended_ns"] <= after_ns + 100_000
    ), first
    assert (
        second["root"] == 1 and second["note"] is None and second["seq"] == first["seq"] + 1
    ), second


@package.ranks(1, 2)
def dumps_are_written(comm):
    comm.barrier()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.jsonl")
        tutti.trace_dump(str(path), "by hand")
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert (
        lines[0]["tutti_trace"] == 1
        and lines[0]["message"] == "by hand"
        and lines[0]["rank"] == comm.rank
    )
    assert lines[-1]["end"] == len(lines) - 1
    assert any(line.get("kind") == "barrier" and line["status"] == "OK" for line in lines)
    package.raises(tutti.SystemError, tutti.trace_dump, "/nonexistent-folder/trace.jsonl")
    package.raises(tutti.InvalidError, tutti.trace_dump)


@package.ranks(1)
def a_destroyed_communicator_has_no_name(comm):
    other = comm.dup()
    other.destroy()
    package.raises(tutti.InvalidError, other.set_name, "x")


package.main()
