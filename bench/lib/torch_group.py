"""A process group of PyTorch as a contestant: its ranks are processes of bench/torch_rank.py, which
execute commands alternately with other contestants."""

import json
import os
import select
import subprocess
import tempfile
import time
from pathlib import Path

from lib import say

BENCH = Path(__file__).resolve().parent.parent
START_S, COMMAND_S = 300, 300


class Group:
    """A context manager. inside: (rank, argv) -> argv on that rank's host; init: the init_method,
    if not a file."""

    def __init__(self, python, backend, nranks, environment=None, inside=None, init=None,
                 quantization=None):
        self.name, self.nranks = backend, nranks
        self._folder = tempfile.TemporaryDirectory()
        init = init or f"file://{self._folder.name}/init"
        argv = [str(python), str(BENCH / "torch_rank.py"), backend, init]
        self._ranks = []
        for r in range(nranks):
            mine = [*argv, str(r), str(nranks), *([quantization] if quantization else [])]
            with open(self._told(r), "wb") as told:
                self._ranks.append(subprocess.Popen(inside(r, *mine) if inside else mine,
                                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                    stderr=told,
                                                    env={**os.environ, "OMP_NUM_THREADS": "1",
                                                         **(environment or {})}))
            os.set_blocking(self._ranks[-1].stdout.fileno(), False)

    def _told(self, rank):
        return Path(self._folder.name) / f"told.{rank}"

    def __enter__(self):
        try:
            self.version = self._answers(START_S)[0]["torch"]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for rank in self._ranks:
            rank.stdin.close()
        for rank in self._ranks:
            try:
                rank.wait(10)
            except subprocess.TimeoutExpired:
                rank.kill()
                rank.wait()
            rank.stdout.close()
        self._folder.cleanup()

    def _line(self, number, deadline):
        rank, line = self._ranks[number], b""
        while not line.endswith(b"\n"):
            if not select.select([rank.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise say.Problem(f"{self.name}: rank {number} of {self.nranks} does not answer")
            more = rank.stdout.readline()
            if not more:
                rank.kill()
                told = self._told(number).read_text(errors="replace").strip()[-500:]
                raise say.Problem(f"{self.name}: rank {number} of {self.nranks} ended: {told}")
            line += more
        return json.loads(line)

    def _answers(self, patience_s):
        deadline = time.monotonic() + patience_s
        return [self._line(r, deadline) for r in range(self.nranks)]

    def command(self, **command):
        """The answers of all ranks to {"do": ..., ...}."""
        line = (json.dumps(command) + "\n").encode()
        try:
            for rank in self._ranks:
                rank.stdin.write(line)
                rank.stdin.flush()
        except BrokenPipeError:
            pass        # the answer, which there is none of, says why
        return self._answers(COMMAND_S)

    def samples_us(self, **command):
        """Samples of the slowest rank."""
        return [max(us) for us in zip(*(answer["us"] for answer in self.command(**command)))]
