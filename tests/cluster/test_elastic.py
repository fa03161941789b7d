#!/usr/bin/env python3
"""Elastic runs of real processes: members that are killed, stopped, join and leave, and a
coordinator that is killed and restarted. Each member checks every number (prog_member.c)."""

import json
import re
import resource
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

from cluster import BUILD, PATIENCE_S, SANITIZED, TUTTI, environment, free_port, wait_until

MEMBER = str(BUILD / "tests" / "cluster" / "prog_member")
GROUP = str(BUILD / "tests" / "cluster" / "prog_group")
EXAMPLE = str(BUILD / "examples" / "elastic")
THREADS = str(BUILD / "tests" / "cluster" / "prog_threads")
LEASE_S = 20        # no living member is declared lost, however busy the machine is
LEASE_MAX_S = 3600  # no member waits that long
# for tests in which one is stopped until it is declared lost: the others wait that long
EVICTING_LEASE_S = 10 if SANITIZED else 6


class Process:
    """A process with its output lines, read by a thread."""

    def __init__(self, *args, env):
        self.process = subprocess.Popen(list(map(str, args)), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=env, text=True)
        self.lines, self.errors = [], []
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.lines),
                                     (self.process.stderr, self.errors))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def has(self, pattern, after=0):
        return any(re.search(pattern, line) for line in self.lines[after:])

    def await_line(self, pattern, after=0):
        wait_until(lambda: self.has(pattern, after) or self.process.poll() is not None,
                   f"a line like {pattern}: {self.lines[-5:]}")
        if not self.has(pattern, after):
            self.process.wait()
            for reader in self.readers:
                reader.join()
            raise AssertionError(f"no line like {pattern}: {self.lines[-5:]}, {self.errors[-5:]}")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.send_signal(signal.SIGCONT)
        self.process.wait()
        for reader in self.readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Elastic(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.TemporaryDirectory()
        self.env = environment()
        self.env.pop("TUTTI_COORDINATOR", None)
        self.processes = []
        self.address = f"127.0.0.1:{free_port()}"       # the same after a restart
        self.start_coordinator()

    def tearDown(self):
        for process in self.processes:
            process.end()
        self.tmp.cleanup()

    def start(self, *args):
        self.processes.append(Process(*args, env=self.env))
        return self.processes[-1]

    def start_coordinator(self, lease_s=LEASE_S, grace_s=0.05):
        self.coordinator = self.start(TUTTI, "coordinator", "--journal",
                                      Path(self.tmp.name, "journal"), "--listen", self.address,
                                      "--lease", int(1000 * lease_s), "--grace",
                                      int(1000 * grace_s))
        self.coordinator.await_line("listening on")

    def start_another_coordinator(self, lease_s, grace_s=0.05):
        self.coordinator.end()
        self.start_coordinator(lease_s, grace_s)

    def members(self, n, count=20000, *how):
        started = [self.start(MEMBER, self.address, count, n, *how) for _ in range(n)]
        for member in started:
            member.await_line(f"members {n}")
        return started

    def await_members(self, members, n):
        for member in members:
            member.await_line(f"members {n}\\b")

    def leave(self, members):
        for member in members:
            member.process.send_signal(signal.SIGTERM)
            self.assertEqual(member.process.wait(timeout=60), 0, member.errors[-5:])

    def test_run_continues_after_a_kill(self):
        members = self.members(3)
        members[1].process.kill()
        self.await_members([members[0], members[2]], 2)
        self.leave([members[0], members[2]])
        for member in (members[0], members[2]):
            for reader in member.readers:
                reader.join()
            told = [line for line in member.errors if "was lost" in line]
            # no errors are caused by its loss
            self.assertFalse([line for line in member.errors if "error" in line], member.errors)
            self.assertTrue(all(re.search(r"warn: PEER_LOST: .*member \d+ ", line)
                                for line in told), told)
            # at most once (the coordinator may be first), although it ends many communicators
            self.assertEqual(len(told), len(set(told)), told)

    def analyze_a_kill(self, folder):
        """Kills one of four members. Returns the members, their ids, and the analysis."""
        folder.mkdir()
        self.env["TUTTI_TRACE_DIR"] = str(folder)
        members = self.members(4)
        ids = self.ids_of(members, folder)
        members[2].await_line("^step [0-9]{2}")     # earlier, data of the first one may arrive
        members[2].process.kill()
        others = members[:2] + members[3:]
        self.await_members(others, 3)
        self.leave(others)                          # which waits for their dumps
        done = subprocess.run([TUTTI, "analyze", "--json", folder], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (3, ""), done.stdout)
        return members, ids, done

    def test_dumps_name_the_killed_member(self):
        """Also if it dies between two operations: the coordinator has told the others."""
        folder = Path(self.tmp.name, "traces")
        members, ids, done = self.analyze_a_kill(folder)
        found = json.loads(done.stdout)
        self.assertEqual((found["elastic"], found["nranks"], found["problems"]), (True, 4, []))
        for dump in folder.iterdir():
            self.assertIn('"kind":"run_allreduce"', dump.read_text())
        lost = [ids[members[2].process.pid]]
        first = found["diagnoses"][0]
        self.assertEqual((first["kind"], first["culprits"]), ("died", lost), done.stdout)
        for other in found["diagnoses"][1:]:
            self.assertLessEqual(set(other["culprits"]), set(lost), other["words"])

    def ids_of(self, members, folder):
        """The members' ids by process, from dumps that a signal demands and that are removed."""
        for member in members:
            member.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: len(list(folder.glob("*.jsonl"))) == len(members),
                   "dumps of all members")
        heads = {}
        for dump in list(folder.glob("*.jsonl")):
            with open(dump, encoding="utf-8") as lines:
                head = json.loads(lines.readline())
            heads[head["pid"]] = head["rank"]
            dump.unlink()
        return heads

    def test_coordinator_start_failure_is_reported(self):
        token = Path(self.tmp.name, "token")
        token.write_text("short\n")
        for status, arguments, words in ((2, ("--grace", "2000"),
                                          ("2000 ms", "1000 ms", "--lease")),
                                         (2, ("--lease", "300", "--grace", "301"),
                                          ("301 ms", "300 ms")),
                                         (2, ("--token-file", token),
                                          (str(token), "5 characters", "16")),
                                         (2, ("--token-file", ""),
                                          ('cannot read the token file ""', "No such file")),
                                         (2, ("--lease", "soon"), ("soon",)),
                                         (2, ("--cert", token), ("--ca",)),
                                         (2, ("--cert", "/none.pem", "--key", token, "--ca", token),
                                          ("/none.pem", "No such file")),
                                         (2, ("--cert", token, "--key", token, "--ca", token),
                                          (str(token), "in PEM")),
                                         (2, ("--store-plain",),
                                          ("--store-plain", "needs --store")),
                                         (2, ("--listen", "127.0.0.1"),
                                          ("--listen", '"127.0.0.1"', "must be like host:29401")),
                                         (2, ("--listen", "127.0.0.1:99999"),
                                          ("--listen", '99999"', "0 to 65535")),
                                         (2, ("--http", "127.0.0.1:99999"),
                                          ("--http", '99999"', "0 to 65535")),
                                         (2, ("--http", ":99999"),
                                          ("--http", '99999"', "0 to 65535")),
                                         (2, ("--run", ""), ("--run", "1 to ")),
                                         (2, ("--listen", "0.0.0.0:0"),
                                          ("--listen", "0.0.0.0:0", "token", "--insecure")),
                                         (2, ("--journal", ""),
                                          ("invalid --journal: the name is empty", "none")),
                                         (1, ("--listen", self.address), (self.address,)),
                                         (1, ("--journal", self.tmp.name), (self.tmp.name,))):
            done = subprocess.run([TUTTI, "coordinator", "--journal", "none", "--listen",
                                   "127.0.0.1:0", *map(str, arguments)],
                                  env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, status, (arguments, done.stderr))
            for word in words:
                self.assertIn(word, done.stderr)
        for arguments, env, words in ((("--journal", "none"), {"TUTTI_TOKEN": "abc"},
                                       "3 characters, at least 16 needed .*TUTTI_TOKEN"),
                                      (("--journal", "none"), {"TUTTI_SECURITY": "secret"},
                                       'TUTTI_SECURITY .* is "secret"'),
                                      (("--store", "file:///a"), {},
                                       'invalid store "file:///a" .--store'),
                                      (("--run", "a/b"), {}, "--journal FILE")):
            done = subprocess.run([TUTTI, "coordinator", "--listen", "127.0.0.1:0", *arguments],
                                  env=self.env | env, cwd=self.tmp.name,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, words)
        self.coordinator.process.terminate()
        self.assertEqual(self.coordinator.process.wait(timeout=60), 0)

    def test_etcd_retries_are_logged(self):
        at = f"127.0.0.1:{free_port()}"
        done = subprocess.run([TUTTI, "coordinator", "--listen", "127.0.0.1:0", "--store",
                               f"etcd://{at}/a"], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, f"^tutti warn: etcd at {at} does not respond: .*; retrying "
                                      f"for 4 s\n"
                                      f"tutti error: etcd at {at} does not respond: .*\n$")

    def test_journal_write_failure_is_reported_once(self):
        with subprocess.Popen([TUTTI, "coordinator", "--listen", "127.0.0.1:0", "--journal",
                               Path(self.tmp.name, "full")], env=self.env, text=True,
                              # SIGXFSZ stays ignored
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              restore_signals=False) as coordinator:
            address = coordinator.stdout.readline().split()[-1]
            resource.prlimit(coordinator.pid, resource.RLIMIT_FSIZE, (0, 0))
            self.start(MEMBER, address, 100, 1)
            said = coordinator.communicate(timeout=PATIENCE_S)[1]
        self.assertEqual(coordinator.returncode, 1, said)
        self.assertRegex(said, r"^tutti error: journal .*full: .*\n$")
        self.assertNotIn("Success", said)

    def test_printed_address_opens_in_a_browser(self):
        for address, words in (("127.0.0.1:0", r"http://127\.0\.0\.1:\d+/$"),
                               ("0.0.0.0:0", r"http://127\.0\.0\.1:\d+/, and at the other "
                                             r"addresses of this host$")):
            coordinator = self.start(TUTTI, "coordinator", "--journal", "none", "--listen",
                                     "127.0.0.1:0", "--http", address)
            coordinator.await_line("status page: " + words)
            page = re.search("http://[^,]*/", "\n".join(coordinator.lines)).group()
            with urllib.request.urlopen(page + "healthz", timeout=PATIENCE_S) as answer:
                self.assertEqual(answer.read(), b"ok\n")

    def test_tentative_operations_are_restored_alike(self):
        for count in (100, 200000):
            members = self.members(3, count, "tentative")
            members[1].await_line("step 100 ")
            members[1].process.kill()
            left = [members[0], members[2]]
            self.await_members(left, 2)
            ended = [[line for line in member.lines if "ended after" in line] for member in left]
            self.assertEqual([len(lines) for lines in ended], [1, 1])
            final = [re.search(r"epoch \d+ ended after \d+ final", lines[0]).group()
                     for lines in ended]
            self.assertEqual(final[0], final[1])
            for member in left:
                member.await_line("step 100 epoch \\d+ members 2 ")
            self.leave(left[:1])
            left[1].process.kill()
            left[1].process.wait()

    def test_final_on_leaver_is_final_everywhere(self):
        members = self.members(4, 1000)
        for left in (3, 2, 1):
            going = members.pop(1 if left > 1 else 0)
            going.process.send_signal(signal.SIGINT)
            self.assertEqual(going.process.wait(timeout=60), 0, going.errors[-5:])
            for reader in going.readers:
                reader.join()
            last = int(re.search(r"goes after step (\d+)", "\n".join(going.lines)).group(1))
            for member in members:
                member.await_line(rf"^step \d+ epoch \d+ members {left} ")
                first = next(line for line in member.lines
                             if re.match(rf"step \d+ epoch \d+ members {left} ", line))
                self.assertEqual(int(first.split()[1]), last + 1, member.lines[-5:])
        self.leave(members)

    def test_killed_member_gets_no_grace(self):
        self.start_another_coordinator(LEASE_MAX_S, LEASE_MAX_S)
        members = self.members(3)
        members[1].process.kill()
        self.await_members([members[0], members[2]], 2)
        members[2].process.kill()
        self.await_members(members[:1], 1)
        self.leave(members[:1])

    def test_stopped_member_does_not_affect_others(self):
        self.env["TUTTI_WIRES"] = "tcp"         # data sent to it stays in flight
        self.start_another_coordinator(EVICTING_LEASE_S)
        members = self.members(3, 1000000)
        members[2].process.send_signal(signal.SIGSTOP)
        self.await_members(members[:2], 2)
        members.append(self.start(MEMBER, self.address, 1000000, 1))
        for member in (members[0], members[1], members[3]):
            member.await_line("epoch [3-9] members 3\\b")
        self.leave([members[0], members[1], members[3]])

    def test_stopped_member_is_evicted_after_lease(self):
        self.start_another_coordinator(EVICTING_LEASE_S)
        members = self.members(3)
        members[2].process.send_signal(signal.SIGSTOP)
        self.await_members(members[:2], 2)
        members[2].process.send_signal(signal.SIGCONT)
        self.assertEqual(members[2].process.wait(timeout=60), 3)
        for reader in members[2].readers:
            reader.join()
        self.assertRegex("\n".join(members[2].errors), "(?m)^(all-reduce|epoch): .*ABORTED: .*(has "
                                                       "removed this member|declared this "
                                                       "member lost)")
        self.leave(members[:2])

    def test_newcomer_is_admitted_and_member_leaves(self):
        members = self.members(2)
        members.append(self.start(MEMBER, self.address, 20000, 1))
        self.await_members(members[:2], 3)
        self.leave(members[:1])
        for member in members[1:]:
            member.await_line("epoch 3 members 2\\b")
        self.leave(members[1:])

    def test_coordinator_restart_affects_no_member(self):
        members = self.members(3)
        self.coordinator.process.kill()
        self.coordinator.process.wait()
        marks = [len(member.lines) for member in members]
        for member, mark in zip(members, marks):
            member.await_line("members 3 ms", mark)
        self.start_coordinator()
        members.append(self.start(MEMBER, self.address, 20000, 1))
        self.await_members(members[:3], 4)
        members[0].process.kill()
        for member in members[1:]:
            member.await_line("epoch 3 members 3\\b")
        self.leave(members[1:])

    def test_waiting_for_coordinator_is_logged(self):
        self.coordinator.end()
        first = self.start(MEMBER, self.address, 20000, 1)
        wait_until(lambda: len(first.errors) > 1, "two warnings")
        for line in first.errors[:2]:
            self.assertRegex(line, f'warn: no coordinator of run "tutti" has responded for '
                                   f'[1-9][0-9]* s .tried: {self.address}.; '
                                   f"last attempt: {self.address}: Connection refused")
        self.start_coordinator()
        first.await_line("members 1")
        self.leave([first])

    def test_incomplete_group_leaves_and_is_replaced(self):
        """Two groups of two roles; prog_group.c checks every number of its role's shard after every
        step."""
        start = {(group, role): self.start(GROUP, self.address, group, role, 4) for group in (0, 1)
                 for role in (0, 1)}
        stay, victim, left_over = [start[0, 0], start[0, 1]], start[1, 0], start[1, 1]
        for member in start.values():
            member.await_line("groups 2")
            member.await_line("steps")
        victim.process.kill()
        left_over.await_line("^out$")
        marks = [len(member.lines) for member in stay]
        for member, mark in zip(stay, marks):
            member.await_line("steps", mark)                # the other group continues
            self.assertFalse(member.has("^out$"))
        replacement = self.start(GROUP, self.address, 1, 0, 0)
        for member in (*stay, left_over, replacement):
            member.await_line(r"epoch [3-9]\d* groups 2")
        whole = [*stay, left_over, replacement]
        marks = [len(member.lines) for member in whole]
        for member, mark in zip(whole, marks):
            member.await_line("steps", mark)
        self.leave([replacement])                           # together with its group
        for member, mark in zip(stay, marks):
            member.await_line(r"epoch \d+ groups 1", mark)

    def test_example_prints_sums_and_leaves(self):
        self.env["TUTTI_COORDINATOR"] = self.address
        first = self.start(EXAMPLE)
        first.await_line("^the sum is 1$")
        second = self.start(EXAMPLE)
        for member in (first, second):
            member.await_line("^the sum is 2$")
        mark = len(first.lines)
        self.leave([second])
        first.await_line(r"^epoch \d+: 1 members$", mark)
        first.process.send_signal(signal.SIGINT)
        self.assertEqual(first.process.wait(timeout=60), 0, first.errors[-5:])
        told = subprocess.run([EXAMPLE, "--help"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual(told.returncode, 0)
        self.assertIn("until Ctrl-C", told.stdout)

    def test_concurrent_threads_survive_a_kill(self):
        members = [self.start(THREADS, self.address, 3, 4, 100, seed, int(dies))
                   for seed, dies in ((11, False), (22, True), (33, False))]
        for member in (members[0], members[2]):
            member.await_line("done, members 2")
            self.assertEqual(member.process.wait(timeout=60), 0, member.errors[-5:])
        self.assertEqual(members[1].process.wait(timeout=60), -signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
