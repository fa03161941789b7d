#!/usr/bin/env python3
"""Start-up of the c10d backend "tutti", by ranks of prog_torch_start.py: names of the backend, init
methods, mp.spawn, a bound device, restarts by torchrun, and an installed package that does not
fit."""

import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import torch_ranks
from torch_ranks import HERE, PATIENCE_S, PYTHON, environment

PROGRAM = HERE / "prog_torch_start.py"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Start(torch_ranks.TorchTest):
    def run_all(self, commands, ranks):
        """Runs (arguments, environment) at the same time; their output is that of `ranks` ranks."""
        jobs = [subprocess.Popen([PYTHON, *argv], env=environment(**env), text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT) for argv, env in commands]
        try:
            output = "".join(job.communicate(timeout=PATIENCE_S)[0] for job in jobs)
        finally:
            for job in jobs:
                job.kill()
        self.assertEqual([job.returncode for job in jobs], [0] * len(jobs), output)
        for rank in range(ranks):
            self.assertIn(f"rank {rank} is right", output)

    def test_names_of_the_backend(self):
        for name in ("tutti", "cpu:tutti", "cpu:tutti,cuda:gloo"):
            port = str(free_port())
            self.run_all([([PROGRAM, "env", name], {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2",
                                                    "MASTER_PORT": port, "RANK": str(r)})
                          for r in range(2)], 2)

    def test_cpu_tutti_with_cuda_nccl(self):
        """NCCL of PyTorch may refuse to start without a GPU, whatever runs on the CPU."""
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "1"}
        done = subprocess.run([PYTHON, PROGRAM, "env", "cpu:tutti,cuda:nccl"], text=True,
                              env=environment(RANK="0", **env), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PATIENCE_S, check=False)
        if done.returncode:
            self.assertRegex(done.stdout, r"(?i)nccl.*(requires at least one CUDA device|no GPUs)")
        else:
            self.assertIn("rank 0 is right", done.stdout)

    def test_a_package_built_for_another_pytorch(self):
        code = "import torch, tutti; print(torch.__version__, tutti.__path__[0])"
        version, installed = subprocess.run([PYTHON, "-c", code], env=environment(), text=True,
                                            capture_output=True, check=True).stdout.split()
        minor = ".".join(version.split(".")[:2])
        again = r"pip install --force-reinstall ./python"
        for record, status, words in (
                ("TORCH = '2.3.4'", 1, f"built for PyTorch 2.3.4, but PyTorch {version} is "
                                       f"installed (reinstall tutti: {again})"),
                (None, 1, "was built without PyTorch (install torch first, then reinstall tutti: "
                          f"{again})"),
                (f"TORCH = '{minor}.99'", 0, "rank 0 is right")):
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / "tutti"
                shutil.copytree(installed, copy, ignore=shutil.ignore_patterns("__pycache__"))
                (copy / "torch/_built_for.py").unlink()
                if record:
                    (copy / "torch/_built_for.py").write_text(record + "\n")
                done = subprocess.run([PYTHON, PROGRAM, "init", f"file://{folder}/init", "0", "1"],
                                      env=environment(PYTHONPATH=folder), text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, status, done.stdout)
            self.assertIn(words, done.stdout)

    def test_stub_types_every_public_name(self):
        done = subprocess.run([PYTHON, HERE / "prog_torch_stub.py"], env=environment(), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "the stub is right\n"))

    def test_init_method_tcp(self):
        method = f"tcp://127.0.0.1:{free_port()}"
        self.run_all([([PROGRAM, "init", method, str(r), "2"], {}) for r in range(2)], 2)

    def test_spawn(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_all([([PROGRAM, "spawn", f"file://{folder}/init", "2"], {})], 2)

    def test_groups_and_a_mesh_with_a_bound_device(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_all([([PROGRAM, "bound", f"file://{folder}/init", str(r), "4"], {})
                          for r in range(4)], 4)

    def test_the_store_has_one_key_of_the_job(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_all([([PROGRAM, "one_key", f"{folder}/store", str(r), "3"], {})
                          for r in range(3)], 3)

    def test_all_ranks_report_that_rank_0_cannot_start(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_all([([PROGRAM, "rank_0_fails", f"file://{folder}/init", str(r), "2"],
                           {"TUTTI_INTERFACES": "nowhere0"}) for r in range(2)], 2)

    def test_restart_by_torchrun(self):
        self.run_all([(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                        "--max-restarts", "1", PROGRAM, "restart"], {})], 2)


if __name__ == "__main__":
    torch_ranks.main()
