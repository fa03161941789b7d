#!/usr/bin/env python3
"""ncclPutSignal, ncclSignal and ncclWaitSignal of libnccl.so.2 of Tutti move the right data, on
emulated devices: ranks of one thread, and of several processes."""

import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import job

BUILD = Path(os.environ.get("TUTTI_BUILD_DIR", "build"))
PROGRAM = BUILD / "tests" / "nccl" / "programs" / "puts"
DEADLINE_S = 600
CASES = 3 * 4  # sizes and rounds


def environment():
    paths = [str(BUILD / "nccl"), str(BUILD), str(BUILD / "emu")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(paths), "TUTTI_EMU_DEVICES": "8"}


class Puts(unittest.TestCase):
    def run_program(self, processes, devices):
        """Runs all processes, and checks that each has compared all blocks."""
        ranks = processes * devices
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "id"
            command = [PROGRAM, str(processes)]
            rest = [str(devices), str(path)]
            jobs = [job.start(self, [*command, "0", *rest], environment())]
            deadline = time.monotonic() + DEADLINE_S
            while not path.exists() and jobs[0].poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            for p in range(1, processes):
                jobs.append(job.start(self, [*command, str(p), *rest], environment()))
            for process in jobs:
                out, err = process.communicate(timeout=DEADLINE_S)
                self.assertEqual(process.returncode, 0, err)
                self.assertEqual(out, f"{CASES * devices * ranks} blocks\n")

    def test_a_rank_puts_to_itself(self):
        self.run_program(1, 1)

    def test_one_thread_drives_four_ranks(self):
        self.run_program(1, 4)

    def test_three_processes_drive_a_rank_each(self):
        self.run_program(3, 1)

    def test_two_processes_drive_two_ranks_each(self):
        self.run_program(2, 2)


if __name__ == "__main__":
    if not PROGRAM.exists():
        print("skipped: the emulation of CUDA is not built")
        sys.exit(77)
    unittest.main()
