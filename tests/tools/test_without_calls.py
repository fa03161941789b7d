#!/usr/bin/env python3
"""Jobs with a refused system call, as with a container's filter or an old kernel: they run without
it, or fail with a message that names the call and the remedy. The same for limits of files and
ports."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["TUTTI_BUILD_DIR"])
TUTTI, HELLO, WITHOUT = (BUILD / "tutti", BUILD / "examples/hello",
                         BUILD / "tests/tools/prog_without")
SANITIZED = bool(os.environ.get("CFLAGS"))
RANKS = 2

# Jobs run without these.
OPTIONAL = ["pidfd_open", "getrandom", "memfd_create", "madvise", "fallocate", "membarrier",
            "process_vm_readv",
            "process_vm_writev", "signalfd4", "accept4", "sched_setaffinity", "setpgid", "setsid",
            "rseq",
            # sanitizers need these
            "getcpu", "statx", "prctl", "userfaultfd"] + (["prlimit64", "sched_getaffinity"]
                                                          if not SANITIZED else [])
# Other errors of a filter or of the kernel, with which jobs run too.
ERRORS = {"memfd_create": ["EACCES", "ENOMEM", "EINVAL", "EMFILE"],
          "ftruncate": ["EPERM", "ENOSPC", "ENOSYS"],
          "madvise": ["EACCES"], "fallocate": ["EACCES"], "pidfd_open": ["EACCES", "EMFILE"],
          "getrandom": ["EACCES", "EINTR"],
          "accept4": ["EACCES"], "membarrier": ["EACCES"], "process_vm_readv": ["EACCES"]}
# Jobs need these: the name in the message.
NEEDED = {"epoll_create1": "epoll_create1", "eventfd2": "eventfd",
          "timerfd_create": "timerfd_create", "pipe2": "pipe2"}


def run(*command, **environment):
    return subprocess.run([str(part) for part in command], env={**os.environ, **environment},
                          capture_output=True,
                          text=True, timeout=240, check=False)


def job(*before, program=(HELLO,), **environment):
    return run(*before, TUTTI, "run", "-n", str(RANKS), "--", *program, **environment)


def without(names, **environment):
    return job(WITHOUT, *names, "--", **environment)


class SystemCalls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if run(WITHOUT, "statx", "--", "true").returncode == 77:
            raise unittest.SkipTest("the kernel takes no filter of system calls")

    def check_runs(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("the sum is 1"), RANKS, done.stdout)

    def test_filter_refuses_named_calls(self):
        done = run(WITHOUT, "getrandom=EPERM", "--", "python3", "-c", "import os; os.getrandom(1)")
        self.assertIn("Operation not permitted", done.stderr)
        self.assertEqual(run(WITHOUT, "no_such_call", "--", "true").returncode, 2)

    def test_jobs_run_without_optional_system_calls(self):
        for name in OPTIONAL:
            for how in ("", "=EPERM"):
                with self.subTest(call=name + how):
                    self.check_runs(without([name + how]))

    def test_jobs_run_whatever_the_error(self):
        for name, errors in ERRORS.items():
            for error in errors:
                with self.subTest(call=name, error=error):
                    self.check_runs(without([f"{name}={error}"]))

    def test_jobs_run_without_optional_calls(self):
        self.check_runs(without(OPTIONAL))

    def test_large_messages_need_no_shm_calls(self):
        for names in (["madvise", "fallocate"], ["memfd_create=EPERM"],
                      ["process_vm_readv=EPERM", "process_vm_writev=EPERM"]):
            with self.subTest(calls=names):
                done = run(WITHOUT, *names, "--", TUTTI, "perf", "allreduce", "-n", str(RANKS),
                           "--min", "8M", "--max", "8M", "--check")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_missing_clone3_is_named_or_harmless(self):
        self.check_runs(without(["clone3"]))
        done = without(["clone3=EPERM"])
        if done.returncode:
            self.assertRegex(done.stderr, "clone3 failed: Operation not permitted .*ENOSYS")

    def test_missing_needed_call_is_named(self):
        for name, shown in NEEDED.items():
            for how, cause in (("", "Function not implemented"),
                               ("=EPERM", "Operation not permitted")):
                with self.subTest(call=name + how):
                    done = without([name + how])
                    self.assertNotEqual(done.returncode, 0)
                    self.assertRegex(done.stderr,
                                     rf"{shown} failed: {cause} \(.*sandbox.*system call")

    def test_required_shm_explains_its_failure(self):
        done = without(["memfd_create"], TUTTI_WIRES="shm")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "no transport is available on this host .*memfd_create "
                                      "failed: Function not implemented")


class WithoutProc(unittest.TestCase):
    """A mount namespace whose /proc is empty."""

    def command(self, *command):
        if "address" in os.environ.get("CFLAGS", ""):
            self.skipTest("LeakSanitizer, and the variable that disables it, need /proc")
        done = run("unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /proc || exit 77; exec "$@"',
                   "sh", *command)
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest("no mount namespaces here")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_tools_start_ranks(self):
        self.assertEqual(self.command(TUTTI, "run", "-n", str(RANKS), "--",
                                      HELLO).count("the sum is 1"), RANKS)
        self.command(TUTTI, "perf", "allreduce", "-n", str(RANKS), "--max", "1K", "--check")
        self.command(TUTTI, "perf", "putsignal", "-n", str(RANKS), "--blocks", "1", "--rounds", "1",
                     "--iters", "10")
        with tempfile.TemporaryDirectory() as folder:
            self.command(TUTTI, "tune", "-n", str(RANKS), "--colls", "allreduce", "--max", "64",
                         "-o", Path(folder) / "tune.json")

    def test_program_is_found_by_a_relative_path(self):
        self.command("sh", "-c", f'cd "{BUILD.parent}" && {BUILD.name}/tutti perf allreduce -n '
                                 f'{RANKS} --max 1K --check')
        self.command("sh", "-c", f'PATH="{BUILD}:$PATH" && tutti perf allreduce -n {RANKS} --max '
                                 f'1K --check')


class Limits(unittest.TestCase):
    def test_file_size_limit_causes_tcp_fallback(self):
        done = job("sh", "-c", 'ulimit -f 1; exec "$@"', "sh", TUTTI_LOG="info")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"RLIMIT_FSIZE is \d+ bytes \(raise it with ulimit -f\)")

    def test_file_size_limit_of_the_rendezvous_file_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "id"
            done = run("sh", "-c", 'ulimit -f 0; exec "$@"', "sh", HELLO, TUTTI_RANK="0",
                       TUTTI_SIZE="2", TUTTI_RENDEZVOUS=f"file://{file}", TUTTI_TIMEOUT_MS="60000")
            self.assertEqual(list(Path(folder).iterdir()), [])
        self.assertGreater(done.returncode, 0)      # no signal
        self.assertRegex(done.stderr, rf"cannot write \d+ bytes to {file}: RLIMIT_FSIZE is 0 bytes "
                                      r"\(raise it with ulimit -f\)")

    def test_exhausted_ports_name_the_range(self):
        script = ('ip link set lo up && echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range '
                  '|| exit 77; exec "$@"')
        done = job("unshare", "-n", "sh", "-c", script, "sh", TUTTI_WIRES="tcp",
                   TUTTI_TIMEOUT_MS="8000")
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest("no network namespaces here")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"no port from 40000 to 40001 is free: see "
                                      r"net\.ipv4\.ip_local_port_range")


if __name__ == "__main__":
    unittest.main()
