#!/usr/bin/env python3
"""Hosts whose identity cannot be read, or equals that of another host, like virtual machines
restored from one snapshot:

      [host a]  eth0 10.213.17.1 ---------------- eth0 10.213.17.2  [host b]

The hosts are network, UTS and mount namespaces. A directory mounted over /proc of both gives them
the same boot id and the same network namespace; an empty one gives them none. Skipped if namespaces
are not permitted."""

import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from cluster import BUILD, CALLS, MEET, TUTTI, ClusterTest, environment, free_port, wait_until
from hosts import Hosts, HostsError

HOSTS = ["hosta", "hostb"]
ADDRESSES = ["10.213.17.1", "10.213.17.2"]
MEMBER = str(BUILD / "tests" / "cluster" / "prog_member")
TOKEN = "6f1d2c48f0b04c0c9d9f"


def connect(hosts, *more):
    """Creates the network above."""
    for i, host in enumerate(HOSTS):
        lines = ["link set lo up", f"address add {ADDRESSES[i]}/24 dev eth0", "link set eth0 up"]
        if i == 0:
            lines.insert(0, f"link add eth0 type veth peer name eth0 netns "
                            f"{hosts.network_of(HOSTS[1])}")
        hosts.batch(host, "ip", lines + list(more))


class TwoHosts(ClusterTest):
    """The network above."""

    def setUp(self):
        self.hosts = Hosts(*HOSTS)
        self.addCleanup(self.hosts.__exit__)
        try:
            self.hosts.__enter__()
            connect(self.hosts)
        except (OSError, HostsError) as why:
            self.skipTest(f"network namespaces cannot be made here: {why}")
        self.proc = tempfile.TemporaryDirectory()
        self.addCleanup(self.proc.cleanup)

    def cover_proc(self, **files):
        """Mounts a directory with these files over /proc of both hosts, until the test ends."""
        if "address" in os.environ.get("CFLAGS", ""):
            self.skipTest("the address sanitizer needs /proc, for its options, too")
        for name, text in files.items():
            path = Path(self.proc.name, name.replace("__", "/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for host in HOSTS:
            self.hosts.run(host, "mount", "--bind", self.proc.name, "/proc")

    def look_alike(self):
        self.cover_proc(sys__kernel__random__boot_id="11111111-2222-3333-4444-555555555555\n",
                        self__ns__net="")


class RanksAlike(TwoHosts):
    """Ranks of a job."""

    def run_ranks(self, hosts, program, *args, server=ADDRESSES[0], **more):
        """Runs one process per rank, on the hosts with these indices; returns their outputs. All
        must succeed."""
        where = f"tcp://{server}:{free_port()}"
        jobs = [subprocess.Popen(self.hosts.inside(HOSTS[host], program, *args),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True,
                                 env=environment(TUTTI_RANK=str(r), TUTTI_SIZE=str(len(hosts)),
                                                 TUTTI_TIMEOUT_MS="60000",
                                                 TUTTI_RENDEZVOUS=where, **more))
                for r, host in enumerate(hosts)]
        outputs = [job.communicate(timeout=150)[0] for job in jobs]
        for rank, (job, output) in enumerate(zip(jobs, outputs)):
            self.assertEqual(job.returncode, 0, f"rank {rank}: {output}")
            self.assertNotIn("deadline", output)    # none has passed
        return outputs

    def start_by_file(self, rank, hosts, program, timeout_ms, **more):
        """Starts one rank of them, with a file visible to all hosts."""
        where = Path(self.proc.name, "rendezvous")
        return subprocess.Popen(self.hosts.inside(HOSTS[hosts[rank]], program),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True,
                                env=environment(TUTTI_RANK=str(rank), TUTTI_SIZE=str(len(hosts)),
                                                TUTTI_TIMEOUT_MS=str(timeout_ms),
                                                TUTTI_RENDEZVOUS=f"file://{where}", **more))

    def run_by_file(self, hosts, program, timeout_ms, **more):
        """Returns (exit status, output) of each."""
        jobs = [self.start_by_file(r, hosts, program, timeout_ms, **more)
                for r in range(len(hosts))]
        outputs = [job.communicate(timeout=150)[0] for job in jobs]
        return [(job.returncode, output) for job, output in zip(jobs, outputs)]

    def check_calls(self, hosts, **more):
        for rank, output in enumerate(self.run_ranks(hosts, CALLS, **more)):
            self.assertIn(f"rank {rank} of {len(hosts)} is right", output)

    def layout(self, hosts):
        """The hosts as logged by rank 0."""
        output = self.run_ranks(hosts, TUTTI, "perf", "allreduce", "--min", "8", "--max", "8",
                                "--iters", "5", TUTTI_LOG="info")[0]
        return next(line for line in output.splitlines() if " ranks on " in line)

    def test_identical_hosts_connect_over_the_network(self):
        self.look_alike()
        self.check_calls([0, 1])

    def test_ranks_on_identical_hosts_use_shm(self):
        self.look_alike()
        self.check_calls([0, 1, 0, 1], TUTTI_LOG="info")
        self.assertIn("4 ranks on 2 hosts", self.layout([0, 1, 0, 1]))

    def test_ranks_without_proc_share_memory(self):
        self.cover_proc()
        self.check_calls([0, 0, 0], TUTTI_WIRES="shm")

    def test_hosts_without_proc_connect_over_tcp(self):
        self.cover_proc()
        self.check_calls([0, 1, 1])
        self.assertIn("3 ranks on 2 hosts", self.layout([0, 1, 1]))

    def test_link_local_hosts_connect(self):
        for i, host in enumerate(HOSTS):
            self.hosts.run(host, "ip", "address", "del", f"{ADDRESSES[i]}/24", "dev", "eth0")
        wait_until(lambda: all("inet6 fe80" in text and "tentative" not in text for text in
                               (self.hosts.run(host, "ip", "address", "show", "dev", "eth0")
                                for host in HOSTS)), "no fe80:: address")
        for rank, (status, output) in enumerate(self.run_by_file([0, 1, 1], CALLS, 60000)):
            self.assertEqual(status, 0, output)
            self.assertIn(f"rank {rank} of 3 is right", output)

    def test_hosts_without_loopback_connect(self):
        for host in HOSTS:
            self.hosts.run(host, "ip", "link", "set", "lo", "down")
        self.check_calls([0, 1])

    def test_ranks_without_loopback_connect(self):
        self.hosts.run(HOSTS[0], "ip", "link", "set", "lo", "down")
        self.check_calls([0, 0])
        self.check_calls([0, 1, 0, 0, 1])

    def test_ranks_without_loopback_use_loopback_rendezvous(self):
        self.hosts.batch(HOSTS[0], "ip", ["link set lo down", "address del 127.0.0.1/8 dev lo"])
        self.check_calls([0, 0], server="127.0.0.1")

    def test_launcher_works_without_loopback(self):
        self.hosts.batch(HOSTS[0], "ip", ["link set lo down", "address del 127.0.0.1/8 dev lo"])
        done = self.run_tutti("-n", 6, CALLS, inside=self.hosts.inside(HOSTS[0]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 5 of 6 is right", done.stdout)

    def test_tcp_without_loopback_explains_the_error(self):
        self.hosts.run(HOSTS[0], "ip", "link", "set", "lo", "down")
        outputs = self.run_by_file([0, 0], CALLS, 60000, TUTTI_WIRES="tcp")
        self.assertTrue(any(status for status, _ in outputs), outputs)
        self.assertIn("the loopback interface lo, which is down (run ip link set lo up)",
                      "".join(output for _, output in outputs))

    def test_loopback_of_another_host_is_ignored(self):
        self.hosts.run(HOSTS[0], "ip", "link", "set", "eth0", "down")
        server = self.start_by_file(0, [0, 1], MEET, 120000)
        try:
            wait_until(Path(self.proc.name, "rendezvous").exists, "no file of rank 0")
            job = self.start_by_file(1, [0, 1], MEET, 3000)
            output = job.communicate(timeout=150)[0]
        finally:
            server.kill()
            server.communicate()
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("the rendezvous server has no address that another host can reach", output)
        self.assertNotIn("127.0.0.1", output)


class MembersAlike(TwoHosts):
    """Members of an elastic run. The lease is longer than the test's time limit: an unreachable
    member is never declared lost."""

    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.processes = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def start(self, host, *args, **more):
        """Starts a process on the host with this index; its output goes to the file .out of the
        result."""
        out = Path(self.folder.name, str(len(self.processes)))
        with open(out, "w", encoding="ascii") as file:
            process = subprocess.Popen(self.hosts.inside(HOSTS[host], *map(str, args)),
                                       stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                       env=environment(TUTTI_TOKEN=TOKEN, **more))
        process.out = out
        self.processes.append(process)
        return process

    def await_line(self, process, pattern):
        wait_until(lambda: re.search(pattern, process.out.read_text())
                   or process.poll() is not None, f"a line like {pattern}")
        self.assertRegex(process.out.read_text(), pattern)

    def coordinator(self, host=0):
        """The address on which it listens."""
        at = f"{ADDRESSES[host]}:{free_port()}"
        self.await_line(self.start(host, TUTTI, "coordinator", "--journal", "none", "--lease",
                                   120000, "--listen", at), "listening on")
        return at

    def members(self, hosts, at, **more):
        """One member on each host with these indices; they reduce together."""
        members = [self.start(host, MEMBER, at, 20000, len(hosts), TUTTI_LOG="info", **more)
                   for host in hosts]
        for member in members:
            self.await_line(member, f"members {len(hosts)} ms")
        return members

    def leave(self, members):
        for member in members:
            member.send_signal(signal.SIGTERM)
        for member in members:
            self.assertEqual(member.wait(60), 0, member.out.read_text())

    def test_members_on_identical_hosts_connect(self):
        self.look_alike()
        self.leave(self.members([0, 1], self.coordinator()))

    def test_equal_port_is_not_identity(self):
        self.look_alike()
        self.leave(self.members([0, 1], self.coordinator(), TUTTI_LISTEN=f":{free_port()}"))

    def test_members_on_identical_hosts_use_shm(self):
        self.look_alike()
        members = self.members([0, 1, 0, 1], self.coordinator())
        self.assertIn("4 ranks on 2 hosts", "".join(member.out.read_text() for member in members))
        self.leave(members)

    def test_members_without_proc_share_memory(self):
        self.cover_proc()
        self.leave(self.members([0, 0, 0], self.coordinator(), TUTTI_WIRES="shm"))

    def test_members_without_proc_connect_over_tcp(self):
        self.cover_proc()
        self.leave(self.members([0, 1, 1], self.coordinator()))

    def test_members_without_loopback_connect(self):
        self.hosts.run(HOSTS[0], "ip", "link", "set", "lo", "down")
        members = self.members([0, 0, 1], self.coordinator())
        members[1].kill()
        for member in members[::2]:
            self.await_line(member, "members 2 ms")
        self.leave(members[::2])

    def test_kill_on_identical_host_is_detected(self):
        self.look_alike()
        members = self.members([0, 1, 0, 1], self.coordinator())
        members[1].kill()
        for member in members[:1] + members[2:]:
            self.await_line(member, "members 3 ms")
        self.leave(members[:1] + members[2:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
