#!/usr/bin/env python3
"""reconfigure of PyTorch 2.15 on the backend "tutti": members die, leave and join, without a
restart of the others."""

import signal
import subprocess
import tempfile

import torch_ranks
from torch_ranks import HERE, PATIENCE_S, PYTHON, environment


# The flight recorder of PyTorch 2.15 writes a trace after each failure, in a thread that resolves
# stack traces (15 s and more on a busy machine). A process that exits meanwhile is aborted.
NO_TRACE = {"TORCH_FR_BUFFER_SIZE": "0"}


class Reconfigure(torch_ranks.TorchTest):
    def run_members(self, case, names, killed=(), **more):
        with tempfile.TemporaryDirectory() as folder:
            jobs = [subprocess.Popen([PYTHON, HERE / "prog_torch_reconfigure.py", folder, name,
                                      case], env=environment(**NO_TRACE, **more),
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True) for name in names]
            try:
                outputs = [job.communicate(timeout=PATIENCE_S)[0] for job in jobs]
            finally:
                for job in jobs:
                    job.kill()
        for name, job, output in zip(names, jobs, outputs):
            if name in killed:
                self.assertEqual(job.returncode, -signal.SIGKILL, f"{name}:\n{output}")
                continue
            self.assertEqual(job.returncode, 0, f"{name}:\n{output}")
            self.assertIn(f"{name} is right", output)

    def test_members_die_join_and_leave(self):
        self.run_members("churn", "abcd", killed="b")

    def test_members_die_join_and_leave_over_tcp(self):
        self.run_members("churn", "abcd", killed="b", TUTTI_WIRES="tcp")

    def test_groups_merge_and_part(self):
        self.run_members("alone_and_together", "ab")

    def test_pending_operations_end(self):
        self.run_members("pending", "ab")

    def test_mistakes_are_errors_and_change_nothing(self):
        self.run_members("bad_input", "ab")


if __name__ == "__main__":
    torch_ranks.main()
