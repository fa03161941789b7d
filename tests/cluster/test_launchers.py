#!/usr/bin/env python3
"""The same program starts unchanged under the launchers that people already use, and by hand."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from pathlib import Path

from cluster import CALLS, MEET, TUTTI, ClusterTest, environment, free_port
from slurm import Slurm, why_not as why_no_slurm


SOURCE = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[2]))
HIDE = """for library in $(ldconfig -p | sed -n 's/^.*libpmix[.]so[.]2 .*=> //p'); do mount --bind /dev/null "$(realpath "$library")" || exit 125; done
exec "$@" """


def has_pmix():
    """Whether this build has PMIx."""
    info = subprocess.run([TUTTI, "info", "--json"], env=environment(), capture_output=True, text=True, check=True, timeout=100)
    return json.loads(info.stdout)["build"]["pmix"]


class LauncherTest(ClusterTest):
    maxDiff = None

    def check_quiet(self, command, n, launcher, env=None):
        """As check, and nothing is on stderr: no complaint of the launcher's, either."""
        env = env or environment()
        env.setdefault("TUTTI_TIMEOUT_MS", "30000")
        done = subprocess.run([*command, MEET], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {rank} of {n} met ({launcher})" for rank in range(n)])

    def check(self, command, n, launcher, env=None, times=1):
        env = env or environment()
        env.setdefault("TUTTI_TIMEOUT_MS", "30000")
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(n):
            self.assertEqual(done.stdout.count(f"rank {rank} of {n} met ({launcher})"), times, done.stdout + done.stderr)

    def check_calls(self, command, n, env=None):
        """A job of the program that calls every collective, short and long, and checks every byte."""
        env = env or environment()
        env.setdefault("TUTTI_TIMEOUT_MS", "60000")
        done = subprocess.run([*command, CALLS], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=150)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(n):
            self.assertEqual(done.stdout.count(f"rank {rank} of {n} is right"), 1, done.stdout + done.stderr)

    def check_that_not_all_came(self, command, rank, says, timeout_ms, env=None):
        """Rank 2 comes only when the others have given up; each of them says so."""
        with tempfile.TemporaryDirectory() as tmp:
            job = f'if [ ${rank} = 2 ]; then until [ $(ls {tmp} | wc -l) = 3 ]; do sleep 0.05; done; else {MEET}; touch {tmp}/${rank}; fi'
            done = subprocess.run([*command, "sh", "-c", job], env=dict(env or environment(), TUTTI_TIMEOUT_MS=str(timeout_ms)), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=100)
        self.assertEqual(len(re.findall(f"failed: meet: .*{says}", done.stdout)), 3, done.stdout + done.stderr)

    def check_calls_by_hand(self, envs):
        for rank, (status, output) in enumerate(self.start_by_hand(envs, program=CALLS)):
            self.assertEqual(status, 0, output)
            self.assertIn(f"rank {rank} of {len(envs)} is right", output)

    def begin_by_hand(self, envs, program=MEET):
        """One process each."""
        return [subprocess.Popen([program], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                for env in envs]

    def end_by_hand(self, jobs):
        """Their exit statuses and what each printed, in order."""
        outputs = [job.communicate(timeout=100)[0] for job in jobs]
        return list(zip((job.returncode for job in jobs), outputs))

    def start_by_hand(self, envs, program=MEET):
        return self.end_by_hand(self.begin_by_hand(envs, program))



class Launchers(LauncherTest):
    def openmpi(self, n):
        if not shutil.which("mpirun.openmpi"):
            self.skipTest("Open MPI is not installed")
        return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(n)]

    def test_mpirun_of_open_mpi(self):
        self.check([*self.openmpi(4), MEET], 4, "openmpi")
        self.check_calls(self.openmpi(3), 3)
        self.check_calls(self.openmpi(2), 2, environment(TUTTI_WIRES="tcp"))

    def test_mpirun_of_open_mpi_twice_in_one_process(self):
        self.check([*self.openmpi(3), MEET, "twice"], 3, "openmpi", times=2)

    def test_mpirun_of_open_mpi_where_pmix_is_of_no_use(self):
        self.check([*self.openmpi(3), "env", "-u", "PMIX_NAMESPACE", MEET, "twice"], 3, "openmpi", times=2)

    def test_mpirun_of_mpich(self):
        if not shutil.which("mpirun.mpich"):
            self.skipTest("MPICH is not installed")
        self.check(["mpirun.mpich", "-n", "4", MEET], 4, "mpich")
        self.check(["mpirun.mpich", "-n", "3", MEET, "twice"], 3, "mpich", times=2)
        self.check_calls(["mpirun.mpich", "-n", "3"], 3)
        self.check_calls(["mpirun.mpich", "-n", "2"], 2, environment(TUTTI_WIRES="tcp"))

    def test_that_not_all_came_is_told_under_mpirun(self):
        """Under Open MPI's: MPICH's kills all ranks when the first one gives up."""
        self.check_that_not_all_came(self.openmpi(4), "OMPI_COMM_WORLD_RANK", r"3 of 4 ranks joined within \d+\.\d s; missing: 2\b", 5000)

    def test_a_rendezvous_of_ones_own_under_mpirun(self):
        self.check([*self.openmpi(3), MEET], 3, "openmpi", environment(TUTTI_RENDEZVOUS=f"tcp://127.0.0.1:{free_port()}"))

    def test_the_variables_of_torchrun(self):
        port = free_port()
        with socket.create_server(("127.0.0.1", port)):    # torch's own store is there
            envs = [environment(RANK=str(r), WORLD_SIZE="3", LOCAL_RANK=str(r), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                                TORCHELASTIC_RUN_ID="job", TORCHELASTIC_RESTART_COUNT="0", TUTTI_TIMEOUT_MS="30000")
                    for r in range(3)]
            for rank, (status, output) in enumerate(self.start_by_hand(envs)):
                self.assertEqual(status, 0, output)
                self.assertIn(f"rank {rank} of 3 met (torchrun)", output)
            self.check_calls_by_hand(envs)

    def test_the_variables_of_srun(self):
        envs = [environment(SLURM_PROCID=str(r), SLURM_STEP_NUM_TASKS="2", SLURM_STEP_ID="1", SLURM_JOB_ID=str(free_port()),
                            SLURM_STEP_NODELIST="localhost", TUTTI_TIMEOUT_MS="30000") for r in range(2)]
        for env in envs[1:]:
            env["SLURM_JOB_ID"] = envs[0]["SLURM_JOB_ID"]
        for rank, (status, output) in enumerate(self.start_by_hand(envs)):
            self.assertEqual(status, 0, output)
            self.assertIn(f"rank {rank} of 2 met (slurm)", output)
        self.check_calls_by_hand(envs)

    def by_hand(self, rendezvous, n=3, **more):
        return [environment(TUTTI_RANK=str(r), TUTTI_SIZE=str(n), TUTTI_RENDEZVOUS=rendezvous, **more) for r in range(n)]

    def test_by_hand_over_every_kind_of_address(self):
        with tempfile.TemporaryDirectory() as tmp:
            for where in (f"tcp://127.0.0.1:{free_port()}", f"tcp://localhost:{free_port()}", f"tcp://[::1]:{free_port()}",
                          f"tcp://{socket.gethostname()}:{free_port()}", f"file://{tmp}/rendezvous"):
                if "[::1]" in where and not os.path.exists("/proc/net/if_inet6"):
                    continue
                with self.subTest(where=where):
                    for rank, (status, output) in enumerate(self.start_by_hand(self.by_hand(where, TUTTI_TIMEOUT_MS="30000"))):
                        self.assertEqual(status, 0, output)
                        self.assertIn(f"rank {rank} of 3 met (tutti)", output)
            self.assertEqual(os.listdir(tmp), [])

    def test_collectives_by_hand(self):
        for wires in ("shm", "tcp"):
            with self.subTest(wires=wires):
                where = f"tcp://127.0.0.1:{free_port()}"
                self.check_calls_by_hand(self.by_hand(where, TUTTI_TIMEOUT_MS="60000", TUTTI_WIRES=wires))

    def test_a_rank_that_does_not_come_is_named_by_every_one_that_did(self):
        """All jobs at once, as each waits to its deadline: so long that whoever is there comes in time."""
        jobs = {}
        with tempfile.TemporaryDirectory() as tmp:
            for missing, where in ((0, "tcp"), (0, "file"), (2, "tcp"), (3, "tcp")):
                address = f"tcp://127.0.0.1:{free_port()}" if where == "tcp" else f"file://{tmp}/rendezvous"
                envs = self.by_hand(address, 4, TUTTI_TIMEOUT_MS="5000")
                del envs[missing]
                jobs[missing, where] = address, self.begin_by_hand(envs)
            for (missing, where), (address, job) in jobs.items():
                with self.subTest(missing=missing, where=where):
                    came = [rank for rank in range(4) if rank != missing]
                    for rank, (status, output) in zip(came, self.end_by_hand(job)):
                        self.assertEqual(status, 1)
                        if missing:
                            self.assertRegex(output, rf"3 of 4 ranks joined within \d+\.\d s; missing: {missing}\b")
                            continue
                        self.assertRegex(output, rf"rank {rank}: rank 0 is missing: no rendezvous server at {re.escape(address)} \(TUTTI_RENDEZVOUS\), "
                                                 r"where rank 0 listens, within \d+\.\d s \(\d+ attempts")
                        self.assertIn("only rank 0 can report other missing ranks", output)

    def test_why_a_rank_cannot_start_is_told_to_all_at_once(self):
        for refusing, wrong, says in ((0, {"TUTTI_TUNE_FILE": "/nowhere.json"}, "tune file /nowhere.json: No such file"),
                                      (2, {"TUTTI_EAGER_BYTES": "x"}, 'TUTTI_EAGER_BYTES is "x"'),
                                      (1, {"TUTTI_ALGORITHMS": "x.so"}, 'TUTTI_ALGORITHMS: "x.so" is not a path')):
            there = {"TUTTI_SIZE": "3", "TUTTI_RENDEZVOUS": f"tcp://127.0.0.1:{free_port()}", "TUTTI_TIMEOUT_MS": "1000000"}    # beyond our own patience
            ended = self.start_by_hand([environment(**there, TUTTI_RANK=str(r), **(wrong if r == refusing else {})) for r in range(3)],
                                       program=CALLS)
            for rank, (status, output) in enumerate(ended):
                self.assertNotEqual(status, 0)
                self.assertIn(says if rank == refusing else f"rank {refusing} cannot start: ", output)
                self.assertIn(says, output)

    def test_variables_that_are_not_enough_are_told(self):
        """The table of all of them is in tests/boot/test_launch.c."""
        for name, value, says in (("PMI_RANK", "0", "PMI_SIZE is not set"), ("RANK", "1", "WORLD_SIZE is not set"),
                                  ("SLURM_PROCID", "1", "SLURM_STEP_ID is not set"), ("JOB_COMPLETION_INDEX", "0", "Kubernetes"),
                                  ("PMI_PORT", "localhost:1", "PMI_ID is not set"), ("PMIX_RANK", "0", "PMIX_NAMESPACE is not set")):
            with self.subTest(name=name):
                (status, output), = self.start_by_hand([environment(**{name: value})])
                self.assertEqual(status, 1, output)
                self.assertIn(f'{name} is "{value}"', output)
                self.assertIn(says, output)

    def test_an_address_that_a_hint_shows_is_accepted(self):
        (status, output), = self.start_by_hand([environment(TUTTI_RANK="0", TUTTI_SIZE="2")])
        self.assertEqual(status, 1, output)
        shown = re.search(r"TUTTI_RENDEZVOUS=(\S+:)port\b", output)[1]
        self.assertEqual(shown, "tcp://host:")
        where = shown.replace("host", "127.0.0.1") + str(free_port())
        for status, output in self.start_by_hand(self.by_hand(where, 2, TUTTI_TIMEOUT_MS="30000")):
            self.assertEqual(status, 0, output)

    def test_a_single_process_is_a_job_of_one(self):
        (status, output), = self.start_by_hand([environment()])
        self.assertEqual((status, output), (0, "rank 0 of 1 met (single)\n"))


class Wheels(LauncherTest):
    """Launchers of today, from PyPI: Open MPI 5 with its PRRTE, and MPICH 5, whose hydra is Intel MPI's, too."""

    @classmethod
    def setUpClass(cls):
        try:
            done = subprocess.run([SOURCE / "scripts" / "install-launchers.sh"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200)
            why = done.stderr.strip() if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        if why:
            raise unittest.SkipTest(f"scripts/install-launchers.sh: {why}")

    def openmpi(self, n):
        if not has_pmix():
            self.skipTest("PMIx is not compiled in")
        return [str(SOURCE / "build/launchers/openmpi/bin/mpirun"), "--allow-run-as-root", "--oversubscribe", "-n", str(n)]

    def prterun(self, n):
        return [self.openmpi(n)[0].replace("mpirun", "prterun"), "--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE", "-n", str(n)]

    def mpich(self, n, *more, program="mpiexec"):
        return [str(SOURCE / "build/launchers/mpich/bin" / program), *more, "-n", str(n)]

    def hidden(self):
        """What runs a command where the system has no libpmix."""
        command = ["unshare", "--mount", "sh", "-c", HIDE, "hidden"]
        if os.geteuid() or subprocess.run([*command, "true"], capture_output=True).returncode:
            self.skipTest("hiding a file needs root and a mount namespace")
        return command

    def test_mpirun_of_open_mpi(self):
        self.check([*self.openmpi(3), MEET, "twice"], 3, "openmpi", times=2)
        self.check_quiet(self.openmpi(4), 4, "openmpi")
        self.check_calls(self.openmpi(2), 2)

    def test_mpirun_of_open_mpi_without_a_pmix_of_the_system(self):
        self.check_quiet([*self.hidden(), *self.openmpi(4)], 4, "openmpi")

    def test_prterun(self):
        self.check_quiet(self.prterun(4), 4, "prrte")
        self.check_quiet(self.prterun(1), 1, "prrte")
        self.check_quiet([*self.prterun(2), "env", "-u", "PRTE_LAUNCHED"], 2, "pmix")
        self.check([*self.prterun(3), MEET, "twice"], 3, "prrte", times=2)
        self.check_calls(self.prterun(2), 2)

    def test_prterun_without_a_pmix_of_the_system(self):
        self.check_quiet([*self.hidden(), *self.prterun(4)], 4, "prrte")

    def test_prterun_with_an_address_of_ones_own(self):
        self.check([*self.prterun(3), MEET], 3, "prrte", environment(TUTTI_RENDEZVOUS=f"tcp://127.0.0.1:{free_port()}"))

    def test_prterun_fails_where_no_pmix_can_be_loaded(self):
        """A shell is between prterun and each rank, and no variable leads to its library."""
        command = [*self.hidden(), *self.prterun(2), "sh", "-c", f"{MEET}; exit $?"]
        done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
        self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn(" met ", done.stdout)
        self.assertRegex(done.stdout + done.stderr, r"PMIX_RANK is \d, but the number of ranks cannot be queried from the PMIx launcher: .*libpmix.so.2.*set PMIX_PREFIX")
        self.check([*self.hidden(), *self.prterun(2), "-x", "PMIX_PREFIX", *command[-3:]], 2, "prrte",
                   environment(PMIX_PREFIX=str(SOURCE / "build/launchers/openmpi")))

    def test_mpiexec_of_mpich(self):
        self.check_quiet(self.mpich(4), 4, "mpich")
        self.check([*self.mpich(3), MEET, "twice"], 3, "mpich", times=2)
        self.check_calls(self.mpich(2), 2)
        self.check_quiet(self.mpich(3, program="mpiexec.gforker"), 3, "mpich")

    def test_mpiexec_of_mpich_over_a_port(self):
        self.check_quiet(self.mpich(4, "-pmi-port"), 4, "mpich")
        self.check_quiet(self.mpich(1, "-pmi-port"), 1, "mpich")
        self.check([*self.mpich(3, "-pmi-port"), MEET, "twice"], 3, "mpich", times=2)
        self.check_calls(self.mpich(2, "-pmi-port"), 2)

    def test_mpiexec_of_mpich_over_a_port_with_an_address_of_ones_own(self):
        self.check_quiet(self.mpich(3, "-pmi-port"), 3, "mpich", environment(TUTTI_RENDEZVOUS=f"tcp://127.0.0.1:{free_port()}"))


class RealSlurm(LauncherTest):
    """srun of a Slurm that runs here for the purpose, with four processors to give."""

    @classmethod
    def setUpClass(cls):
        if why_no_slurm():
            raise unittest.SkipTest(why_no_slurm())
        cls.slurm = Slurm((free_port(), free_port()), 4, environment()).__enter__()
        cls.addClassCleanup(cls.slurm.__exit__)

    def check_srun(self, mpi, launcher):
        self.check(["srun", "--ntasks=4", f"--mpi={mpi}", MEET, "twice"], 4, launcher, self.slurm.env, times=2)
        self.check_calls(["srun", "--ntasks=3", f"--mpi={mpi}"], 3, self.slurm.env)

    def test_srun_that_offers_nothing(self):
        self.check_srun("none", "slurm")

    def test_a_batch_script_is_a_single_process(self):
        """Its job has four tasks, and no step."""
        with tempfile.TemporaryDirectory() as tmp:
            script = Path(tmp) / "script"
            script.write_text(f"#!/bin/sh\nenv | grep ^SLURM_; exec {MEET}\n")
            command = ["sbatch", "--wait", "--ntasks=4", f"--chdir={tmp}", f"--output={tmp}/output", str(script)]
            done = subprocess.run(command, env=self.slurm.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
            output = (Path(tmp) / "output").read_text()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + output)
        self.assertIn("SLURM_NTASKS=4\n", output)
        self.assertIn("rank 0 of 1 met (single)\n", output)

    def test_srun_with_pmi(self):
        self.check_srun("pmi2", "mpich")        # the same variables as MPICH's mpirun sets

    def test_srun_with_pmix(self):
        offers = subprocess.run(["srun", "--mpi=list"], env=self.slurm.env, capture_output=True, text=True, check=True, timeout=100)
        if not has_pmix() or "pmix" not in (offers.stdout + offers.stderr).split():
            self.skipTest("PMIx is not compiled in, or this Slurm does not have it")
        self.check_srun("pmix", "slurm")

    def test_a_rank_that_does_not_come_is_named_under_srun(self):
        self.check_that_not_all_came(["srun", "--ntasks=4", "--mpi=none"], "SLURM_PROCID", r"3 of 4 ranks joined within \d+\.\d s; missing: 2\b",
                                     5000, self.slurm.env)     # whoever is there comes in time


class RealTorchrun(LauncherTest):
    """PyTorch's launcher, where it is installed. It is too large for CI."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("torchrun"):
            raise unittest.SkipTest("torchrun is not installed (it comes with PyTorch: pip install torch)")

    def torchrun(self, n, *more):
        return ["torchrun", "--no_python", "--nnodes=1", f"--nproc_per_node={n}", *more]

    def test_torchrun_with_either_rendezvous_of_its_own(self):
        for how in (("--master_addr=127.0.0.1", f"--master_port={free_port()}"),
                    ("--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{free_port()}", "--rdzv_id=tutti")):
            with self.subTest(how=how[0]):
                self.check([*self.torchrun(4, *how), MEET, "twice"], 4, "torchrun", times=2)
                self.check_calls(self.torchrun(4, *how), 4)

    def test_ranks_that_torchrun_starts_again_meet_again(self):
        """The first time rank 1 fails, while the others wait for it; then torchrun ends them, and starts all once more."""
        job = f"[ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 1; exec {MEET}"
        self.check([*self.torchrun(4, "--max_restarts=1", "--master_addr=127.0.0.1", f"--master_port={free_port()}"), "sh", "-c", job], 4, "torchrun")


if __name__ == "__main__":
    unittest.main(verbosity=2)
