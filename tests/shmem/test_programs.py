#!/usr/bin/env python3
"""The OpenSHMEM programs of tests/shmem/programs succeed, on 1 to 5 PEs, over shared memory (mapped
heaps; globals by single copies, or by messages), TCP (one lane, and four), and libfabric if
available; and errors produce a message with the name of the call, and end the job."""

import json
import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("TUTTI_BUILD_DIR", SOURCE / "build/release"))
PROGRAMS = BUILD / "tests/shmem/programs"
SANITIZED = bool(os.environ.get("CFLAGS"))
DEADLINE_S = 240

# name: wires and environment
WAYS = {
    "shm": ("shm", {}),
    "shm by messages": ("shm", {"TUTTI_CMA": "0"}),
    "tcp": ("tcp", {"TUTTI_LANES": "1"}),
    "tcp, 2 lanes": ("tcp", {"TUTTI_LANES": "2"}),
    "tcp, 4 lanes": ("tcp", {"TUTTI_LANES": "4"}),
    "ofi": ("ofi", {}),
    "ofi, 4 lanes": ("ofi", {"TUTTI_LANES": "4"}),
}

# program: (method, number of PEs); every method with every program, and every number
RUNS = {
    "moves": [("shm", 1), ("shm", 2), ("shm by messages", 3), ("tcp", 2), ("tcp, 4 lanes", 3),
              ("ofi", 3)],
    "heap": [("shm", 1), ("shm", 3), ("shm by messages", 2), ("tcp", 2), ("tcp, 4 lanes", 4),
             ("ofi", 2)],
    "order": [("shm", 1), ("shm", 2), ("shm by messages", 2), ("tcp, 4 lanes", 2), ("tcp", 2),
              ("tcp, 2 lanes", 3), ("ofi", 2), ("ofi, 4 lanes", 2)],
    "atomics": [("shm", 1), ("shm", 5), ("shm by messages", 3), ("tcp", 4), ("tcp, 4 lanes", 2),
                ("ofi", 2)],
    "waits": [("shm", 1), ("shm", 4), ("shm by messages", 2), ("tcp", 3), ("tcp, 4 lanes", 5),
              ("ofi", 3)],
    "teams": [("shm", 1), ("shm", 5), ("shm by messages", 2), ("tcp", 4), ("tcp, 4 lanes", 3),
              ("ofi", 3)],
    "floats": [("shm", 1), ("shm", 3), ("shm by messages", 2), ("tcp", 4), ("tcp, 4 lanes", 2),
               ("ofi", 3)],
    "locks": [("shm", 1), ("shm", 3), ("shm by messages", 4), ("tcp", 5), ("tcp", 2),
              ("tcp, 4 lanes", 2), ("ofi", 3)],
}

# argument of the program `mistakes`: the expected message, and the exit status
MISTAKES = {
    "early": ("shmem_my_pe: the library is not initialized", 1),
    "stack": ("shmem_putmem: dest = ", 1),
    "past": ("shmem_getmem: source = ", 1),
    "pe": ("shmem_long_p: pe = 2 is out of range: the team has 2 PEs", 1),
    "aligned": ("shmem_long_atomic_inc: dest = ", 1),
    "stride": ("shmem_long_iput: dst = 0 is invalid: a stride must be at least 1", 1),
    "sig_op": ("shmem_long_put_signal: sig_op = 7", 1),
    "cmp": ("shmem_long_wait_until: cmp = 9", 1),
    "team": ("shmem_team_sync: the team is SHMEM_TEAM_INVALID", 1),
    "root": ("shmem_long_broadcast: PE_root = 2 is out of range", 1),
    "ctx": ("shmem_ctx_long_p: the context is SHMEM_CTX_INVALID", 1),
    "free": ("shmem_free: ", 1),
    "size": ("shmem_malloc: size differs between PEs: ", 1),
    "set": ("shmem_barrier: invalid active set: its last PE is 2, but the job has 2 PEs", 1),
    "unlocked": ("shmem_clear_lock: lock = ", 1),
    "again": ("shmem_quiet: the library is not initialized", 1),
    "late": ("shmem_long_wait_until: TIMEOUT: word 0 of 1, at 0x", 1),
    "late_all": ("had the value 0 at the deadline, expected > 0", 1),
    "late_any": ("shmem_long_wait_until_any_vector: TIMEOUT: word 1 of 3, at 0x", 1),
    "late_signal": ("had the value 0 at the deadline, expected >= 18446744073709551615", 1),
    "late_barrier": ("shmem_barrier_all: TIMEOUT\n", 1),
    "huge_put": ("shmem_long_put: nelems = 2305843009213693952 is too large", 1),
    "huge_putmem": ("shmem_putmem: dest = ", 1),
    "huge_get": ("shmem_long_get: nelems = 18446744073709551615 is too large", 1),
    "huge_getmem": ("shmem_getmem_nbi: source = ", 1),
    "huge_iput": ("shmem_long_iput: nelems = ", 1),
    "huge_iget": ("shmem_long_iget: nelems = ", 1),
    "huge_signal": ("shmem_long_put_signal: nelems = 18446744073709551615 is too large", 1),
    "huge_broadcast": ("shmem_broadcastmem: dest = ", 1),
    "huge_alltoall": ("shmem_alltoallmem: nelems = ", 1),
    "huge_alltoalls": ("shmem_alltoallsmem: nelems = ", 1),
    "huge_collect": ("shmem_collectmem: the blocks of all PEs together exceed", 1),
    "huge_fcollect": ("shmem_fcollectmem: nelems = ", 1),
    "huge_reduce": ("shmem_long_sum_reduce: nelems = 18446744073709551615 is too large", 1),
    "exit": ("", 0),
    "exit5": ("", 5),
}


