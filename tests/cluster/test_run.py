#!/usr/bin/env python3
"""tutti run: output, exit status, signals, and that no process outlives it."""

import array
import contextlib
import fcntl
import os
import re
import select
import signal
import stat
import struct
import subprocess
import tempfile
import termios
import time
import unittest
from collections import Counter
from pathlib import Path

from cluster import (BUILD, MEET, PATIENCE_S, SANITIZED, TUTTI, ClusterTest, blocked_writers,
                     environment, marked, wait_until)

LOST_STATUS = BUILD / "tests" / "cluster" / "plugin_lost_status.so"
HELLO, MATMUL = BUILD / "examples" / "hello", BUILD / "examples" / "matmul"

# Eight lines of 20,000 characters. All ranks have written the first half of a line, and the
# launcher has read it, before any rank writes the second half.
HALVES = """
import array, fcntl, os, pathlib, sys, termios, time
folder, n, rank = pathlib.Path(sys.argv[1]), int(sys.argv[2]), os.environ["TUTTI_RANK"]
unread = array.array("i", [1])
for line in range(8):
    sys.stdout.write(rank * 10000)
    sys.stdout.flush()
    while fcntl.ioctl(1, termios.FIONREAD, unread) or unread[0]:
        time.sleep(0.001)
    (folder / f"{line}.{rank}").touch()
    while len(list(folder.glob(f"{line}.*"))) < n:
        time.sleep(0.001)
    print(rank * 10000, flush=True)
"""


