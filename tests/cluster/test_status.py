#!/usr/bin/env python3
"""tutti status: what it shows of jobs of real processes with a rank that never calls, that is
stopped, or that calls with other arguments; which clients it refuses; and its sockets."""

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from cluster import (BUILD, PATIENCE_S, SANITIZED, TUTTI, ClusterTest, environment, free_port,
                     marked, wait_until)

PROGRAM = str(BUILD / "tests" / "cluster" / "prog_status")
RANKS = 8
MANY = 64
STRANGER = 65534
QUERY_S = 8  # a rank without a sign of life for a quarter of it is listed
HEAD = b"Tt"
TOKEN = "a token of 24 characters"
GUESTS = 8  # connections without a proof
VERSION = 8  # of requests and answers


def tell_frames(data):
    """Types of the frames in data."""
    types = []
    while len(data) >= 8:
        assert data[:2] == HEAD
        types.append(data[2])
        data = data[8 + int.from_bytes(data[4:8], "little") :]
    return types


class StatusTest(ClusterTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tt-status-", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.base = Path(folder.name) / "s"
        self.env = environment(TUTTI_STATUS=str(self.base))
        self.jobs = []
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        for job in self.jobs:
            job.send_signal(signal.SIGCONT)
            job.terminate()
        for pid in marked(self.env):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for job in self.jobs:
            job.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not marked(self.env), "processes are left")

    def start(self, *args, ranks=RANKS, **more):
        """Starts a job; returns the pids of its ranks before their last call."""
        job = self.start_tutti("-n", ranks, "--", PROGRAM, *map(str, args),
                               env={**self.env, **more})
        self.jobs.append(job)
        pids = {}
        for line in self.read_lines(job, ranks):
            found = re.search(r"rank (\d+) pid (\d+)", line)
            pids[int(found[1])] = int(found[2])
        return pids

    def status(self, *args, env=None):
        return subprocess.run([TUTTI, "status", *map(str, args)], env=env or self.env,
                              stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def query(self, *args):
        done = self.status("--json", "--timeout", QUERY_S, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def await_status(self, condition, what, *args):
        """Queries until the condition holds. Returns the last answer."""
        answers = []

        def holds():
            answers[:] = [self.query(*args)]
            return condition(answers[0])

        try:
            wait_until(holds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{json.dumps(answers)[:4000]}") from error
        return answers[0]

    def sockets(self):
        return sorted(path for path in self.base.glob("*/*") if not path.name.startswith("."))


def comm_of(answer, name):
    return next((comm for comm in answer["comms"] if comm["name"] == name), None)


def is_missing(answer, rank):
    comm = comm_of(answer, "world")
    return (comm and comm["verdict"] == "missing" and [g["ranks"] for g in comm["groups"]
                                                       if g["missing"]] == [[rank]])


class Jobs(StatusTest):
    def test_rank_that_never_calls_is_missing(self):
        self.start("never", 3)
        answer = self.await_status(lambda a: a["active"] == RANKS - 1 and is_missing(a, 3),
                                   "rank 3 is missing")
        comm = comm_of(answer, "world")
        waiting = next(g for g in comm["groups"] if g["state"] == "in")
        self.assertEqual((answer["ranks"], answer["reported"], answer["hosts"]), (RANKS, RANKS, 1))
        self.assertEqual((waiting["kind"], waiting["count"], waiting["type"], waiting["redop"]),
                         ("allreduce", 256, "f32", "max"))
        self.assertEqual(waiting["nranks"], RANKS - 1)
        self.assertEqual(comm_of(answer, "odd")["verdict"], "idle")
        self.assertEqual([answer[name] for name in ("silent", "late", "left", "lost")],
                         [[], [], [], []])
        text = self.status("--timeout", QUERY_S).stdout
        self.assertRegex(text, r"missing +world .* 7 of 8 ranks in allreduce 256 f32 max, number "
                               r"\d+, since ")
        self.assertRegex(text, r"rank 3: has not called it; last: ")

    def test_lanes_and_the_slowest_rank_are_in_the_text(self):
        """Rank 3 waits outside of collectives: a second after the last call, its share is 0. A
        query without a recent one samples the lanes, and is repeated."""
        self.start("never", 3, TUTTI_WIRES="tcp")
        texts = []

        def holds():
            done = self.status("--timeout", QUERY_S)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            texts.append(done.stdout)
            return (re.search(rf"(?m)^lanes of tcp: \d+ on {RANKS} ranks, 0 down", texts[-1])
                    and "\nslowest rank: 3 (0.0 %) of the last second in collectives; others up to "
                        "100.0 %\n" in texts[-1])

        wait_until(holds, "lanes of all ranks, and rank 3")

    def test_rates_of_a_running_job_are_in_the_text(self):
        self.start("run")
        wait_until(lambda: re.search(r"(?m)^\w+ +world .*; [1-9]\d* calls/s, [0-9.]+ [kMG]?B/s$",
                                     self.status("--timeout", QUERY_S).stdout),
                   "rates of the world")

    def test_stopped_rank_is_silent_and_hides_no_other(self):
        pids = self.start("never", 3)
        self.await_status(lambda a: a["active"] == RANKS - 1, "the others wait")
        os.kill(pids[5], signal.SIGSTOP)
        answer = self.await_status(lambda a: a["silent"] == [5] and a["reported"] == RANKS - 1,
                                   "rank 5 is silent")
        self.assertEqual(comm_of(answer, "world")["unreported"], [{"rank": 5, "list": "silent"}])
        os.kill(pids[5], signal.SIGCONT)
        self.await_status(lambda a: a["silent"] == [] and a["reported"] == RANKS,
                          "rank 5 responds again")

    def test_mismatch_is_shown(self):
        self.start("mismatch", 2)
        self.await_status(lambda a: (comm_of(a, "world") or {}).get("verdict") == "mismatch",
                          "a mismatch")

    def test_receive_in_progress_is_listed(self):
        self.start("receive", 6)
        answer = self.await_status(lambda a: len(a["ops"]) == 1, "one receive")
        op = answer["ops"][0]
        self.assertEqual((op["rank"], op["kind"], op["peer"], op["state"]), (6, "recv", 0, "in"))

    def test_rank_in_depth(self):
        pids = self.start("never", 3)
        self.await_status(lambda a: a["active"] == RANKS - 1, "the others wait")
        answer = self.query("--rank", 6)
        self.assertEqual((answer["rank"]["rank"], answer["rank"]["pid"]), (6, pids[6]))
        self.assertEqual(answer["rank"]["note"], "the last iteration")
        self.assertEqual({comm["name"] for comm in answer["comms"]}, {"world", "even"})
        self.assertEqual([op["kind"] for op in answer["ops"] if op["state"] == "in"], ["allreduce"])
        self.assertIn("comm_split", [op["kind"] for op in answer["ops"] if op["state"] == "out"])
        text = self.status("--rank", 3, "--timeout", QUERY_S).stdout
        self.assertIn("no operation in progress", text)
        done = self.status("--rank", RANKS)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the job has no such rank", done.stderr)

    def test_metrics(self):
        self.start("never", 3)
        self.await_status(lambda a: is_missing(a, 3), "rank 3 is missing")
        text = self.status("--metrics", "--timeout", QUERY_S).stdout
        self.assertRegex(text, r"tutti_job_ranks\{job=\"[0-9a-f]{16}\"\} 8\n")
        self.assertRegex(text, r"tutti_communicator_ranks_missing\{[^}]*name=\"world\"\} 1\n")
        for line in text.splitlines():
            self.assertRegex(line, r"^(# (HELP|TYPE) \w+ .+|\w+\{[^{}]*\} [0-9.]+)$")

    def test_dumps_of_all_ranks_name_the_culprit(self):
        folder = self.base.parent / "traces"
        folder.mkdir()
        self.start("never", 3, TUTTI_TRACE_DIR=str(folder))
        self.await_status(lambda a: a["active"] == RANKS - 1, "the others wait")
        done = self.status("--dump", "--timeout", QUERY_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"\n{RANKS} ranks write a trace dump to TUTTI_TRACE_DIR\n", done.stdout)
        wait_until(lambda: len(list(folder.glob("*.jsonl"))) == RANKS, "the dumps")
        for path in folder.glob("*.jsonl"):
            with open(path, encoding="utf-8") as f:
                self.assertEqual(json.loads(f.readline())["reason"], "command")
        found = subprocess.run([TUTTI, "analyze", "--json", folder], capture_output=True, text=True,
                               timeout=PATIENCE_S, check=False)
        self.assertEqual(found.returncode, 3, found.stderr)
        self.assertEqual(json.loads(found.stdout)["diagnoses"][0]["culprits"], [3])

    def analyze(self, *args, env=None):
        return subprocess.run([TUTTI, "analyze", "--live", *map(str, args)], env=env or self.env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)

    def check_live(self, *args, **more):
        """Rank 3 is the cause once each other rank has waited for a while. The tool leaves its
        directory if a rank needs seconds to end the storing of a dump: then another try, with
        another parent directory, must leave none."""
        self.start("never", 3, **more)
        self.await_status(lambda a: a["active"] == RANKS - 1 and is_missing(a, 3),
                          "rank 3 is missing")
        documents = []

        def is_found():
            scratch = self.base.parent / f"scratch{len(documents)}"
            scratch.mkdir()
            done = self.analyze("--json", "--min-wait", 0.5, "--timeout", 60, *args,
                                env={**self.env, "TMPDIR": str(scratch)})
            self.assertEqual(done.stderr, "")
            found = json.loads(done.stdout)
            documents.append(found)
            return (done.returncode == 3 and found["dumps"] == RANKS
                    and found["missing_dumps"] == [] and not list(scratch.iterdir()))

        wait_until(is_found, "the cause from all dumps, and no directory left")
        found = documents[-1]
        self.assertEqual((found["dumps"], found["missing_dumps"], found["min_wait_ns"]),
                         (RANKS, [], 500_000_000))
        self.assertEqual([(d["kind"], d["culprits"]) for d in found["diagnoses"]],
                         [("outside", [3])])

    def test_live_analysis_names_the_culprit(self):
        self.check_live()

    def test_live_analysis_does_not_use_the_directory_of_the_job(self):
        folder = self.base.parent / "traces"
        folder.mkdir()
        self.check_live(self.base, TUTTI_TRACE_DIR=str(folder))
        self.assertEqual(list(folder.iterdir()), [])

    def test_live_analysis_keeps_dumps_on_request(self):
        folder = self.base.parent / "kept"
        folder.mkdir()
        self.start("never", 3)
        self.await_status(lambda a: is_missing(a, 3), "rank 3 is missing")
        done = self.analyze("--timeout", 60, "--min-wait", 0, "--dumps", folder)
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        self.assertRegex(done.stdout, "^Rank 3 did work outside Tutti and did not call allreduce")
        self.assertEqual(len(list(folder.glob("tutti-trace.*.jsonl"))), RANKS)
        done = self.analyze("--dumps", folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"tutti analyze: {folder} already contains trace dumps", done.stderr)

    def test_live_analysis_of_a_working_job_names_nobody(self):
        self.start("run")
        for _ in range(5):
            done = self.analyze("--timeout", 60, "--min-wait", 3600)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            self.assertIn("No rank has waited for 3600.0 s or longer, and no rank is lost.\n",
                          done.stdout)

    def test_live_analysis_reports_errors(self):
        done = self.analyze()
        self.assertEqual(done.returncode, 1)
        self.assertIn("tutti analyze: no job of this user runs on this host", done.stderr)
        for folder, why in (("/nowhere", "cannot access /nowhere"),
                            (TUTTI, "is not a directory")):
            self.start("run", ranks=2)
            done = self.analyze(self.base, "--dumps", folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)
            self.end_jobs()
            self.jobs.clear()
        for args in (("a", "b"), ("--min-wait", "-1"), ("--timeout", "0")):
            self.assertEqual(self.analyze(*args).returncode, 2)

    def test_live_analysis_goes_on_without_dumps_that_do_not_arrive(self):
        """Rank 5 is stopped. The other ranks' dumps show it."""
        pids = self.start("never", 3)
        self.await_status(lambda a: a["active"] == RANKS - 1, "the others wait")
        os.kill(pids[5], signal.SIGSTOP)
        self.await_status(lambda a: a["silent"] == [5], "rank 5 is silent")
        found = {}

        def is_found():
            """Another rank's dump may be late too: then another try."""
            done = self.analyze("--json", "--timeout", QUERY_S, "--min-wait", 0)
            found.clear()
            if done.returncode in (3, 4):
                found.update(json.loads(done.stdout))
            return found.get("missing_dumps") == [5]

        wait_until(is_found, "a cause from all dumps but rank 5's")
        self.assertLessEqual({rank for d in found["diagnoses"] for rank in d["culprits"]}, {3, 5})

    def test_dumps_need_a_directory(self):
        self.start("run", ranks=2)
        done = self.status("--dump", "--timeout", QUERY_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn("\n0 ranks write a trace dump to TUTTI_TRACE_DIR\n2 ranks write none: ",
                      done.stdout)
        done = self.status("--dump", "--json", "--timeout", QUERY_S)
        self.assertEqual((done.returncode, json.loads(done.stdout)["dumps"]), (1, 0))
        for option in ("--watch", "--rank=1", "--metrics", "--serve=0"):
            done = self.status("--dump", option)
            self.assertEqual(done.returncode, 2, option)
            self.assertIn("--dump excludes", done.stderr)

    def test_many_ranks_report(self):
        self.start("never", 17, ranks=MANY)
        answer = self.await_status(lambda a: a["active"] == MANY - 1 and is_missing(a, 17),
                                   "rank 17 is missing")
        self.assertEqual(answer["reported"], MANY)
        self.assertEqual(comm_of(answer, "odd")["reported"], MANY // 2)

    def test_watch_repeats(self):
        self.start("run")
        watch = subprocess.Popen([TUTTI, "status", "--watch=0.1", "--json", "--timeout",
                                  str(QUERY_S)], env=self.env,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.terminate)
        for _ in range(3):
            self.assertEqual(json.loads(watch.stdout.readline())["ranks"], RANKS)


class Remote(StatusTest):
    """Clients over TCP, with a token. The jobs have no other socket."""

    def setUp(self):
        super().setUp()
        self.address = f"127.0.0.1:{free_port()}"
        self.where = f"tcp://{self.address}"
        self.env["TUTTI_STATUS_TOKEN"] = TOKEN

    def start(self, *args, **more):
        return super().start(*args, TUTTI_STATUS="0", TUTTI_STATUS_LISTEN=self.address, **more)

    def refused(self, **more):
        """The message of a client with another environment."""
        env = {key: value for key, value in {**self.env, **more}.items() if value}
        done = self.status("--timeout", QUERY_S, self.where, env=env)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stderr

    def connect(self):
        host, port = self.address.split(":")
        s = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.addCleanup(s.close)
        return s

    def read_to_end(self, s):
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while data := s.recv(4096):
                got += data
        return got

    def test_clients_with_the_token_see_the_job(self):
        self.start("never", 3)
        self.await_status(lambda a: a["active"] == RANKS - 1 and is_missing(a, 3),
                          "rank 3 is missing", self.where)
        done = self.status("--rank", 3, "--timeout", QUERY_S, self.where)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("no operation in progress", done.stdout)
        done = subprocess.run([TUTTI, "top", "--once", "--json", "--timeout", str(QUERY_S),
                               self.where], env=self.env, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, json.loads(done.stdout)["ranks"]), (0, RANKS))

    def test_the_token_of_the_job_is_the_default(self):
        del self.env["TUTTI_STATUS_TOKEN"]
        ranks = [self.start_rank(rank, TUTTI_TOKEN=TOKEN) for rank in range(2)]
        for rank in ranks:
            self.read_lines(rank, 1)    # it has started
        self.env["TUTTI_TOKEN"] = TOKEN
        self.await_status(lambda a: a["reported"] == 2, "both ranks report", self.where)
        self.assertIn("refused the token", self.refused(TUTTI_TOKEN=TOKEN + "x"))

    def start_rank(self, rank, **more):
        """A rank of two, without tutti run, whose jobs have a token of their own."""
        if rank == 0:
            self.rendezvous = f"tcp://127.0.0.1:{free_port()}"
        job = subprocess.Popen([PROGRAM, "run"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True,
                               env={**self.env, "TUTTI_STATUS": "0", "TUTTI_RANK": str(rank),
                                    "TUTTI_STATUS_LISTEN": self.address, "TUTTI_SIZE": "2",
                                    "TUTTI_RENDEZVOUS": self.rendezvous, **more})
        self.jobs.append(job)
        return job

    def test_a_job_is_analyzed_with_a_common_directory(self):
        self.start("never", 3)
        self.await_status(lambda a: a["active"] == RANKS - 1, "all others wait", self.where)
        command = [TUTTI, "analyze", "--live", "--json", "--min-wait=0", "--timeout", str(QUERY_S),
                   self.where]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs a directory", done.stderr)
        dumps = self.base.parent / "dumps"
        dumps.mkdir()
        done = subprocess.run([*command, "--dumps", dumps], env=self.env, capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(json.loads(done.stdout)["diagnoses"][0]["culprits"], [3])

    def test_strangers_get_nothing(self):
        self.start("run", ranks=2)
        self.assertIn("refused the token", self.refused(TUTTI_STATUS_TOKEN=TOKEN + "x"))
        self.assertIn("an address needs a token",
                      self.refused(TUTTI_STATUS_TOKEN="", TUTTI_TOKEN=""))
        for sent in (b"GET / HTTP/1.0\r\n\r\n", HEAD + b"\x02\x00" + bytes(4),
                     HEAD + b"\x21\x00" + (48).to_bytes(4, "little") + bytes(48)):
            s = self.connect()
            s.sendall(sent)
            got = self.read_to_end(s)
            self.assertEqual(tell_frames(got), [32])
            self.assertEqual(len(got), 8 + 17)
        self.assertEqual(self.query(self.where)["ranks"], 2)

    def test_idle_strangers_make_room(self):
        self.start("run", ranks=2)
        idle = [self.connect() for _ in range(3 * GUESTS)]
        for s in idle[:GUESTS]:
            self.read_to_end(s)
        self.assertEqual(self.query(self.where)["ranks"], 2)
        for s in idle:                  # the remaining ones are dropped at their limit of time
            self.read_to_end(s)

    def test_a_port_that_is_taken_is_a_warning(self):
        with socket.create_server(("127.0.0.1", int(self.address.split(":")[1]))):
            self.start("run", ranks=2)
        job = self.jobs[-1]
        job.terminate()
        errors = job.communicate(timeout=PATIENCE_S)[1]
        self.assertRegex(errors, "warn: status: clients of other hosts cannot query this process: "
                                 ".*Address already in use")
        self.assertEqual(errors.count("cannot listen"), 1)
        self.assertNotRegex(errors, "error: .*listen")

    def test_guesses_are_logged_once(self):
        self.start("run", ranks=2)
        for _ in range(5):
            self.refused(TUTTI_STATUS_TOKEN=TOKEN + "x")
        job = self.jobs[-1]
        job.terminate()
        errors = job.communicate(timeout=PATIENCE_S)[1]
        self.assertEqual(errors.count("status: refused"), 1, errors)

    def test_settings_are_checked(self):
        for more, words in (({"TUTTI_STATUS_LISTEN": "here"}, 'TUTTI_STATUS_LISTEN is "here"'),
                            ({"TUTTI_STATUS_TOKEN": "short"}, "the token has 5 characters")):
            done = subprocess.run([TUTTI, "run", "-n", "1", "--", PROGRAM],
                                  env={**self.env, "TUTTI_STATUS_LISTEN": self.address, **more},
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)
        self.where = "tcp://here"
        self.assertIn('invalid address "here"', self.refused())


class Sockets(StatusTest):
    def test_sockets_are_private_and_go_with_the_job(self):
        self.start("run")
        self.assertEqual([path.name for path in self.sockets()],
                         [str(rank) for rank in range(RANKS)])
        for path in (self.base, self.sockets()[0].parent):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o700)
        done = subprocess.run([TUTTI, "run", "-n", "2", "--", str(BUILD / "examples" / "hello")],
                              env=self.env,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list(self.base.iterdir())), 1)

    def test_sockets_of_killed_processes_are_removed(self):
        pids = self.start("run", ranks=2)
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not marked(self.env), "the job ends")
        self.assertTrue(self.sockets())
        done = self.status()
        self.assertEqual(done.returncode, 1)
        self.assertIn("no job of this user runs on this host", done.stderr)
        self.assertEqual(list(self.base.iterdir()), [])

    def test_few_processes_are_connected(self):
        """A query tries 8 processes in each of 4 rounds if none responds. One connection each finds
        that the job has a live process, and that its directory is in use."""
        path = self.base / "00000000000000ab"
        path.mkdir(0o700, parents=True)
        silent = []
        for rank in range(MANY):
            s = socket.socket(socket.AF_UNIX)
            self.addCleanup(s.close)
            s.bind(str(path / str(rank)))
            s.listen()
            s.setblocking(False)
            silent.append(s)
        self.assertEqual(self.status("--timeout", 0.1).returncode, 1)
        count = 0
        for s in silent:
            with contextlib.suppress(BlockingIOError):
                while True:
                    s.accept()[0].close()
                    count += 1
        self.assertLessEqual(count, 4 * 8 + 2)

    def test_jobs_are_selected_by_number_or_path(self):
        self.start("run", ranks=2)
        first = self.sockets()[0]
        self.start("run", ranks=3)
        done = self.status()
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 jobs of this user run on this host; specify one of:", done.stderr)
        for what in (first.parent.name, first.parent, first):
            self.assertEqual(self.query(what)["ranks"], 2)
        self.assertEqual(self.status("no-such-job").returncode, 1)
        self.assertEqual(self.status("/no/such/path").returncode, 1)
        self.assertEqual(self.status("/dev/null").returncode, 1)
        self.assertEqual(self.status("--no-such-option").returncode, 2)

    def test_status_can_be_disabled(self):
        self.start("run", ranks=2, TUTTI_STATUS="0")
        self.assertFalse(self.base.exists())
        done = self.status(env={**self.env, "TUTTI_STATUS": "0"})
        self.assertIn("TUTTI_STATUS is 0", done.stderr)
        done = subprocess.run([TUTTI, "run", "-n", "1", "--", PROGRAM],
                              env={**self.env, "TUTTI_STATUS": "sometimes"},
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('TUTTI_STATUS is "sometimes": must be 0, 1 or an absolute path', done.stderr)

    def test_a_directory_of_others_is_not_used(self):
        self.base.mkdir()
        self.base.chmod(0o777)
        self.start("run", ranks=2)
        self.assertEqual(list(self.base.iterdir()), [])
        self.jobs[0].terminate()
        _, err = self.jobs[0].communicate(timeout=PATIENCE_S)
        self.assertIn(f"status: `tutti status` cannot query this process: {self.base}: it is not "
                      "a directory of this user with mode 0700", err)


class Clients(StatusTest):
    """Clients that break the protocol are dropped; the job and other clients are not disturbed."""

    def setUp(self):
        super().setUp()
        self.start("run")
        self.path = str(self.sockets()[0])

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.settimeout(PATIENCE_S)

        def connected():
            try:
                client.connect(self.path)
            except BlockingIOError:  # the kernel's queue is full
                return False
            return True

        wait_until(connected, "connect")
        return client

    def request(self, what=0, rank=0, timeout_ms=1000 * QUERY_S, version=VERSION,
                folder=b""):
        body = (bytes([version, what]) + rank.to_bytes(4, "little")
                + timeout_ms.to_bytes(4, "little") + len(folder).to_bytes(2, "little") + folder)
        return HEAD + bytes([2, 0]) + len(body).to_bytes(4, "little") + body

    def check_dropped(self, client):
        """Reads until the process closes the connection."""
        try:
            while client.recv(65536):
                pass
        except ConnectionResetError:
            pass

    def check_service(self):
        self.assertEqual(self.query(self.path)["reported"], RANKS)

    def test_a_request_is_answered(self):
        client = self.connect()
        client.sendall(self.request())
        data = b""
        while 4 not in tell_frames(data):
            data += client.recv(65536)
        self.assertEqual(tell_frames(data)[0], 1)

    def test_invalid_data_is_refused(self):
        for data in (b"GET / HTTP/1.1\r\n\r\n", HEAD + bytes([2, 0, 255, 255, 255, 255]),
                     HEAD + bytes([9, 0, 0, 0, 0, 0]),
                     self.request(what=7), self.request(folder=b"/tmp"),
                     self.request(what=3, folder=b"tmp"), self.request(what=3, folder=b"/" * 256),
                     self.request(timeout_ms=0), self.request(version=99),
                     self.request(timeout_ms=2**32 - 1), os.urandom(4096)):
            with self.subTest(data=data[:32]):
                client = self.connect()
                try:
                    client.sendall(data)
                except (BrokenPipeError, ConnectionResetError):
                    continue
                self.check_dropped(client)
        self.check_service()

    def test_floods_are_dropped(self):
        client = self.connect()
        try:
            for _ in range(1000):
                client.sendall(self.request() * 100)
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.check_dropped(client)
        self.check_service()

    def test_idle_and_stalling_clients_make_room_for_others(self):
        clients = [self.connect() for _ in range(32)]
        self.check_service()
        self.check_dropped(clients[0])
        for _ in range(2):
            self.connect().send(b"T")  # a part of a frame
        self.check_service()

    @unittest.skipIf(os.geteuid() != 0, "only root can change the user")
    def test_strangers_are_refused(self):
        connect = f"s = socket.socket(socket.AF_UNIX); s.connect({self.path!r}); print(s.recv(100))"

        def as_stranger():
            return subprocess.run([sys.executable, "-c",
                                   f"import os, socket; os.setgid({STRANGER}); "
                                   f"os.setuid({STRANGER}); {connect}"],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)

        self.assertIn("PermissionError", as_stranger().stderr)
        socket_path = Path(self.path)
        for path, mode in ((self.base.parent, 0o755), (self.base, 0o755),
                           (socket_path.parent, 0o755), (socket_path, 0o777)):
            path.chmod(mode)
        refused = as_stranger()
        self.assertTrue(refused.stdout == "b''\n" or "ConnectionResetError" in refused.stderr,
                        refused)
        socket_path.parent.chmod(0o700)
        self.base.chmod(0o700)
        self.check_service()

    def test_calls_continue(self):
        clients = [self.connect() for _ in range(4)]
        for client in clients:
            client.sendall(self.request())
        self.await_status(lambda a: a["operations_per_s"] > 0, "operations end", self.path)


class FakeProcess(StatusTest):
    """A process that sends given answers to tutti status."""

    JOB = 0xab

    def setUp(self):
        super().setUp()
        folder = self.base / f"{self.JOB:016x}"
        folder.mkdir(0o700, parents=True)
        self.base.chmod(0o700)
        self.listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.listener.close)
        self.listener.bind(str(folder / "0"))
        self.listener.listen()

    def frame(self, kind, body):
        return HEAD + bytes([kind, 0]) + len(body).to_bytes(4, "little") + body

    def hello(self):
        return self.frame(1, struct.pack("<BQIIIIBH", VERSION, self.JOB, 0, 4, 1, os.getpid(), 0, 1)
                          + b"h")

    def rows(self, first):
        """A frame with two communicators of its own."""
        rows = b""
        for i in range(2):
            body = struct.pack("<QIIIBH", first + i, 4, 1, 0, 0, 60) + b"n" * 60 + b"\0\0"
            rows += struct.pack("<BH", 2, len(body)) + body
        return self.frame(3, rows)

    def serve(self, answers):
        """Sends HELLO and, after the request, the answers."""
        def run():
            with contextlib.suppress(OSError):
                while True:
                    client = self.listener.accept()[0]
                    with client, contextlib.suppress(OSError):
                        client.sendall(self.hello())
                        if client.recv(4096):
                            for answer in answers():
                                client.sendall(answer)
                        while client.recv(4096):
                            pass

        thread = threading.Thread(target=run, daemon=True)
        thread.start()


class Reports(FakeProcess):
    """The text of given reports."""

    def row(self, kind, body):
        return struct.pack("<BH", kind, len(body)) + body

    def lanes(self, wire, ranks, rated, lanes, up, down_rank, down_most):
        return self.row(8, struct.pack("<H", len(wire)) + wire
                        + struct.pack("<8IQQQQIQ", ranks, rated, lanes, up, down_rank, down_most, 0,
                                      0, 7, 1500000, 0, 0, 0, 0))

    def shares(self, ranks, most, lowest):
        return self.row(9, struct.pack("<IIB", ranks, most, len(lowest))
                        + b"".join(struct.pack("<II", *entry) for entry in lowest))

    def text(self, *rows):
        totals = self.row(1, struct.pack("<6IQQ", 4, 4, 0, 0, 0, 0, 120, 2500000))
        self.serve(lambda: [self.frame(3, totals + b"".join(rows)), self.frame(4, b"")])
        done = self.status("--timeout", QUERY_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("4 ranks report: 4 in an operation, 0 in none; 120 operations/s, 2.5 MB/s\n",
                      done.stdout)
        return done.stdout

    def test_lanes_that_are_down_are_shown_with_their_rank(self):
        text = self.text(self.lanes(b"tcp", 4, 4, 24, 21, 2, 3),
                         self.lanes(b"shm", 3, 0, 6, 6, 0, 0))
        self.assertIn("\nlanes of tcp: 24 on 4 ranks, 3 down (most at rank 2: 3), 1.5 MB/s\n", text)
        self.assertIn("\nlanes of shm: 6 on 3 ranks, 0 down\n", text)

    def test_slowest_ranks_are_shown(self):
        lowest = [(rank, 10 * i) for i, rank in enumerate((3, 2, 0, 1, 7, 6, 5, 4))]
        self.assertIn("\nslowest ranks: 3 (0.0 %), 2 (1.0 %), 0 (2.0 %), 1 (3.0 %) of the last "
                      "second in collectives; others up to 90.0 %\n",
                      self.text(self.shares(8, 900, lowest)))

    def test_ranks_with_about_equal_shares_are_not_slow(self):
        text = self.text(self.shares(3, 900, [(1, 451), (0, 900), (2, 900)]))
        self.assertIn("\nslowest ranks: none (all were in collectives for 45 to 90 % of the last "
                      "second)\n", text)

    def test_a_job_outside_of_collectives_has_no_slow_rank(self):
        self.assertNotIn("slowest", self.text(self.shares(3, 49, [(1, 0), (0, 1), (2, 49)])))


class HostileProcesses(FakeProcess):
    """A process that answers tutti status without end, or not completely."""

    def query_it(self):
        """Returns the output and the peak memory in KiB of a query that must fail."""
        with tempfile.TemporaryFile("w+") as out:
            tool = subprocess.Popen([TUTTI, "status", "--timeout", "3"], env=self.env,
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            _, status, usage = os.wait4(tool.pid, 0)
            tool.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            text = out.read()
        self.assertEqual(tool.returncode, 1, text)
        return text, usage.ru_maxrss

    def test_endless_answers_end_at_the_deadline(self):
        self.serve(lambda: map(self.rows, itertools.count(1, 2)))
        text, kib = self.query_it()
        self.assertIn("rank 0 did not answer in time", text)
        if not SANITIZED:
            self.assertLess(kib, 64 << 10)

    def test_incomplete_answers_end_at_the_deadline(self):
        self.serve(lambda: [self.rows(1), self.rows(3)[:20]])
        self.assertIn("rank 0 did not answer in time", self.query_it()[0])

    def test_invalid_answers_are_refused(self):
        answers = [self.frame(3, b"\x02\xff\xff"), self.frame(9, b""), b"GET / HTTP/1.1\r\n"]
        rest = iter(answers)
        self.serve(lambda: [next(rest)])
        for answer in answers:
            with self.subTest(answer=answer):
                self.assertIn("protocol error: ", self.query_it()[0])


if __name__ == "__main__":
    unittest.main()
