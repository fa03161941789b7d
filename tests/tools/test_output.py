#!/usr/bin/env python3
"""Standard output that cannot be written: each command reports the error once, and its exit status
is not 0."""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
PATIENCE_S = 60
FULL = "cannot write standard output: No space left on device"
# A short call of each command that prints something itself; `tutti run` prints the output of ranks:
# tests/cluster/test_run.py.
CALLS = {
    "info": ["info"],
    "lanes": ["lanes"],
    "perf": ["perf", "allreduce", "--ranks", "1", "--max", "8", "--iters", "1"],
    "plan": ["plan", "show", "allgather", "ring", "--ranks", "3"],
    "sim": ["sim", "allgather", "--ranks", "4"],
    "topo": ["topo"],
}
PICTURE = ["plan", "draw", "allgather", "ring", "--ranks", "3"]


def tutti(*arguments, to, **more):
    return subprocess.run([TUTTI, *arguments], stdin=subprocess.DEVNULL, stdout=to,
                          stderr=subprocess.PIPE, text=True, check=False,
                          timeout=PATIENCE_S, **more)


class FailedOutput(unittest.TestCase):
    def assert_reported(self, done, cause):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(re.findall("cannot write", done.stderr)), 1, done.stderr)
        self.assertIn(cause, done.stderr)

    def test_each_command_reports_a_full_device(self):
        for arguments in ([], *CALLS.values(), PICTURE, ["--version"]):
            with self.subTest(arguments=arguments), open("/dev/full", "w",
                                                         encoding="ascii") as full:
                if arguments:
                    self.assertEqual(tutti(*arguments, to=subprocess.DEVNULL).returncode, 0)
                    self.assert_reported(tutti(*arguments, to=full), FULL)
                else:
                    self.assert_reported(tutti("--help", to=full), FULL)

    def test_help_reports_a_full_device(self):
        commands = re.findall(r"^  (\w+) ", tutti("--help", to=subprocess.PIPE).stdout,
                              re.MULTILINE)
        self.assertGreater(len(commands), 8)
        for command in commands:
            with self.subTest(command=command), open("/dev/full", "w", encoding="ascii") as full:
                self.assert_reported(tutti(command, "--help", to=full), FULL)

    def test_closed_output_is_reported_if_used(self):
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", TUTTI, "--version"],
                              stderr=subprocess.PIPE, text=True, check=False,
                              timeout=PATIENCE_S)
        self.assert_reported(done, "cannot write standard output: Bad file descriptor")

    def test_a_file_size_limit_is_reported(self):
        with tempfile.TemporaryFile() as file:
            done = subprocess.run(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", TUTTI, "plan",
                                   "show", "allgather", "ring", "--ranks", "64"],
                                  stdout=file, stderr=subprocess.PIPE, text=True, check=False,
                                  timeout=PATIENCE_S)
            self.assertGreater(os.fstat(file.fileno()).st_size, 0)
        self.assert_reported(done, "cannot write standard output: File too large (a file size "
                                   "limit is set: ulimit -f)")

    def test_coordinator_continues_without_a_reader(self):
        reader, writer = os.pipe()
        os.close(reader)
        with tempfile.TemporaryDirectory() as folder, \
                subprocess.Popen([TUTTI, "coordinator", "--listen", "127.0.0.1:0", "--journal",
                                  f"{folder}/journal"],
                                 stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
                                 text=True) as coordinator:
            os.close(writer)
            while not os.path.exists(f"{folder}/journal") and coordinator.poll() is None:
                time.sleep(0.01)
            coordinator.send_signal(signal.SIGTERM)
            self.assertEqual((coordinator.wait(PATIENCE_S), coordinator.stderr.read()), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
