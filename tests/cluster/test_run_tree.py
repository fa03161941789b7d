#!/usr/bin/env python3
"""tutti run with hosts that are started in a tree. Hosts are network namespaces on one bridge; the
launcher runs on h0, and starts h1 to h13 with a fan-out of 3:

      h0 (launcher) --- h1 --- h2 --- h3
                    |      --- h4
                    |      --- h5
                    --- h6 --- h7, h8, h9
                    --- h10 --- h11, h12, h13

Skipped if namespaces are not permitted."""

import os
import re
import signal
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from cluster import (MEET, PATIENCE_S, TUTTI, ClusterTest, blocked_writers, environment, marked,
                     wait_until)
from hosts import Hosts, HostsError

NAMES = [f"h{i}" for i in range(14)]
CHILDREN = {"h0": {"h1", "h6", "h10"}, "h1": {"h2", "h4", "h5"}, "h2": {"h3"},
            "h6": {"h7", "h8", "h9"}, "h10": {"h11", "h12", "h13"}}
SUBTREE_OF_H1 = range(1, 6)
MEMORY_KIB = 48 << 10       # of a process that forwards output
LINE = "y" * 999
WRITTEN = 4_000_000          # by each rank, in lines

# Runs a command on a host with `on`, and records which host has started which.
AGENT = """#!/bin/sh
echo "$(uname -n) $1" >> {folder}/calls
exec {on} "$@"
"""


def connect(hosts):
    """Creates the network above."""
    lines = ["link set lo up", "link add br0 type bridge", "link set br0 up"]
    for i, name in enumerate(NAMES):
        lines += [f"link add p{i} type veth peer name eth0 netns {hosts.network_of(name)}",
                  f"link set p{i} master br0", f"link set p{i} up"]
    hosts.batch("switch", "ip", lines)
    for i, name in enumerate(NAMES):
        hosts.batch(name, "ip", ["link set lo up", f"address add 10.214.0.{i + 1}/24 dev eth0",
                                 "link set eth0 up"])


