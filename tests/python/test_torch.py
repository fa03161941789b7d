#!/usr/bin/env python3
"""Every call of the c10d backend "tutti", by ranks of prog_torch.py, and what becomes of the
others when a rank dies."""

import signal
import subprocess
import tempfile
import time

import torch_ranks
from torch_ranks import PATIENCE_S, PYTHON, environment


class Calls(torch_ranks.TorchTest):
    def test_every_call_on_two_ranks(self):
        self.run_ranks("prog_torch.py", 2)

    def test_every_call_on_three_ranks_over_tcp(self):
        self.run_ranks("prog_torch.py", 3, TUTTI_WIRES="tcp")

    def test_every_call_with_the_checks_of_debug_detail(self):
        self.run_ranks("prog_torch.py", 2, TORCH_DISTRIBUTED_DEBUG="DETAIL")

    def test_a_rank_that_dies_is_an_exception_of_the_others(self):
        program = ("import sys, os, signal, datetime, torch, tutti.torch, torch.distributed as "
                   "dist\n"
                   "dist.init_process_group('tutti', init_method='file://' + sys.argv[1], "
                   "rank=int(sys.argv[2]), world_size=2,\n"
                   "                        timeout=datetime.timedelta(seconds=100))\n"
                   "dist.all_reduce(torch.ones(3))\n"
                   "if dist.get_rank() == 1:\n"
                   "    os.kill(os.getpid(), signal.SIGKILL)\n"
                   "try:\n"
                   "    dist.all_reduce(torch.ones(3))\n"
                   "except dist.DistBackendError as error:\n"
                   "    print('caught:', error)\n")
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            jobs = [subprocess.Popen([PYTHON, "-c", program, f"{folder}/init", str(r)],
                                     env=environment(), stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                    for r in range(2)]
            outputs = [job.communicate(timeout=PATIENCE_S)[0] for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [0, -signal.SIGKILL], outputs)
        self.assertRegex(outputs[0], r"caught: tutti: ALLREDUCE: PEER_LOST: .*rank 1")
        self.assertLess(time.monotonic() - begin, 100,
                        "the deadline passed before the loss was reported")


if __name__ == "__main__":
    torch_ranks.main()
