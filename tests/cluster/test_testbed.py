#!/usr/bin/env python3
"""Collectives between hosts with two rails each, on links of a known rate
(tests/support/testbed.py), and that such a testbed leaves nothing behind, however it ends. Skipped
if namespaces are not permitted."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from cluster import PATIENCE_S, TUTTI, ClusterTest, environment, marked, wait_until

import hosts        # after cluster, which sets its path
import scratch
import testbed

MIB = 1 << 20
NHOSTS, NRAILS, PER_HOST, MBIT = 2, 2, 2, 200
NRANKS = NHOSTS * PER_HOST

# Creates a testbed, starts an endless process on each host, prints its state, and waits to be
# killed.
OWNER = f"""
import json, subprocess, sys
sys.path.insert(0, {str(Path(testbed.__file__).parent)!r})
import testbed
with testbed.Testbed(2, 2, 100) as bed:
    for host in range(2):
        subprocess.Popen(bed.inside(host, "sh", "-c", "echo; exec sleep 1000"), start_new_session=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.readline()     # it is inside
    print(json.dumps({{"directory": str(bed.hosts.directory), "keeper": bed.hosts._keeper.pid}}), flush=True)
    sys.stdin.read()
"""


def is_held(directory):
    fd = scratch.lock(directory)
    if fd is not None:
        os.close(fd)
    return fd is None


class OnTestbed(ClusterTest):
    @classmethod
    def setUpClass(cls):
        why = hosts.why_not(("tc", "iproute2"), ("ss", "iproute2"))
        if why:
            raise unittest.SkipTest(why)
        cls.bed = testbed.Testbed(NHOSTS, NRAILS, MBIT)
        try:
            cls.bed.__enter__()
        except hosts.HostsError as trouble:
            raise unittest.SkipTest(f"a testbed cannot be made here: {trouble}")

    @classmethod
    def tearDownClass(cls):
        cls.bed.__exit__()

    def counters(self):
        return [self.bed.counters(host) for host in range(NHOSTS)]

    def perf(self, port, *args):
        """Runs tutti perf on all ranks, rank r of a host bound to rail r; every byte is checked.
        Returns its rows and the bytes that each rail of each host sent and received."""
        env = environment(TUTTI_SIZE=str(NRANKS), TUTTI_TIMEOUT_MS="60000",
                          TUTTI_RENDEZVOUS=f"tcp://{self.bed.address(0)}:{port}")
        before = self.counters()
        with tempfile.TemporaryFile("w+") as said:
            jobs = [subprocess.Popen(self.bed.inside(r // PER_HOST, TUTTI, "perf", "--json",
                                                     "--check", *map(str, args)),
                                     stdin=subprocess.DEVNULL,
                                     stdout=said if r == 0 else subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True,
                                     env={**env, "TUTTI_RANK": str(r),
                                          "TUTTI_INTERFACES": f"=eth{r % PER_HOST}"})
                    for r in range(NRANKS)]
            for rank, job in enumerate(jobs):
                output = job.communicate(timeout=120)[1]
                self.assertEqual(job.returncode, 0, f"rank {rank}: {output}")
            said.seek(0)
            rows = [json.loads(line) for line in said if '"coll"' in line]
        wait_until(lambda: not marked(env), "processes are left")
        moved = [[(b[0] - a[0], b[1] - a[1]) for a, b in zip(*pair)]
                 for pair in zip(before, self.counters())]
        return rows, moved

    def test_each_rank_uses_its_bound_rail(self):
        """Direct all-gather: each rank sends its block to both ranks of the other host, over the
        rail of the receiver or of the sender. In either case each rail carries some of the data,
        and together they carry exactly all of it."""
        block = MIB
        rows, moved = self.perf(18940, "allgather", "--algo", "direct", "--min", NRANKS * block,
                                "--max", NRANKS * block, "--iters", 1,
                                "--warmup", 0)
        self.assertEqual([row["wrong"] for row in rows if "wrong" in row], [0] * len(rows))
        runs = 4        # minimum number: out of place, checked and measured, and in place
        for host in range(NHOSTS):
            for rail in range(NRAILS):
                sent, received = moved[host][rail]
                self.assertGreater(sent, block // 2, f"host {host} rail {rail}: {moved}")
                self.assertGreater(received, block // 2, f"host {host} rail {rail}: {moved}")
            whole = sum(received for _, received in moved[host])
            self.assertGreater(whole, runs * PER_HOST * PER_HOST * block * 0.95, moved)

    def test_every_collective_is_right_over_rails(self):
        rows, _ = self.perf(18941, "all", "--min", 1000, "--max", 100000, "--factor", 100,
                            "--iters", 1, "--warmup", 0)
        self.assertGreater(len({row["coll"] for row in rows}), 10)
        self.assertEqual({row["wrong"] for row in rows if "wrong" in row}, {0})

    def test_links_do_not_exceed_their_rate(self):
        """Bytes received, by the receiver's counters, over the time that the sender needed, which
        waits for the last of them."""
        nbytes = 8 * MIB
        address = self.bed.address(1, 1)
        sink = ("import socket; s = socket.create_server(('%s', 18942)); print('here', "
                "flush=True); c = s.accept()[0]\n"
                "while c.recv(1 << 16): pass") % address
        source = ("import socket, time; c = socket.create_connection(('%s', 18942)); t = "
                  "time.monotonic(); c.sendall(bytes(%d))\n"
                  "c.shutdown(socket.SHUT_WR); c.recv(1); print(time.monotonic() - t)") % (address, nbytes)
        receiver = subprocess.Popen(self.bed.inside(1, sys.executable, "-c", sink),
                                    stdout=subprocess.PIPE, text=True)
        try:
            self.read_lines(receiver, 1)
            seconds = float(self.bed.hosts.run("host0", sys.executable, "-c", source))
        finally:
            receiver.kill()
            receiver.communicate()
        # with headers; the benchmark shows that the rate is also reached
        self.assertLess(nbytes * 8 / seconds / 1e6, MBIT)

    def test_names_resolve_and_rails_are_separate(self):
        self.assertIn("host1", self.bed.hosts.run("host0", "cat", "/etc/hosts"))
        self.assertEqual(self.bed.hosts.run("host1", "hostname").strip(), "host1")
        self.assertEqual(sorted(self.bed.hosts.run("host1", "ls", "/sys/class/net").split()),
                         ["eth0", "eth1", "lo"])
        routes = self.bed.hosts.run("host0", "ip", "route")
        self.assertEqual(routes.count("congctl cubic"), NRAILS, routes)

    def owner(self, **more):
        env = environment(**more)
        process = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=env)
        there = json.loads(self.read_lines(process, 1)[0])
        # a process has no mark during exec
        wait_until(lambda: len(marked(env)) >= 4, "the owner, the keeper, and what runs on "
                                                  "the hosts")
        return process, there, env

    def test_killed_owner_leaves_nothing(self):
        for sig in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(signal=sig.name):
                process, there, env = self.owner()
                process.send_signal(sig)
                process.communicate(timeout=PATIENCE_S)
                wait_until(lambda: not marked(env), f"processes are left: {marked(env)}")
                wait_until(lambda: not os.path.exists(there["directory"]),
                           f"{there['directory']} is left")

    def test_next_run_cleans_after_killed_keeper(self):
        # no other run uses this directory
        with tempfile.TemporaryDirectory() as place, unittest.mock.patch.object(tempfile, "tempdir", place):
            process, there, env = self.owner(TMPDIR=place)
            os.kill(there["keeper"], signal.SIGKILL)
            process.kill()
            process.communicate(timeout=PATIENCE_S)
            self.assertTrue(os.path.exists(there["directory"]))
            wait_until(lambda: not is_held(there["directory"]),
                       "the killed keeper still holds its directory")
            with hosts.Hosts("other"):
                self.assertFalse(os.path.exists(there["directory"]))
            for pid in marked(env):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    unittest.main(verbosity=2)