def relays(env):
    """Pids of the relays, by host."""
    found = {}
    for pid in marked(env):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words[1:3] != [b"run", b"--relay"] or status_of(pid, "PPid") == status_of_guard(pid):
                continue
            name = subprocess.run(["nsenter", f"--uts=/proc/{pid}/ns/uts", "uname", "-n"],
                                  capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            continue
        found.setdefault(name, pid)
    return found


def status_of(pid, key):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{key}:\s*(\d+)", text, re.M)[1])


def status_of_guard(pid):
    """The parent of a guard, which is a fork of a relay, is a relay: returns it, or -1."""
    parent = status_of(pid, "PPid")
    words = Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0")
    return parent if words[1:3] == [b"run", b"--relay"] and os.getsid(pid) == pid else -1


class Tree(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(*NAMES, "switch")
        try:
            cls.hosts.__enter__()
            connect(cls.hosts)
        except (OSError, HostsError) as why:
            cls.hosts.__exit__()
            raise unittest.SkipTest(f"network namespaces cannot be made here: {why}")

    @classmethod
    def tearDownClass(cls):
        cls.hosts.__exit__()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.agent = self.folder / "agent"
        self.agent.write_text(AGENT.format(folder=self.folder, on=self.hosts.on))
        self.agent.chmod(0o700)
        self.inside = self.hosts.inside("h0")

    def tree(self, *args, names=NAMES, agent=None):
        return ["-n", len(names), "--hosts", ",".join(names), "--fanout", 3, "--agent",
                agent or self.agent, *args]

    def run_tree(self, *args, stdin=None, env=None, **more):
        return self.run_tutti(*self.tree(*args, **more), stdin=stdin, env=env, inside=self.inside)

    def start_tree(self, *args, env, n=14):
        """Starts a job whose ranks print "ready"."""
        job = self.start_tutti(*self.tree(*args), env=env, inside=self.inside)
        self.assertEqual(sorted(self.read_lines(job, n)), sorted(f"[{r}] ready" for r in range(n)))
        return job

    def test_hosts_start_each_other(self):
        done = self.run_tree("--bind", "none", "sh", "-c",
                             "echo $(uname -n) $TUTTI_LOCAL_RANK/$TUTTI_LOCAL_SIZE $EXTRA; "
                             "echo e >&2; printf unfinished")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted([f"[{r}] h{r} 0/1" for r in range(14)] +
                                [f"[{r}] unfinished" for r in range(14)]))
        self.assertEqual(sorted(done.stderr.splitlines()), sorted(f"[{r}] e" for r in range(14)))
        calls = {}
        for line in (self.folder / "calls").read_text().splitlines():
            parent, child = line.split()
            calls.setdefault(parent, set()).add(child)
        self.assertEqual(calls, CHILDREN)

    def test_variables_and_slots_arrive(self):
        done = self.run_tutti("-n", 12, "--hosts", "h1:3,h0:1,h2:2,h3:1,h4:5", "--fanout", 2,
                              "--agent", self.agent, "-x", "WORD=it's $HOME \"q\"", "sh", "-c",
                              'echo "$(uname -n) $TUTTI_LOCAL_RANK/$TUTTI_LOCAL_SIZE $WORD"',
                              inside=self.inside)
        self.assertEqual(done.returncode, 0, done.stderr)
        places = [(h, i, n) for h, n in (("h1", 3), ("h0", 1), ("h2", 2), ("h3", 1), ("h4", 5))
                  for i in range(n)]
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(f"[{r}] {h} {i}/{n} it's $HOME \"q\""
                                for r, (h, i, n) in enumerate(places)))

    def test_ranks_in_a_tree_connect(self):
        done = self.run_tree("--timeout", 100, MEET, "twice")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("of 14 met"), 28)

    def test_lines_keep_their_order(self):
        done = self.run_tree("sh", "-c",
                             "for i in $(seq 500); do echo \"$TUTTI_RANK line $i\"; done")
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(14):
            mine = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertEqual(mine, [f"[{rank}] {rank} line {i}" for i in range(1, 501)])

    def test_each_rank_gets_its_own_files(self):
        done = self.run_tree("--output", f"dir={self.folder}/new", "sh", "-c",
                             "echo $TUTTI_RANK; echo e >&2")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        for rank in range(14):
            self.assertEqual((self.folder / "new" / f"rank.{rank}.out").read_text(), f"{rank}\n")
            self.assertEqual((self.folder / "new" / f"rank.{rank}.err").read_text(), "e\n")

    def test_standard_input_goes_to_rank_0(self):
        done = self.run_tree("--output", "plain", "sh", "-c", "echo got $(cat)", stdin="words")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["got"] * 13 + ["got words"])

    def test_unread_output_stops_the_ranks(self):
        """No process buffers the output: all ranks wait until it is read, and none is lost."""
        env = environment()
        job = self.start_tutti(*self.tree("sh", "-c", f"yes {LINE} | head -c {WRITTEN}; "
                                                      f"touch {self.folder}/$TUTTI_RANK.done"),
                               env=env, inside=self.inside)
        try:
            wait_until(lambda: len(blocked_writers(env)) == 14, "the ranks do not wait")
            self.assertEqual(list(self.folder.glob("*.done")), [])
            out, _ = job.communicate(timeout=PATIENCE_S)
        finally:
            job.kill()
        self.assertEqual(job.returncode, 0)
        count = {}
        for line in out.splitlines():
            count[line] = count.get(line, 0) + 1
        self.assertEqual(count, {f"[{r}] {LINE}": WRITTEN // 1000 for r in range(14)})

    def test_relays_use_little_memory(self):
        env = environment()
        job = self.start_tutti(*self.tree("sh", "-c", f"yes {LINE} | head -c {WRITTEN}; "
                                                      "echo end; exec sleep 1000"),
                               env=env, inside=self.inside)
        ends = 0
        try:
            while ends < 14:
                line = job.stdout.readline()
                self.assertTrue(line, "the job has ended")
                ends += line.endswith("end\n")
            for name, pid in relays(env).items():
                self.assertLess(status_of(pid, "VmHWM"), MEMORY_KIB, name)
        finally:
            job.terminate()
            job.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not marked(env), "processes are left")

    def test_sigint_reaches_all_ranks(self):
        env = environment()
        job = self.start_tree("sh", "-c", "trap 'echo bye; exit 3' INT; echo ready; "
                                          "while :; do sleep 0.01; done", env=env)
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 3, err)
        self.assertEqual(sorted(out.splitlines()), sorted(f"[{r}] bye" for r in range(14)))
        wait_until(lambda: not marked(env), "processes are left")

    def test_sigint_ends_ranks_without_handler(self):
        env = environment()
        job = self.start_tree("sh", "-c", "echo ready; exec sleep 1000", env=env)
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 128 + signal.SIGINT, err)
        wait_until(lambda: not marked(env), "processes are left")

    def test_sigusr1_is_forwarded_and_harmless(self):
        env = environment()
        job = self.start_tree("sh", "-c", "trap 'echo usr1; exit 0' USR1; echo ready; "
                                          "while :; do sleep 0.01; done", env=env)
        job.send_signal(signal.SIGUSR1)
        out, err = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 0, err)
        self.assertEqual(sorted(out.splitlines()), sorted(f"[{r}] usr1" for r in range(14)))

    def test_sigterm_ignored_leads_to_kill(self):
        env = environment()
        job = self.start_tree("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done",
                              env=env)
        job.terminate()
        _, err = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL, err)
        wait_until(lambda: not marked(env), "processes are left")

    def test_failed_rank_is_named_with_host(self):
        for rank, end, status, says in ((3, "exit 5", 5, r"rank 3 \(pid \d+\) on host h3 exited "
                                         "with status 5; ending the others"),
                                        (9, "kill -9 $$", 137, r"rank 9 \(pid \d+\) on host h9 was "
                                         r"killed by signal 9 \(SIGKILL\); ending the others")):
            with self.subTest(end=end):
                done = self.run_tree("sh", "-c", f"[ $TUTTI_RANK = {rank} ] && {end}; "
                                                 "sleep 1000 & exec sleep 1000")
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertRegex(done.stderr, "^tutti run: " + says + "\n$")

    def test_survivors_continue_on_request(self):
        done = self.run_tree("--survive", "sh", "-c",
                             "[ $TUTTI_RANK = 3 ] && kill -9 $$; sleep 0.3; echo here")
        self.assertEqual(done.returncode, 137)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(f"[{r}] here" for r in range(14) if r != 3))

    def test_unknown_program_is_named_with_hosts(self):
        done = self.run_tree("sh", "-c", "exit 0", names=["h1", "h2", "h3", "h4"])
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_tree("no-such-program", names=["h1", "h2", "h3", "h4"])
        self.assertEqual(done.returncode, 127)
        self.assertIn('[host h2] tutti run: cannot start "no-such-program": not found in PATH\n',
                      done.stderr)
        self.assertRegex(done.stderr, r"rank \d on host h\d was not started \(status 127\)")

    def test_killed_relay_ends_its_subtree_and_the_job(self):
        env = environment()
        job = self.start_tree("sh", "-c", "echo ready; exec sleep 1000", env=env)
        os.kill(relays(env)["h1"], signal.SIGKILL)
        _, err = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 137, err)
        self.assertRegex(err, r"tutti run: rank 1 was lost: the relay on host h1, or on the host "
                              r'that started it, ended unexpectedly: "\S+" was killed by signal 9 '
                              r"\(SIGKILL\); ending the others\n")
        self.assertEqual(err.count("tutti run:"), 1, err)
        wait_until(lambda: not marked(env), "processes are left")

    def test_killed_relay_spares_other_subtrees_on_request(self):
        env = environment()
        job = self.start_tree("--survive", "sh", "-c",
                              f"echo ready; until [ -e {self.folder}/go ]; do sleep 0.01; done; "
                              "echo here", env=env)
        os.kill(relays(env)["h1"], signal.SIGKILL)
        self.assertRegex(job.stderr.readline(), "rank 1 was lost: the relay on host h1")
        (self.folder / "go").touch()
        out, _ = job.communicate(timeout=PATIENCE_S)
        self.assertEqual(job.returncode, 137)
        survivors = [r for r in range(14) if r not in SUBTREE_OF_H1]
        self.assertLessEqual({f"[{r}] here" for r in survivors}, set(out.splitlines()))
        wait_until(lambda: not marked(env), "processes are left")

    def test_unreachable_host_is_named(self):
        for at in (3, 6):       # a leaf, and the first host of a subtree
            with self.subTest(at=at):
                names = NAMES[:at] + ["nowhere"] + NAMES[at + 1:]
                done = self.run_tree("sleep", 1000, names=names)
                self.assertEqual(done.returncode, 255, done.stderr)
                self.assertIn("] on: there is no nowhere; hosts are h0", done.stderr)
                self.assertIn(f"tutti run: rank {at} was not started: no answer from host nowhere: "
                              f'"{self.agent}" exited with status 255 (check that the host is '
                              "reachable, and that tutti is installed there); ending the others\n",
                              done.stderr)

    def test_lost_subtree_may_surround_the_launcher(self):
        """The launcher's host is in the middle of the list, and not in the subtree."""
        done = self.run_tutti("-n", 4, "--hosts", "nowhere,h0,h1,h2", "--fanout", 1, "--agent",
                              self.agent, "sleep", 1000, inside=self.inside)
        self.assertEqual(done.returncode, 255, done.stderr)
        self.assertIn("rank 0 was not started: no answer from host nowhere", done.stderr)

    def test_no_orphan_survives_the_launcher(self):
        env = environment()
        job = self.start_tree("sh", "-c", "sleep 1000 & echo ready; trap '' TERM; "
                                          "while :; do sleep 0.01; done", env=env)
        job.kill()
        job.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not marked(env), "orphans")

    def test_host_may_be_inside_a_word_of_the_agent(self):
        agent = self.folder / "named"
        agent.write_text(f'#!/bin/sh\nexec {self.hosts.on} "${{1#--host=}}" "$3"\n')
        agent.chmod(0o700)
        done = self.run_tree("uname", "-n", agent=f"{agent} --host={{}} -c")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(f"[{r}] h{r}" for r in range(14)))

    def test_printing_agent_is_an_error(self):
        agent = self.folder / "loud"
        agent.write_text(f'#!/bin/sh\necho Welcome\nexec {self.hosts.on} "$@"\n')
        agent.chmod(0o700)
        done = self.run_tree("sleep", 1000, agent=agent)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('[host h1] tutti run: protocol error: unexpected bytes on standard output: '
                      '"Welcome', done.stderr)