def start(program, npes, wires, env, *args):
    command = [BUILD / "tutti", "run", "-n", npes, "--wires", wires, "--output", "plain", "--",
               PROGRAMS / program, *args]
    return subprocess.Popen([str(word) for word in command],
                            env={"SHMEM_SYMMETRIC_SIZE": "4M", **os.environ, **env},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(process, what, status=0):
    """Its output."""
    try:
        said = process.communicate(timeout=DEADLINE_S)[0]
    except subprocess.TimeoutExpired:
        process.terminate()     # the launcher ends its ranks
        raise SystemExit(f"FAILED: {what}: not at its end after {DEADLINE_S} "
                         f"s:\n{process.communicate()[0][-3000:]}") from None
    if process.returncode != status:
        raise SystemExit(f"FAILED: {what}: ended with {process.returncode}, not "
                         f"{status}:\n{said[-3000:]}")
    return said


def usable_wires():
    said = subprocess.run([BUILD / "tutti", "info", "--json"], capture_output=True, text=True,
                          check=True, timeout=60).stdout
    return {wire["name"] for wire in json.loads(said)["wires"] if wire["usable"]}


def check_programs():
    usable = usable_wires()
    for program, runs in RUNS.items():
        for turn, (way, npes) in enumerate(runs):
            if SANITIZED and turn not in (1, 3):    # a share: they are slow there
                continue
            wires, env = WAYS[way]
            if wires not in usable:
                print(f"skipped: {program} over {way}, which this machine has not")
                continue
            end(start(program, npes, wires, env), f"{program} on {npes} PEs over {way}")
        print(f"ok: {program}")


def mistake(what, status, title, **env):
    """The output of the program. Its deadline includes start-up: if that was too slow, the next one
    is longer."""
    if not what.startswith("late"):
        return end(start("mistakes", 2, "shm", env, what), title, status)
    for deadline_ms in (1000, 10000, 60000):
        said = end(start("mistakes", 2, "shm", {"TUTTI_TIMEOUT_MS": str(deadline_ms), **env}, what),
                   title, status)
        if "shmem_init: TIMEOUT" not in said:
            break
    return said


def check_mistakes():
    for what, (sentence, status) in MISTAKES.items():
        said = mistake(what, status, f"mistake {what}")
        told_twice = any(line.startswith("shmem:") and "tutti_" in line
                         for line in said.splitlines())
        if sentence not in said or "still here" in said or told_twice:
            raise SystemExit(f"FAILED: mistake {what}: \"{sentence}\" is not in\n{said}")
    said = mistake("late_barrier", 1, "a log of none", TUTTI_LOG="none")
    if "shmem: PE 0: shmem_barrier_all: TIMEOUT: " not in said:
        raise SystemExit(f"FAILED: nobody says why:\n{said}")
    for size, good in (("x", False), ("1.5Q", False), ("-1", False), ("3m", True), ("0.5G", True)):
        said = end(start("mistakes", 1, "shm", {"SHMEM_SYMMETRIC_SIZE": size}), f"a heap of {size}",
                   0 if good else 1)
        if ("still here" in said) != good or (f'invalid SHMEM_SYMMETRIC_SIZE "{size}"' in said) == good:
            raise SystemExit(f"FAILED: a heap of {size}: {said}")
    print(f"ok: {len(MISTAKES)} mistakes")


def check_full_heap():
    """It is logged once, by one PE, with the numbers and the variable that enlarges the heap."""
    said = end(start("heap", 3, "shm", {}), "a full heap")
    lines = [line for line in said.splitlines() if "the symmetric heap is full: " in line]
    if len(lines) != 1 or "4194304 bytes are free" not in lines[0] or "SHMEM_SYMMETRIC_SIZE" not in lines[0]:
        raise SystemExit(f"FAILED: a full heap: {said}")
    said = end(start("heap", 3, "shm", {"TUTTI_LOG": "none"}), "a full heap, with a log of none")
    if said:
        raise SystemExit(f"FAILED: a full heap, with a log of none: {said}")
    print("ok: a full heap")


def main():
    check_programs()
    check_mistakes()
    check_full_heap()


if __name__ == "__main__":
    sys.exit(main())
