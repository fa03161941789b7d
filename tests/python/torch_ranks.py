"""Ranks of programs on the c10d backend "tutti", in the environment of scripts/install-torch.sh. Tests are skipped where that was not made."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[2]))
PYTHON = ROOT / "build" / "torch" / "bin" / "python"
HERE = Path(__file__).parent
PATIENCE_S = 250
SETTINGS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "TORCHELASTIC_", "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_REND")


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)}
    return {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **more}


class TorchTest(unittest.TestCase):
    def start(self, program, size, *cases, init, **more):
        return [subprocess.Popen([PYTHON, HERE / program, init, str(r), str(size), *cases], env=environment(**more), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for r in range(size)]

    def run_ranks(self, program, size, *cases, **more):
        with tempfile.TemporaryDirectory() as folder:
            jobs = self.start(program, size, *cases, init=f"{folder}/init", **more)
            try:
                outputs = [job.communicate(timeout=PATIENCE_S)[0] for job in jobs]
            finally:
                for job in jobs:
                    job.kill()
        for rank, (job, output) in enumerate(zip(jobs, outputs)):
            self.assertEqual(job.returncode, 0, f"rank {rank}:\n{output}")
            self.assertIn(f"rank {rank} is right", output)


def main():
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import tutti"], capture_output=True, check=False).returncode:
        print("skipped: PyTorch is not installed here (scripts/install-torch.sh)")
        sys.exit(77)
    unittest.main(verbosity=2)