class Relay(unittest.TestCase):
    """A relay with arbitrary standard input."""

    def relay(self, data):
        done = subprocess.run([TUTTI, "run", "--relay"], input=data, capture_output=True,
                              timeout=PATIENCE_S, check=False)
        return done.returncode, done.stderr.decode()

    def test_invalid_input_is_refused(self):
        good = [b"nranks=2", b"fanout=2", b"bind=0", b"rsh=false", b"arg=true", b"host=0 0 1 a",
                b"host=1 1 1 b"]

        def frame(lines, kind=0x52545431, end=b"\0"):
            text = b"\0".join(lines) + end
            return struct.pack("<III", kind, 0, len(text)) + text

        for data, says in ((b"", "standard input ended"),
                           (frame(good)[:30], "standard input ended"),
                           (b"GET / HTTP/1.0\r\n\r\n", "does not begin with a list of hosts"),
                           (frame(good, kind=0x52545432), "does not begin with a list of hosts"),
                           (struct.pack("<III", 0x52545431, 0, 1 << 30), "does not begin with"),
                           (frame(good, end=b""), "is empty or truncated"),
                           (frame([]), 'unknown entry ""'),
                           (frame(good[:5]), "missing entry: host"),
                           (frame(good[1:]), "ranks are 0 to 0, but the job has 0"),
                           (frame([*good, b"host=2 1 1 c"]), '"c": it must follow "b"'),
                           (frame([*good, b"host=2 2 1 c"]), "ranks are 2 to 2, but the job has 2"),
                           (frame([*good, b"host=2 c"]), 'invalid host "2 c"'),
                           (frame([*good, b"host=2 1 1 "]), "must be 1 to 255 characters long"),
                           (frame([*good, b"env=X"]), 'invalid variable "X"'),
                           (frame([*good, b"fanout=0"]), 'invalid "fanout=0"'),
                           (frame([*good, b"bind=9"]), 'invalid "bind=9"'),
                           (frame([*good, b"colour=red"]), 'unknown entry "colour=red"')):
            with self.subTest(says=says):
                status, text = self.relay(data)
                self.assertEqual(status, 2)
                self.assertTrue(text.startswith("tutti run: cannot start a relay: "), text)
                self.assertIn(says, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
