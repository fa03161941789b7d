#!/usr/bin/env python3
"""NVIDIA's nccl4py runs over libnccl.so.2 of Tutti, on emulated devices: one and several processes,
and several ranks of one thread. Skipped without scripts/install-nccl4py.sh."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import job

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("TUTTI_BUILD_DIR", "build")).resolve()
PYTHON = ROOT / os.environ.get("TUTTI_TEST_NCCL4PY", "build/nccl4py") / "bin" / "python"
PROGRAM = Path(__file__).resolve().parent / "nccl4py_ranks.py"
CHECKS = "queries reductions copies messages windows communicators captures errors"
DEADLINE_S = 280


def environment():
    paths = [str(BUILD / "nccl"), str(BUILD), str(BUILD / "emu")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(paths), "TUTTI_EMU_DEVICES": "8"}


class Nccl4py(unittest.TestCase):
    def run_job(self, processes, devices):
        with tempfile.TemporaryDirectory() as folder:
            rest = [str(processes), str(devices), str(Path(folder) / "id")]
            jobs = [
                job.start(self, [PYTHON, PROGRAM, str(process), *rest], environment())
                for process in range(processes)
            ]
            for process in jobs:
                out, err = process.communicate(timeout=DEADLINE_S)
                self.assertEqual(process.returncode, 0, err)
                self.assertEqual(out.split(), CHECKS.split(), err)

    def test_three_processes(self):
        self.run_job(3, 1)

    def test_one_thread_drives_four_ranks(self):
        self.run_job(1, 4)


if __name__ == "__main__":
    needed = (PYTHON.parent.parent / "wheels", BUILD / "emu" / "libcudart.so.13")
    if not all(file.exists() for file in needed):
        print("skipped: no nccl4py (scripts/install-nccl4py.sh), or no emulation of CUDA")
        sys.exit(77)
    if "-fsanitize" in os.environ.get("CFLAGS", ""):
        print("skipped: Python is not built with sanitizers")
        sys.exit(77)
    unittest.main()