def unread(pipe):
    """Number of bytes in the pipe."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


class Output(ClusterTest):
    def test_each_line_has_its_rank(self):
        done = self.run_tutti("-n", 3, "sh", "-c", "echo out; echo err >&2; printf unfinished")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(f"[{r}] {word}" for r in range(3)
                                for word in ("out", "unfinished")))
        self.assertEqual(sorted(done.stderr.splitlines()), [f"[{r}] err" for r in range(3)])

    def test_lines_are_neither_mixed_nor_lost(self):
        done = self.run_tutti("-n", 4, "sh", "-c",
                              "for i in $(seq 500); do echo \"$TUTTI_RANK line $i\"; done")
        for rank in range(4):
            mine = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertEqual(mine, [f"[{rank}] {rank} line {i}" for i in range(1, 501)])

    def test_very_long_line_stays_one_line(self):
        done = self.run_tutti("-n", 1, "sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x; echo")
        self.assertEqual(done.stdout, "[0] " + "x" * 100000 + "\n")

    def test_plain_output_is_untouched(self):
        done = self.run_tutti("-n", 1, "--output", "plain", "printf", "a\\nb")
        self.assertEqual(done.stdout, "a\nb")

    def test_each_rank_gets_its_own_files(self):
        with tempfile.TemporaryDirectory() as tmp:
            done = self.run_tutti("-n", 2, "--output", f"dir={tmp}/new", "sh", "-c",
                                  "echo $TUTTI_RANK; echo e >&2")
            self.assertEqual((done.returncode, done.stdout), (0, ""))
            for rank in range(2):
                self.assertEqual(Path(tmp, "new", f"rank.{rank}.out").read_text(), f"{rank}\n")
                self.assertEqual(Path(tmp, "new", f"rank.{rank}.err").read_text(), "e\n")

    def test_standard_input_goes_to_rank_0(self):
        done = self.run_tutti("-n", 2, "sh", "-c", "echo got $(cat)", stdin="words")
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] got words", "[1] got"])


    def test_long_lines_are_not_mixed(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_tutti("-n", 4, "python3", "-c", HALVES, folder, 4)
        self.assertEqual(Counter(done.stdout.splitlines()),
                         {f"[{rank}] " + str(rank) * 20000: 8 for rank in range(4)}, done.stderr)

    def test_endless_line_is_split_with_prefix(self):
        bound, rest = 1 << 20, 12345
        script = (f"import os\nfor i in range(2): print(os.environ['TUTTI_RANK'] * "
                  f"{2 * bound + rest})")
        done = self.run_tutti("-n", 3, "python3", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(3):
            mine = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}]")]
            digit = str(rank)
            self.assertEqual(mine, 2 * [f"[{rank}] " + bound * digit + "\\",
                                        f"[{rank}]+" + bound * digit + "\\",
                                        f"[{rank}]+" + rest * digit])
        self.assertEqual(len(done.stdout.splitlines()), 3 * 6)


class FailedOutput(ClusterTest):
    """Output that cannot be written: the rank is not affected, but the launcher's exit status
    is."""

    def run_into(self, to, *args, shell=":", **more):
        env = environment()
        done = subprocess.run(["sh", "-c", f"{shell}; exec \"$@\"", "sh", TUTTI, "run",
                               *map(str, args)], env=env, stdin=subprocess.DEVNULL,
                              stdout=to, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S,
                              check=False, **more)
        wait_until(lambda: not marked(env), f"processes are left: {marked(env)}")
        return done

    def test_full_device_is_reported_once(self):
        with open("/dev/full", "w") as full:
            done = self.run_into(full, "-n", 2, "sh", "-c", "seq 5; seq 1000")
        self.assertEqual(done.stderr, "tutti run: cannot write standard output: No space left on "
                                      "device (further output is lost)\n")
        self.assertEqual(done.returncode, 1)

    def test_failing_device_is_reported_once(self):
        """EIO: a terminal whose other end is closed."""
        master, terminal = os.openpty()
        os.close(master)
        with os.fdopen(terminal, "w") as out:
            done = self.run_into(out, "-n", 2, "sh", "-c", "seq 5; seq 1000")
        self.assertEqual(done.stderr, "tutti run: cannot write standard output: Input/output error "
                                      "(further output is lost)\n")
        self.assertEqual(done.returncode, 1)

    def test_full_device_keeps_the_failed_status(self):
        with open("/dev/full", "w") as full:
            done = self.run_into(full, "-n", 1, "sh", "-c", "exit 7")
            self.assertEqual(done.returncode, 7)
            done = self.run_into(full, "-n", 1, "sh", "-c", "echo; exec >&-; exit 0")
            self.assertEqual(done.returncode, 1)

    def test_full_standard_error_fails(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([TUTTI, "run", "-n", "2", "sh", "-c", "echo words >&2"],
                                  env=environment(), stdin=subprocess.DEVNULL,
                                  stderr=full, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 1)

    def test_closed_standard_output_only_fails(self):
        done = self.run_into(subprocess.DEVNULL, "-n", 2, "sh", "-c", "echo words; echo more >&2",
                             shell="exec >&-")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tutti run: cannot write standard output: Bad file descriptor", done.stderr)
        self.assertEqual(sorted(line for line in done.stderr.splitlines() if line.startswith("[")),
                         ["[0] more", "[1] more"])

    def test_closed_standard_streams_are_harmless(self):
        """No socket or pipe of the launcher or of a rank gets the number of a standard stream."""
        closed = "exec <&- >&- 2>&-"
        with tempfile.TemporaryDirectory() as tmp:
            done = self.run_into(subprocess.DEVNULL, "-n", 2, "-o", f"dir={tmp}", HELLO,
                                 shell=closed)
            self.assertEqual(done.returncode, 0)
            for rank in range(2):
                self.assertIn("the sum is 1", Path(tmp, f"rank.{rank}.out").read_text())
                self.assertEqual(Path(tmp, f"rank.{rank}.err").read_text(), "")
        done = self.run_into(subprocess.DEVNULL, "-n", 2, HELLO, shell=closed)
        self.assertEqual(done.returncode, 1)        # its output was not written

    def test_a_file_size_limit_is_reported(self):
        with tempfile.TemporaryFile() as file:
            done = self.run_into(file, "-n", 2, "seq", 5000, shell="ulimit -f 1")
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot write standard output: File too large (a file size limit is set: "
                          "ulimit -f)", done.stderr)
            self.assertGreater(os.fstat(file.fileno()).st_size, 0)

    def test_missing_reader_ends_job_like_sigpipe(self):
        for words in ("yes", "trap '' PIPE; while :; do echo y 2>/dev/null; done"):
            with self.subTest(words=words):
                env = environment()
                with self.start_tutti("-n", 2, "sh", "-c", words, env=env) as job:
                    self.read_lines(job, 1)
                    job.stdout.close()
                    try:
                        self.assertEqual(job.wait(PATIENCE_S), 128 + signal.SIGPIPE)
                    finally:
                        job.kill()
                    self.assertEqual(job.stderr.read(), "")
                wait_until(lambda e=env: not marked(e), "processes are left")


    def test_missing_reader_causes_no_rank_errors(self):
        for args in (["perf", "allreduce", "--ranks", "2", "--max", "64K"],
                     ["run", "-n", "2", HELLO]):
            for tries in range(5):
                with self.subTest(args=args, tries=tries):
                    env = environment()
                    read, write = os.pipe()
                    os.close(read)
                    done = subprocess.run([TUTTI, *args], env=env, stdin=subprocess.DEVNULL,
                                          stdout=write, stderr=subprocess.PIPE,
                                          text=True, timeout=PATIENCE_S, check=False)
                    os.close(write)
                    # the leak sanitizer prints this if it is killed while it runs
                    errors = re.sub(r".*==Unable to get registers from thread.*\n", "",
                                    done.stderr)
                    # on a busy machine
                    errors = re.sub(r"tutti warn: start-up: .* ranks joined within .*\n", "",
                                    errors)
                    self.assertEqual((done.returncode, errors), (128 + signal.SIGPIPE, ""))

    def test_sigterm_works_with_unread_output(self):
        endless, ended = "yes", "yes | head -c 400000"
        for words, both in ((endless, False), (endless, True), (ended, False)):
            with self.subTest(words=words, both=both):
                env = environment()
                read, write = os.pipe()
                room = fcntl.fcntl(write, fcntl.F_GETPIPE_SZ)
                with subprocess.Popen([TUTTI, "run", "-n", "2", "sh", "-c", words], env=env,
                                      stdin=subprocess.DEVNULL, stdout=write,
                                      stderr=write if both else subprocess.PIPE,
                                      start_new_session=True) as job:
                    os.close(write)
                    try:
                        wait_until(lambda: unread(read) > room - 2 * select.PIPE_BUF,
                                   "the pipe never fills")
                        job.terminate()
                        self.assertEqual(job.wait(PATIENCE_S), 128 + signal.SIGTERM)
                    finally:
                        job.kill()
                        os.close(read)
                wait_until(lambda e=env: not marked(e), "processes are left")

    def test_plain_output_passes_partial_lines(self):
        command = [TUTTI, "run", "-n", "1", "--output", "plain", "sh", "-c",
                   "printf question; read answer; printf $answer"]
        with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as job:
            self.assertEqual(job.stdout.read(len("question")), "question")
            job.stdin.write("yes\n")
            job.stdin.close()
            self.assertEqual(job.stdout.read(), "yes")
            self.assertEqual(job.wait(PATIENCE_S), 0)


class Environment(ClusterTest):
    def test_ranks_get_number_and_size(self):
        done = self.run_tutti("-n", 3, "-x", "EXTRA=a b", "--wires", "tcp", "--timeout", 2.5, "sh",
                              "-c",
                              "echo $TUTTI_RANK $TUTTI_SIZE $TUTTI_LOCAL_RANK $TUTTI_LOCAL_SIZE "
                              "\"$EXTRA\" $TUTTI_WIRES $TUTTI_TIMEOUT_MS")
        self.assertEqual(sorted(done.stdout.splitlines()), [f"[{r}] {r} 3 {r} 3 a b tcp 2500"
                                                            for r in range(3)])

    def test_ranks_connect(self):
        done = self.run_tutti("-n", 5, "--timeout", 30, MEET, "twice")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("of 5 met (tutti)"), 10)

    def test_every_job_has_a_new_token(self):
        tokens = {self.run_tutti("-n", 1, "printenv", "TUTTI_TOKEN").stdout for _ in range(3)}
        self.assertEqual(len(tokens), 3)

    def test_ranks_get_separate_cores_if_possible(self):
        ncores = len(os.sched_getaffinity(0))
        show = ["python3", "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
        alone = self.run_tutti("-n", ncores, "--bind", "core", *show)
        cores = [line.split("] ", 1)[1] for line in alone.stdout.splitlines()]
        if all(len(eval(c)) == 1 for c in cores):      # no hardware threads that share a core
            self.assertEqual(len(set(cores)), ncores)
        crowded = self.run_tutti("-n", 2 * ncores + 1, *show)
        self.assertEqual({line.split("] ", 1)[1] for line in crowded.stdout.splitlines()},
                         {str(sorted(os.sched_getaffinity(0)))})
        shared = self.run_tutti("-n", 2 * len(set(cores)), *show)
        self.assertEqual(Counter(line.split("] ", 1)[1] for line in shared.stdout.splitlines()),
                         {core: 2 for core in set(cores)})
        free = self.run_tutti("-n", 1, "--bind", "none", *show)
        self.assertEqual(free.stdout, f"[0] {sorted(os.sched_getaffinity(0))}\n")


class Mistakes(ClusterTest):
    def test_an_unknown_program_is_named(self):
        done = self.run_tutti("-n", 2, "no-such-program")
        self.assertEqual(done.returncode, 127)
        self.assertIn('"no-such-program": not found in PATH\n', done.stderr)

    def test_program_in_this_folder_is_suggested(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "here")
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
            done = self.run_tutti("-n", 1, "here", inside=("env", "-C", folder))
        self.assertEqual(done.returncode, 127)
        self.assertIn('"here": not found in PATH (use "./here" for the file in the current '
                      'directory)', done.stderr)

    def test_non_executable_program_is_named(self):
        done = self.run_tutti("-n", 1, "/etc/passwd")
        self.assertEqual(done.returncode, 126)
        self.assertIn("Permission denied", done.stderr)

    def test_a_folder_is_no_program(self):
        done = self.run_tutti("-n", 1, "/etc")
        self.assertEqual(done.returncode, 126)
        self.assertIn('cannot start "/etc": it is a directory\n', done.stderr)

    def test_unknown_transport_is_refused_with_list(self):
        done = self.run_tutti("-n", 2, "--wires", "pigeon", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn('unknown transport "pigeon" (available: shm, verbs, ofi, tcp)', done.stderr)

    def test_invalid_options_prevent_the_start(self):
        for args, says in ((["-n", "0", "true"], "-n 0"), (["-n", "x", "true"], "-n x"),
                           (["-n", "-3", "true"], "-n -3"),
                           (["-n", "99999999", "true"], "-n 99999999"),
                           (["-n", "4294967297", "true"], "-n 4294967297"),
                           (["-n", "2"], "program"),
                           (["--output", "x", "true"], "--output x"),
                           (["--bind", "x", "true"], "--bind x"),
                           (["--timeout", "-1", "true"], "--timeout -1"),
                           (["-x", "1=2", "true"], "-x 1=2"),
                           (["-n", "3", "--hosts", "a:1,b:1", "true"], "2 slots"),
                           (["--hosts", "a:0", "true"], "slots"),
                           (["--hostfile", "/nonexistent", "true"], "/nonexistent")):
            with self.subTest(args=args):
                done = self.run_tutti(*args)
                self.assertEqual(done.returncode, 2)
                self.assertIn(says, done.stderr)

    def test_invalid_hostfile_line_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "hosts")
            for line, says in (("b slots=zwei", 'invalid number of slots "zwei"'),
                               ("b slots=2 max_slots=4", 'invalid line "max_slots=4"')):
                path.write_text(f"a slots=1\n{line}\n")
                done = self.run_tutti("-n", 2, "--hostfile", path, "true")
                self.assertEqual(done.returncode, 2)
                self.assertIn(says, done.stderr)
                self.assertIn(f"the error is in line 2 of the host file {path}\n", done.stderr)
            done = self.run_tutti("-n", 2, "--hostfile", folder, "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"cannot read the host file {folder}", done.stderr)


class Wires(ClusterTest):
    """verbs is named but cannot be used, because no device of that name exists."""

    NONE = {"TUTTI_RDMA_DEVICES": "=nosuch0"}

    def test_unusable_transport_is_reported_once(self):
        done = self.run_tutti("-n", 3, "--wires", "shm,verbs,tcp", HELLO,
                              env=environment(**self.NONE))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("the sum is 3"), 3)
        warnings = done.stderr.splitlines()
        self.assertEqual(len(warnings), 1, warnings)
        self.assertRegex(warnings[0], r"^\[0\] tutti\[0\] warn: of the allowed transports "
                                      r"\(TUTTI_WIRES\), only shm, tcp can be used on this host: "
                                      r"verbs: .")

    def test_usable_transports_cause_no_message(self):
        done = self.run_tutti("-n", 2, "--wires", "shm,tcp", HELLO, env=environment(**self.NONE))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_job_without_transport_explains_each(self):
        done = self.run_tutti("-n", 1, "--wires", "verbs,tcp", HELLO,
                              env=environment(TUTTI_INTERFACES="=nosuch0", **self.NONE))
        self.assertEqual(done.returncode, 1)
        told = [line for line in done.stderr.splitlines() if "error" in line]
        self.assertEqual(len(told), 1, done.stderr)
        self.assertRegex(told[0], r'no transport is available on this host \(requested: '
                                  r'verbs,tcp\): verbs: .*; tcp: no active interface matches '
                                  r'"=nosuch0"')


class Failure(ClusterTest):
    def test_each_rank_reports_start_failure_once(self):
        for program in HELLO, MATMUL:
            done = self.run_tutti("-n", 2, "--survive", program, env=environment(TUTTI_LANES="300"))
            self.assertEqual(done.returncode, 1)
            for rank in range(2):
                told = [line for line in done.stderr.splitlines() if line.startswith(f"[{rank}] ")
                        and "300" in line]
                self.assertEqual(len(told), 1, done.stderr)

    def test_first_failed_rank_gives_the_status(self):
        done = self.run_tutti("-n", 3, "sh", "-c", "[ $TUTTI_RANK = 1 ] && exit 3; exec sleep 1000")
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"rank 1 \(pid \d+\) on host \S+ exited with status 3; "
                                      r"ending the others")
        self.assertEqual(done.stderr.count("tutti run:"), 1)

    def test_killed_rank_is_named_with_signal(self):
        done = self.run_tutti("-n", 3, "sh", "-c",
                              "[ $TUTTI_RANK = 2 ] && kill -9 $$; exec sleep 1000")
        self.assertEqual(done.returncode, 128 + 9)
        self.assertRegex(done.stderr, r"rank 2 \(pid \d+\) on host \S+ was killed by signal 9 "
                                      r"\(SIGKILL\)")

    def test_killed_rank_precedes_its_consequences(self):
        with tempfile.TemporaryDirectory() as where:
            victim = f"echo $$ > {where}/new; mv {where}/new {where}/pid; exec sleep 1000"
            killer = (f"while [ ! -e {where}/pid ]; do sleep 0.01; done; kill -9 $(cat "
                      f"{where}/pid); exit 6")
            done = self.run_tutti("-n", 3, "sh", "-c", f"case $TUTTI_RANK in 2) {victim};; 0) "
                                                       f"{killer};; esac; exec sleep 1000")
        self.assertEqual(done.returncode, 128 + 9)
        self.assertRegex(done.stderr, r"rank 2 \(pid \d+\) on host \S+ was killed by signal 9 "
                                      r"\(SIGKILL\); ending the others")
        self.assertEqual(done.stderr.count("tutti run:"), 1)

    def test_ranks_ended_by_launcher_rank_last(self):
        env = environment()
        with tempfile.TemporaryDirectory() as where:
            fails = f"echo $$ > {where}/new; mv {where}/new {where}/pid; exit 3"
            job = self.start_tutti("-n", 3, "sh", "-c", f"[ $TUTTI_RANK = 2 ] && {{ {fails}; }}; "
                                                        f"exec sleep 1000", env=env)
            wait_until(lambda: os.path.exists(f"{where}/pid"), "the rank's number")
            stat_of = Path("/proc", Path(where, "pid").read_text().strip(), "stat")
            wait_until(lambda: not stat_of.exists()
                       or stat_of.read_text().rsplit(")", 1)[1].split()[0] == "Z", "the rank's end")
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 3)

    def test_children_end_with_their_ranks(self):
        done = self.run_tutti("-n", 2, "sh", "-c",
                              "sleep 1000 & sleep 1000 & [ $TUTTI_RANK = 0 ] && exit 1; wait")
        self.assertEqual(done.returncode, 1)    # run_tutti checks that no process remains

    def test_leftover_processes_end_after_success(self):
        self.assertEqual(self.run_tutti("-n", 2, "sh", "-c", "sleep 1000 &").returncode, 0)

    def test_sigterm_ignored_leads_to_kill(self):
        with tempfile.TemporaryDirectory() as tmp:
            begin = time.monotonic()
            done = self.run_tutti("-n", 2, "sh", "-c",
                                  f"[ $TUTTI_RANK = 0 ] && {{ until [ -e {tmp}/deaf ]; do sleep "
                                  f"0.01; done; exit 5; }}; "
                                  f"trap '' TERM; touch {tmp}/deaf; while :; do sleep 1; done")
            self.assertEqual(done.returncode, 5)
            self.assertGreater(time.monotonic() - begin, 2.5)

    def test_a_stopped_rank_is_ended_too(self):
        done = self.run_tutti("-n", 2, "sh", "-c",
                              "[ $TUTTI_RANK = 0 ] && sleep 0.2 && exit 6; kill -STOP $$")
        self.assertEqual(done.returncode, 6)

    def test_survivors_continue_on_request(self):
        done = self.run_tutti("-n", 3, "--survive", "sh", "-c",
                              "[ $TUTTI_RANK = 1 ] && kill -9 $$; sleep 0.3; echo here")
        self.assertEqual(done.returncode, 137)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] here", "[2] here"])
        self.assertIn("rank 1", done.stderr)

    def test_exit_before_joining_is_reported(self):
        for end, says in (("exit 0", "exited with status 0"),
                          ("kill -9 $$", "was killed by signal 9")):
            # far beyond the time limit of the test
            done = self.run_tutti("-n", 3, "--survive", "--timeout", 10 * PATIENCE_S, "sh", "-c",
                                  f"[ $TUTTI_RANK = 2 ] && {end}; exec {MEET} twice")
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stderr.count(f"tutti run: rank 2 {says} before joining; the "
                                               f"other ranks wait for it"), 1, done.stderr)
            for rank in range(2):
                self.assertIn(f"start-up of rank {rank}: rank 2 {says} before joining", done.stderr)

    def test_deaths_are_reported_to_joined_ranks(self):
        env = environment()
        job = self.start_tutti("-n", 6, "--survive", MEET, "stay", env=env)
        try:
            self.read_lines(job, 6)
            pids = {}
            for pid in marked(env):
                with open(f"/proc/{pid}/environ", "rb") as f:
                    rank = [v for v in f.read().split(b"\0") if v.startswith(b"TUTTI_RANK=")]
                if rank:
                    pids[int(rank[0].split(b"=")[1])] = pid
            for victims_before, victim in enumerate((4, 0, 3)):
                os.kill(pids[victim], signal.SIGKILL)
                survivors = 5 - victims_before
                told = self.read_lines(job, survivors)
                self.assertEqual([line.split("] ")[1] for line in told],
                                 [f"lost {victim}"] * survivors)
        finally:
            job.terminate()
            job.communicate()
        wait_until(lambda: not marked(env), "processes are left")


class Signals(ClusterTest):
    def ready_job(self, script, n=2, **more):
        env = environment()
        job = self.start_tutti("-n", n, "sh", "-c", script, env=env, **more)
        self.assertEqual(sorted(self.read_lines(job, n)), [f"[{r}] ready" for r in range(n)])
        return job, env

    def test_sigterm_and_sigint_end_all_ranks(self):
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(sig=sig):
                job, env = self.ready_job("echo ready; exec sleep 1000")
                job.send_signal(sig)
                job.communicate(timeout=PATIENCE_S)
                self.assertEqual(job.returncode, 128 + sig)
                wait_until(lambda: not marked(env), "processes are left")

    def test_rank_may_handle_the_signal(self):
        job, _ = self.ready_job("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep "
                                "0.01; done")
        job.send_signal(signal.SIGTERM)
        out, _ = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 0)
        self.assertEqual(sorted(out.splitlines()), ["[0] bye", "[1] bye"])

    def test_sigusr1_is_forwarded_and_harmless(self):
        job, _ = self.ready_job("trap 'echo usr1; exit 0' USR1; echo ready; while :; do sleep "
                                "0.01; done")
        job.send_signal(signal.SIGUSR1)
        out, _ = job.communicate(timeout=PATIENCE_S)
        self.assertEqual((job.returncode, sorted(out.splitlines())), (0, ["[0] usr1", "[1] usr1"]))

    def test_settings_of_signals_are_not_inherited(self):
        """Ignored SIGCHLD, all signals blocked: the launcher ends, and ranks start without ignored
        or blocked signals. The C library reserves the signals between SIGSYS and SIGRTMIN: the
        parent of this test may ignore those, too."""
        def spoil():
            for sig in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(sig, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

        script = "grep -E '^Sig(Blk|Ign)' /proc/self/status; [ $TUTTI_RANK = 0 ] || exit 3"
        done = subprocess.run([TUTTI, "run", "-n", "2", "sh", "-c", script], env=environment(),
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False, preexec_fn=spoil,
                              restore_signals=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        reserved = sum(1 << (sig - 1) for sig in range(signal.SIGSYS + 1, signal.SIGRTMIN))
        lines = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual(sorted((rank, what, int(mask, 16) & ~reserved)
                                for rank, what, mask in lines),
                         [(f"[{rank}]", f"Sig{what}:", 0) for rank in range(2)
                          for what in ("Blk", "Ign")])

    def test_lost_exit_status_is_a_failure(self):
        if SANITIZED:
            self.skipTest("a sanitizer must be preloaded first")
        env = environment(LD_PRELOAD=str(LOST_STATUS))
        done = self.run_tutti("-n", 2, "true", env=env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tutti run: cannot get the exit status of rank 0", done.stderr)
        self.assertIn("No child processes (status 1 is assumed)", done.stderr)

    def test_ignored_signals_stay_ignored(self):
        env = environment()
        script = "trap 'echo usr1; exit 0' USR1; echo ready; while :; do sleep 0.01; done"
        with subprocess.Popen(["sh", "-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh", TUTTI, "run",
                               "-n", "1", "sh", "-c", script], env=env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as job:
            self.assertEqual(job.stdout.readline(), "[0] ready\n")
            for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
                job.send_signal(sig)
            for pid in marked(env):
                if pid != job.pid:
                    with contextlib.suppress(ProcessLookupError):   # its child may have ended
                        os.kill(pid, signal.SIGHUP)     # the rank and its child ignore it, too
            job.send_signal(signal.SIGUSR1)
            out, err = job.communicate(timeout=PATIENCE_S)
        self.assertEqual((job.returncode, out), (0, "[0] usr1\n"), err)

    def test_a_second_sigint_kills(self):
        """Without the grace period, which one of several tries must show: a busy machine may be
        late, and two signals may merge."""
        took_s = []
        while not took_s or min(took_s) > 2.5 and len(took_s) < 8:
            job, env = self.ready_job("trap '' INT TERM; echo ready; while :; do sleep 0.01; done")
            job.send_signal(signal.SIGINT)
            time.sleep(0.1)
            job.send_signal(signal.SIGINT)
            begin = time.monotonic()
            job.communicate(timeout=PATIENCE_S)
            took_s.append(time.monotonic() - begin)
            self.assertEqual(job.returncode, 137)
            wait_until(lambda e=env: not marked(e), "processes are left")
        self.assertLess(min(took_s), 2.5)

    def test_no_orphan_survives_the_launcher(self):
        job, env = self.ready_job("sleep 1000 & echo ready; trap '' TERM; while :; do sleep "
                                  "0.01; done")
        job.kill()
        job.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not marked(env), "orphans")


class Hosts(ClusterTest):
    """A remote shell that runs the command locally, and records the host."""

    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.rsh = os.path.join(self.tmp.name, "rsh")
        Path(self.rsh).write_text('#!/bin/sh\nhost=$1; shift\necho "$host" >>"$(dirname '
                                  '"$0")/hosts"\nexec sh -c "$*"\n')
        os.chmod(self.rsh, stat.S_IRWXU)

    def tearDown(self):
        self.tmp.cleanup()

    def called(self):
        return Path(self.tmp.name, "hosts").read_text().split()

    def test_slots_place_ranks_with_local_numbers(self):
        done = self.run_tutti("-n", 5, "--hosts", "alpha:2,beta:3", "--rsh", self.rsh, "-x",
                              "WORD=it's $HOME \"q\"", "sh", "-c",
                              'echo "$TUTTI_RANK $TUTTI_LOCAL_RANK/$TUTTI_LOCAL_SIZE $WORD"')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(self.called()), ["alpha"] * 2 + ["beta"] * 3)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"[{r}] {r} {loc} it's $HOME \"q\""
                          for r, loc in enumerate(("0/2", "1/2", "0/3", "1/3", "2/3"))])

    def test_hostfile_is_equivalent(self):
        path = os.path.join(self.tmp.name, "file")
        Path(path).write_text("# two\nalpha slots=1\n\nbeta:2  # more\n")
        done = self.run_tutti("-n", 3, "--hostfile", path, "--rsh", self.rsh, "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(self.called()), ["alpha", "beta", "beta"])

    def test_ranks_on_several_hosts_connect(self):
        done = self.run_tutti("-n", 4, "--hosts", "localhost,alpha", "--rsh", self.rsh, "--timeout",
                              30, MEET)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("of 4 met"), 4)
        self.assertEqual(self.called(), ["alpha", "alpha"])

    def test_remote_failure_names_the_host(self):
        done = self.run_tutti("-n", 3, "--hosts", "alpha:1,beta:2", "--rsh", self.rsh, "sh", "-c",
                              "sleep 1000 & [ $TUTTI_RANK = 1 ] && kill -9 $$; wait")
        self.assertEqual(done.returncode, 137)
        self.assertRegex(done.stderr, r"rank 1 \(pid \d+\) on host beta was killed by signal 9 "
                                      r"\(SIGKILL\)")

    def test_no_remote_orphan_survives_the_launcher(self):
        env = environment()
        job = self.start_tutti("-n", 2, "--hosts", "alpha", "--rsh", self.rsh, "sh", "-c",
                               "sleep 1000 & echo ready; trap '' TERM; while :; do sleep 0.01; done", env=env)
        self.read_lines(job, 2)
        job.kill()
        job.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not marked(env), "orphans")

    def test_signals_reach_remote_ranks(self):
        env = environment()
        job = self.start_tutti("-n", 2, "--hosts", "alpha", "--rsh", self.rsh, "sh", "-c",
                               "trap 'echo usr1; exit 0' USR1; echo ready; while :; do sleep "
                               "0.01; done", env=env)
        self.read_lines(job, 2)
        job.send_signal(signal.SIGUSR1)
        out, err = job.communicate(timeout=PATIENCE_S)
        self.assertEqual((job.returncode, sorted(out.splitlines())), (0, ["[0] usr1", "[1] usr1"]),
                         err)

    def test_token_is_not_an_argument(self):
        """Any user of a host can read the arguments of all processes, but not their environment."""
        arguments = Path(self.tmp.name, "arguments")
        Path(self.rsh).write_text(f'#!/bin/sh\nshift; echo "$*" >{arguments}\nexec sh -c "$*"\n')
        done = self.run_tutti("-n", 1, "--hosts", "alpha", "--rsh", self.rsh, "sh", "-c",
                              "echo $TUTTI_TOKEN")
        self.assertEqual(done.returncode, 0, done.stderr)
        token = done.stdout.split()[1]
        self.assertRegex(token, "^[0-9a-f]{32}$")
        self.assertNotIn(token, arguments.read_text())
        done = self.run_tutti("-n", 1, "--hosts", "alpha", "--rsh", self.rsh, "-x",
                              "TUTTI_STATUS_TOKEN=open  sesame", "printenv", "TUTTI_STATUS_TOKEN")
        self.assertEqual(done.stdout, "[0] open  sesame\n", done.stderr)
        self.assertIn("TUTTI_STATUS_TOKEN", arguments.read_text())
        self.assertNotIn("sesame", arguments.read_text())
        done = self.run_tutti("-n", 1, "--hosts", "alpha", "--rsh", self.rsh, "-x",
                              "TUTTI_TOKEN=a  \\b", "sh", "-c", 'printf "%s\n" "$TUTTI_TOKEN"')
        self.assertEqual(done.stdout, "[0] a  \\b\n", done.stderr)
        done = self.run_tutti("-n", 1, "--hosts", "alpha", "--rsh", self.rsh, "-x",
                              "TUTTI_STATUS_TOKEN=open\nsesame", "true")
        self.assertEqual(done.returncode, 126)
        self.assertIn("TUTTI_STATUS_TOKEN must not contain a line break", done.stderr)

    def test_remote_shell_that_runs_nothing_is_an_error(self):
        done = self.run_tutti("-n", 2, "--hosts", "alpha:2", "--rsh", "true", "true")
        self.assertEqual(done.returncode, 126, done.stderr)
        self.assertRegex(done.stderr, r"rank \d was not started: no answer from host alpha: "
                                      r'"true" exited with status 0')

    def silent_rsh(self, *hosts):
        """A remote shell that never answers for these hosts, and otherwise runs the command."""
        path = Path(self.tmp.name, "silent")
        path.write_text(f'#!/bin/sh\ncase $1 in {"|".join(hosts)}) exec sleep 1000;; esac\n'
                        'shift; exec sh -c "$*"\n')
        path.chmod(stat.S_IRWXU)
        return path

    def test_silent_remote_shells_are_ended_and_named(self):
        for options, env, limit in ((("--timeout", 1), {}, 1),
                                    (("-x", "TUTTI_TIMEOUT_MS=500"), {}, 0.5),
                                    ((), {"TUTTI_TIMEOUT_MS": "1000"}, 1)):
            with self.subTest(options=options):
                done = self.run_tutti("-n", 3, "--hosts", "alpha:2,beta", "--rsh",
                                      self.silent_rsh("alpha", "beta"), *options, "true",
                                      env=environment(**env))
                self.assertEqual(done.returncode, 126, done.stderr)
                self.assertRegex(done.stderr,
                                 rf"rank \d was not started: no answer within {limit} s "
                                 r'from alpha, beta: ".*" was still running')

    def test_silent_remote_shell_ends_other_ranks(self):
        done = self.run_tutti("-n", 2, "--hosts", "alpha,beta", "--rsh", self.silent_rsh("beta"),
                              "--timeout", 8, "sleep", 1000)
        self.assertEqual(done.returncode, 126, done.stderr)
        self.assertRegex(done.stderr, "rank 1 was not started: no answer within 8 s from beta: "
                                      ".*; ending the others")

    def test_silent_remote_shell_in_tree_is_named(self):
        for silent, limit in (("alpha", 1), ("beta", 8)):
            with self.subTest(silent=silent):
                done = self.run_tutti("-n", 2, "--hosts", "alpha,beta", "--fanout", 1, "--rsh",
                                      self.silent_rsh(silent), "--timeout", limit, "sleep", 1000)
                self.assertEqual(done.returncode, 126, done.stderr)
                self.assertRegex(done.stderr, rf"rank {int(silent == 'beta')} was not started: no "
                                              rf"answer within {limit} s from {silent}: ")

    def test_unread_output_makes_no_relay_silent(self):
        """The relay on gamma answers while nobody reads the launcher's output, so that the launcher
        does not read the answer. The relay must not be ended at the deadline, which the launcher
        can only check when its output is read again."""
        limit = 40 if SANITIZED else 15
        go, rsh = Path(self.tmp.name, "go"), Path(self.tmp.name, "late")
        rsh.write_text(f'#!/bin/sh\n[ $1 != gamma ] || until [ -e {go} ]; do sleep 0.01; done\n'
                       'shift; exec sh -c "$*"\n')
        rsh.chmod(stat.S_IRWXU)
        env = environment()
        job = self.start_tutti("-n", 3, "--hosts", "alpha,beta,gamma", "--fanout", 2, "--rsh", rsh,
                               "--timeout", limit, "sh", "-c", f"yes {'y' * 999} | head -c 1000000",
                               env=env)
        try:
            wait_until(lambda: len(blocked_writers(env)) == 2, "ranks on alpha and beta wait")
            end = time.monotonic() + limit + 0.5
            go.touch()
            wait_until(lambda: len(blocked_writers(env)) == 3, "all ranks wait")
            time.sleep(max(0, end - time.monotonic()))
            out, err = job.communicate(timeout=PATIENCE_S)
        finally:
            job.kill()
            job.wait()
        self.assertEqual((job.returncode, err), (0, ""))
        self.assertEqual(Counter(line.split()[0] for line in out.splitlines()),
                         {f"[{rank}]": 1000 for rank in range(3)})

    def test_silent_relay_is_named_if_ranks_below_it_are_lost(self):
        """A relay on alpha reports that its host's rank and that on beta have ended, and then that
        beta was silent: the ranks below it are lost for the same reason."""
        first, frames = 0x52545431, b""
        for kind, subject, *words in ((2, 0, "tutti relay 2"), (6, 0, 0), (6, 1, 0),
                                      (8, 1, 2, 126 << 8, 2), (9, 0)):
            data = b"".join(w.encode() if isinstance(w, str) else struct.pack("<I", w)
                            for w in words)
            frames += struct.pack("<III", first + kind, subject, len(data)) + data
        path, rsh = Path(self.tmp.name, "frames"), Path(self.tmp.name, "false-relay")
        path.write_bytes(frames)
        rsh.write_text(f"#!/bin/sh\nexec cat {path}\n")
        rsh.chmod(stat.S_IRWXU)
        done = self.run_tutti("-n", 3, "--hosts", "alpha,beta,gamma", "--fanout", 1, "--timeout",
                              PATIENCE_S, "--rsh", rsh, "true")
        self.assertEqual(done.returncode, 126, done.stderr)
        self.assertRegex(done.stderr, rf"^tutti run: rank 2 was not started: no answer within "
                                      rf"{PATIENCE_S} s from beta: ")

    def test_missing_remote_shell_is_named(self):
        done = self.run_tutti("-n", 1, "--hosts", "alpha", "--rsh", "no-such-shell -v", "true")
        self.assertEqual(done.returncode, 127)
        self.assertIn("no-such-shell", done.stderr)


class Command(unittest.TestCase):
    def call(self, *args):
        return subprocess.run([TUTTI, *args], capture_output=True, text=True, timeout=PATIENCE_S)

    def test_help_works_and_nonsense_is_refused(self):
        self.assertIn("run", self.call("--help").stdout)
        self.assertRegex(self.call("--version").stdout, r"^tutti \d+\.\d+\.\d+\n$")
        self.assertIn("--hosts", self.call("run", "--help").stdout)
        self.assertEqual(self.call("nonsense").returncode, 2)
        self.assertEqual(self.call().returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
