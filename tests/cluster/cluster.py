"""Shared by tests that start many processes: the location of the build, and a mark in the
environment, by which every process that a test started, directly or indirectly, is found."""

import os
import random
import re
import socket
import subprocess
import sys
import time
import unittest
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))     # hosts and testbed

BUILD = Path(os.environ.get("TUTTI_BUILD_DIR", "build/release")).resolve()
TUTTI = str(BUILD / "tutti")
MEET = str(BUILD / "tests" / "cluster" / "prog_meet")
VANISH = str(BUILD / "tests" / "cluster" / "prog_vanish")
CALLS = str(BUILD / "tests" / "cluster" / "prog_calls")
EXEC_TRIES = 20
SANITIZED = bool(os.environ.get("CFLAGS"))
PATIENCE_S = 480 if SANITIZED else 300      # limit for hangs; a busy machine does not reach it
SLOW = "=thread" in os.environ.get("CFLAGS", "")    # TSan: fewer similar cases


def environment(**more):
    """The current environment without variables of an outer launcher, and with a new mark."""
    foreign = ("TUTTI_RANK", "TUTTI_SIZE", "TUTTI_REND", "TUTTI_TOKEN", "OMPI_", "OPAL_", "PMI",
               "PRTE_", "SLURM_", "RANK", "WORLD_SIZE", "MASTER_",
               "TORCHELASTIC_", "MPI_LOCAL", "PALS_", "ALPS_", "MV2_", "MPIRUN_", "JSM_", "FLUX_",
               "HOROVOD_", "JOB_COMPLETION_INDEX")
    env = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    env["TUTTI_TEST_MARK"] = uuid.uuid4().hex
    if SANITIZED:
        # the default maps memory at addresses that sanitizers may use
        env["PMIX_MCA_gds"] = "hash"
    env["LSAN_OPTIONS"] = (f"suppressions={Path(__file__).with_name('leaks.txt')}:print_suppressions=0")
    env.update(more)
    return env


def free_port():
    """A port without a listener, outside the range of ephemeral ports: it stays free until a
    process listens on it."""
    while True:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", random.randrange(20000, 32000)))
            except OSError:
                continue
            return s.getsockname()[1]


def environ_of(pid):
    """A process's environment, as bytes; empty for zombies and kernel threads. It is also empty for
    a moment during exec. Therefore it is read again, up to EXEC_TRIES times, because a process may
    also have no variables."""
    for _ in range(EXEC_TRIES):
        with open(f"/proc/{pid}/environ", "rb") as f:
            variables = f.read()
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        if fields[0] in "ZX" or fields[20] == "0":      # state; size of its memory
            return b""
        if variables:
            return variables
        time.sleep(0.001)
    return b""


def marked(env):
    """Pids of living processes (no zombies) with the mark of this environment."""
    mark = ("TUTTI_TEST_MARK=" + env["TUTTI_TEST_MARK"]).encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if mark in environ_of(entry).split(b"\0"):
                found.append(int(entry))
        except OSError:
            pass
    return found


def wait_until(condition, what, seconds=PATIENCE_S):
    """Polls a condition, with a deadline."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def blocked_writers(env):
    """Pids of the processes of `head` with the mark, if none of them can write more; else none."""

    def writers():
        state = {}
        for pid in marked(env):
            try:
                if Path(f"/proc/{pid}/comm").read_text() == "head\n":
                    written = Path(f"/proc/{pid}/io").read_text()
                    state[pid] = (Path(f"/proc/{pid}/syscall").read_text().split()[0],
                                  re.search(r"wchar: (\d+)", written)[1])
            except (OSError, IndexError):
                pass
        return state

    before = writers()
    is_blocked = (all(call == "1" for call, _ in before.values())
                  and all(writers() == before for _ in range(20)))
    return sorted(before) if is_blocked else []


class ClusterTest(unittest.TestCase):
    def run_tutti(self, *args, stdin=None, env=None, timeout=PATIENCE_S, inside=()):
        """Runs `tutti run args` to its end; checks that no process outlives it. `inside`: a command
        that runs it elsewhere."""
        env = env or environment()
        done = subprocess.run([*inside, TUTTI, "run", *map(str, args)], input=stdin, stdin=None
                              if stdin is not None else subprocess.DEVNULL,
                              env=env, capture_output=True, text=True, timeout=timeout)
        wait_until(lambda: not marked(env), f"processes are left: {marked(env)}")
        return done

    def start_tutti(self, *args, env, inside=(), **more):
        return subprocess.Popen([*inside, TUTTI, "run", *map(str, args)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=env, text=True, **more)

    def read_lines(self, process, n):
        """The next n lines of its output; the test runner sets the deadline."""
        lines = []
        while len(lines) < n:
            line = process.stdout.readline()
            if not line:
                raise AssertionError(f"only {lines}, then: {process.stderr.read()}")
            lines.append(line.rstrip("\n"))
        return lines
