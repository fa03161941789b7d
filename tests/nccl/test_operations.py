#!/usr/bin/env python3
"""Programs written for NCCL give right results with libnccl.so.2 of Tutti, on emulated devices: all
operations, types and reductions, driven by one thread, by several threads and by several
processes."""

import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import job

BUILD = Path(os.environ.get("TUTTI_BUILD_DIR", "build"))
PROGRAMS = BUILD / "tests" / "nccl" / "programs"
LIBRARY = BUILD / "nccl" / "libnccl.so.2"
DEADLINE_S = 600
CASES = 3 * 12 * 6 + 6 * 12  # kinds, types and reductions


def environment():
    paths = [str(BUILD / "nccl"), str(BUILD), str(BUILD / "emu")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(paths), "TUTTI_EMU_DEVICES": "8"}


class Operations(unittest.TestCase):
    def run_program(self, processes, threads, devices, *options):
        """Runs all processes, and checks that each thread has run all cases."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "id"
            command = [PROGRAMS / "operations", str(processes)]
            rest = [str(threads), str(devices), str(path), *options]
            jobs = [job.start(self, [*command, "0", *rest], environment())]
            deadline = time.monotonic() + DEADLINE_S
            while not path.exists() and jobs[0].poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            for p in range(1, processes):
                jobs.append(job.start(self, [*command, str(p), *rest], environment()))
            for process in jobs:
                out, err = process.communicate(timeout=DEADLINE_S)
                self.assertEqual(process.returncode, 0, err)
                self.assertEqual(out, f"{threads * CASES} cases\n")

    def test_one_thread_drives_one_rank(self):
        self.run_program(1, 1, 1)

    def test_one_thread_drives_three_ranks(self):
        self.run_program(1, 1, 3)

    def test_one_thread_drives_eight_ranks(self):
        self.run_program(1, 1, 8)

    def test_two_threads_drive_two_ranks_each(self):
        self.run_program(1, 2, 2)

    def test_captured_operations_of_one_thread_are_replayed(self):
        self.run_program(1, 1, 3, "graphs")

    def test_captured_operations_of_two_processes_are_replayed(self):
        self.run_program(2, 1, 2, "graphs")

    def test_two_processes_drive_two_ranks_each(self):
        self.run_program(2, 1, 2)


if __name__ == "__main__":
    if not (PROGRAMS / "operations").exists():
        print("skipped: the emulation of CUDA is not built")
        sys.exit(77)
    unittest.main()
