"""Ranks of programs on the c10d backend "tutti", in the environment of scripts/install-torch.sh.

TUTTI_TEST_TORCH=FOLDER selects another one of its environments. Without the environment tests are
skipped."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[2]))
PYTHON = ROOT / os.environ.get("TUTTI_TEST_TORCH", "build/torch") / "bin" / "python"
HERE = Path(__file__).parent
PATIENCE_S = 800
SETTINGS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "TORCHELASTIC_", "TUTTI_RANK",
            "TUTTI_SIZE", "TUTTI_REND")


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(SETTINGS)}
    # Traces of failed operations without stacks: PyTorch takes seconds to resolve these, and aborts
    # a process that ends meanwhile.
    return {**kept, "PYTHONFAULTHANDLER": "1", "TORCH_INCLUDE_STACK_TRACE": "0",
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **more}


class TorchTest(unittest.TestCase):
    def start(self, program, size, *cases, init, **more):
        return [subprocess.Popen([PYTHON, HERE / program, init, str(r), str(size), *cases],
                                 env=environment(**more), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                for r in range(size)]

    def run_ranks(self, program, size, *cases, **more):
        with tempfile.TemporaryDirectory() as folder:
            jobs = self.start(program, size, *cases, init=f"{folder}/init", **more)
            outputs = self.outputs_of(jobs)
        for rank, (job, output) in enumerate(zip(jobs, outputs)):
            if job.returncode or f"rank {rank} is right" not in output:
                # at once: ctest may end the script before unittest prints it
                print(*(f"\nrank {r}, status {j.returncode}:\n{o}" for r, (j, o) in
                        enumerate(zip(jobs, outputs))), sep="", file=sys.stderr, flush=True)
                self.fail(f"rank {rank}: see the output of all ranks above")

    def outputs_of(self, jobs):
        """Those that do not end in time print the stacks of their threads, and end with SIGABRT."""
        due = time.monotonic() + PATIENCE_S
        outputs = []
        try:
            for job in jobs:
                try:
                    outputs.append(job.communicate(timeout=max(due - time.monotonic(), 0.1))[0])
                except subprocess.TimeoutExpired:
                    job.send_signal(signal.SIGABRT)
                    outputs.append(job.communicate(timeout=30)[0])
        finally:
            for job in jobs:
                job.kill()
        return outputs

    def need_feature(self, condition, what):
        """Skips the test unless the condition, over torch.distributed as dist, holds."""
        done = subprocess.run([PYTHON, "-c", "import sys, torch.distributed as dist\n"
                               f"sys.exit(0 if {condition} else 77)"], capture_output=True,
                              check=False, env=environment(), text=True)
        if done.returncode == 77:
            self.skipTest(f"this PyTorch has no {what}")
        self.assertEqual(done.returncode, 0, done.stderr)

    def need(self, package):
        if subprocess.run([PYTHON, "-c", f"import {package}"], capture_output=True, check=False,
                          env=environment()).returncode:
            self.skipTest(f"{package} is not installed (scripts/install-torch.sh --frameworks)")

    def output_of(self, *command, scratch):
        """Exit status and output of a command. Its processes are a session: none of them is
        left."""
        env = environment(TMPDIR=scratch, RAY_TMPDIR=scratch, RAY_USAGE_STATS_ENABLED="0",
                          HF_HUB_OFFLINE="1", HOME=scratch)
        job = subprocess.Popen([PYTHON, *command], env=env, stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=scratch,
                               start_new_session=True)
        try:
            output = job.communicate(timeout=PATIENCE_S)[0]
        finally:
            try:
                os.killpg(job.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return job.returncode, output

    def compare(self, ranks, *command):
        losses = {}
        for backend in ("tutti", "gloo"):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
                status, output = self.output_of(*command, "--backend", backend, scratch=scratch)
            if "timed out during startup" in output:
                self.skipTest("Ray gives its own servers 30 s to start; this machine is too busy")
            self.assertEqual(status, 0, output)
            self.assertIn(f"{ranks} ranks, backend {backend}", output)
            losses[backend] = [float(x) for x in re.findall(r": loss ([0-9.]+)", output)]
            self.assertTrue(losses[backend], output)
        self.assertEqual(len(losses["tutti"]), len(losses["gloo"]))
        for ours, theirs in zip(losses["tutti"], losses["gloo"]):
            self.assertAlmostEqual(ours, theirs, delta=2e-5)


def main():
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import tutti"], capture_output=True,
                                             check=False).returncode:
        print("skipped: PyTorch is not installed here (scripts/install-torch.sh)")
        sys.exit(77)
    result = unittest.main(verbosity=2, exit=False).result
    if result.wasSuccessful() and result.skipped:       # ctest shows it
        print("skipped:", "; ".join(f"{test.id()}: {why}" for test, why in result.skipped))
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
