"""The processes of a contestant, driven over named pipes (peers/PROTOCOL.md)."""

import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

from . import machine
from .shaped import scratch

PREFIX = "tutti-bench."
START_S = 60
QUIT_S = 5
START_BYTES = 64


class GroupError(Exception):
    """The group died, hung, or sent an invalid reply. It cannot be used any more."""


class Refused(Exception):
    """The group cannot run this command; it stays usable."""


class Group:
    """n processes that wait for commands. launches: (argv, environment to add) each, started at the
    same time.

    argv may contain '{dir}', which becomes the directory of the pipes. Use as a context manager, or
    call close, which requests the processes to leave and ends those that do not. together: the
    ranks begin each measured iteration at a common time, on which they agree after their barrier;
    this needs one core per rank."""

    def __init__(self, label, nranks, launches, together=False):
        self.label = label
        # of killed runs: their processes have seen the end of their pipes and left
        scratch.remove_leftovers(PREFIX)
        directory, self._lock = scratch.make(PREFIX)
        self.dir = str(directory)
        self._log = open(Path(self.dir) / "log", "w+b")
        self._controls, self._processes, self._rest = [], [], b""
        try:
            self._reply = self._pipe("reply")
            self._controls = [self._pipe(f"control.{rank}") for rank in range(nranks)]
            if together:
                (Path(self.dir) / "start").write_bytes(bytes(START_BYTES))
            for argv, env in launches:
                self._start(argv, env)
            start = self._read_line(START_S)
            if not start.get("ready"):
                raise GroupError(f"{label}: the start line says {start}")
        except BaseException:
            self.close()
            raise
        self.name, self.version = start["name"], start["version"]
        machine.remember(self.name, self.version)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _pipe(self, name):
        """Creates a pipe and holds both ends, so that opening never waits. If this process dies,
        readers see the end of file."""
        path = Path(self.dir) / name
        os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def _start(self, argv, env):
        argv = [str(word).replace("{dir}", self.dir) for word in argv]
        self._processes.append(subprocess.Popen(
            argv, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=self._log,
            stderr=self._log, start_new_session=True))

    def command(self, coll, nbytes, iters, warmup=0, loops=0, memory="malloc", timeout_s=120):
        """Runs one command and returns its reply."""
        line = f"{coll} {nbytes} {iters} {warmup} {loops} {memory}\n".encode()
        for control in self._controls:
            os.write(control, line)
        reply = self._read_line(timeout_s)
        if "error" in reply:
            raise Refused(f"{self.label}: {reply['error']}")
        if reply.get("wrong"):
            raise Refused(f"{self.label}: {reply['wrong']} elements of {coll} {nbytes} are wrong")
        return reply

    def pids(self):
        return [process.pid for process in self._processes]

    def _read_line(self, timeout_s):
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            if time.monotonic() > deadline:
                raise GroupError(f"{self.label}: no reply in {timeout_s} s{self._last_words()}")
            ready, _, _ = select.select([self._reply], [], [], 0.2)
            if ready:
                self._rest += os.read(self._reply, 1 << 16)
            elif any(process.poll() is not None for process in self._processes):
                raise GroupError(f"{self.label}: a process ended{self._last_words()}")
        line, self._rest = self._rest.split(b"\n", 1)
        try:
            return json.loads(line)
        except ValueError:
            raise GroupError(f"{self.label}: this is not JSON: {line[:200]!r}") from None

    def _last_words(self):
        self._log.flush()
        lines = (Path(self.dir) / "log").read_text(errors="replace").strip().splitlines()
        return ": " + " | ".join(lines[-4:]) if lines else ""

    def close(self):
        for control in self._controls:
            try:
                os.set_blocking(control, False)
                os.write(control, b"quit\n")
            except OSError:
                pass
        for sig in (None, signal.SIGTERM, signal.SIGKILL):
            self._end(sig)
        for fd in [*self._controls, getattr(self, "_reply", None)]:
            if fd is not None:
                os.close(fd)
        self._log.close()
        shutil.rmtree(self.dir, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None
        self._controls, self._reply, self._processes = [], None, []

    def _end(self, sig):
        """Sends sig, if given, and waits up to QUIT_S for the remaining processes."""
        left = [process for process in self._processes if process.poll() is None]
        for process in left if sig else []:
            try:
                os.killpg(process.pid, sig)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + QUIT_S
        for process in left:
            try:
                process.wait(max(0.01, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
