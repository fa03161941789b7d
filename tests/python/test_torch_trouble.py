#!/usr/bin/env python3
"""Jobs in trouble on the c10d backend "tutti": a dead rank, a dead store, Ctrl-C. Each ends with an
exception before the deadline; no hang at exit, and nothing left behind."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import torch_ranks
from torch_ranks import HERE, PATIENCE_S, PYTHON, environment


class Trouble(torch_ranks.TorchTest):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name)
        self.jobs = []

    def tearDown(self):
        for job in self.jobs:
            job.kill()
            job.communicate()
        self.scratch.cleanup()

    def start_rank(self, case, rank, size=2):
        """Temporary files go to a folder of their own, so that what is left can be seen."""
        own = self.folder / "tmp"
        own.mkdir(exist_ok=True)
        program = HERE / "prog_torch_trouble.py"
        job = subprocess.Popen([PYTHON, program, case, self.folder, str(rank), str(size)],
                               env=environment(TMPDIR=str(own), TORCH_INCLUDE_STACK_TRACE="0"),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.jobs.append(job)
        return job

    def read_until(self, job, word):
        for line in job.stdout:
            if word in line:
                return
        self.fail(f"the rank ended before it printed {word!r}")

    def end_of(self, job, line=None):
        """Output and exit status of a rank that ends by itself; it leaves nothing behind."""
        output = job.communicate(line, timeout=PATIENCE_S)[0]
        with self.assertRaises(ProcessLookupError, msg="a process of the rank is left"):
            os.killpg(job.pid, 0)
        if all(j.poll() is not None for j in self.jobs):
            left = [n for n in os.listdir(self.folder / "tmp") if not n.startswith("torchinductor")]
            self.assertEqual(left, [])      # PyTorch's compiler keeps its cache
            self.assertEqual([n for n in os.listdir("/dev/shm") if str(job.pid) in n], [])
        return output, job.returncode

    def test_a_rank_that_dies_in_a_step_is_an_exception_of_the_others(self):
        jobs = [self.start_rank("dies_in_a_step", r, 3) for r in range(3)]
        ends = [self.end_of(job) for job in jobs]
        self.assertEqual([status for _, status in ends], [1, -signal.SIGKILL, 1], ends)
        for output in ends[0][0], ends[2][0]:
            self.assertRegex(output, r"Error: tutti: ALLREDUCE: PEER_LOST: .*rank 1")
            self.assertIn("step 0", output)

    def test_a_store_that_dies_after_init_is_not_needed(self):
        server = self.start_rank("serves_the_store", 0)
        self.read_until(server, "serving")
        jobs = [self.start_rank("store_dies_later", r) for r in range(2)]
        for job in jobs:
            self.read_until(job, "ready")
        server.kill()
        server.communicate()
        for job in jobs:
            job.stdin.write("go\n")
            job.stdin.flush()
        for job in jobs:
            output, status = self.end_of(job)
            self.assertEqual(status, 0, output)
            self.assertIn("done", output)

    def test_a_destroyed_group_that_is_kept_reports_no_loss(self):
        jobs = [self.start_rank("keeps_a_destroyed_group", r) for r in range(2)]
        self.read_until(jobs[0], "destroyed")
        self.assertEqual(jobs[1].wait(PATIENCE_S), 0)
        output, status = self.end_of(jobs[0], "go\n")
        self.assertEqual((output, status), ("done\n", 0))

    def test_a_store_that_dies_during_init_is_an_exception(self):
        server = self.start_rank("serves_the_store", 0)
        self.read_until(server, "serving")
        job = self.start_rank("store_dies_early", 1)
        self.read_until(job, "ready")
        server.kill()
        server.communicate()
        output, status = self.end_of(job)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"(?s)DistNetworkError: .*tutti: init: no address of rank 0")

    def test_ctrl_c_ends_every_wait_and_the_operation_continues(self):
        jobs = [self.start_rank("interrupted_calls", r) for r in range(2)]
        for job in jobs:
            output, status = self.end_of(job)
            self.assertEqual(status, 0, output)
            self.assertIn("done", output)

    def test_ctrl_c_ends_init(self):
        for rank in range(2):
            job = self.start_rank("interrupted_init", rank)
            self.read_until(job, "begins")
            while job.poll() is None:
                job.send_signal(signal.SIGINT)
                try:
                    job.wait(1)
                except subprocess.TimeoutExpired:
                    continue
            output, status = self.end_of(job)
            self.assertIn(status, (-signal.SIGINT, 1), output)
            self.assertIn("KeyboardInterrupt", output)

    def test_ctrl_c_ends_the_rank_and_the_others_get_an_exception(self):
        jobs = [self.start_rank("interrupted_rank", r) for r in range(2)]
        output, status = self.end_of(jobs[0])
        self.assertEqual(status, -signal.SIGINT, output)
        self.assertIn("KeyboardInterrupt", output)
        output, status = self.end_of(jobs[1])
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"DistBackendError: tutti: RECV: PEER_LOST: .*rank 0")


if __name__ == "__main__":
    torch_ranks.main()
