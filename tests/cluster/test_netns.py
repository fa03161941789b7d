#!/usr/bin/env python3
"""Start-up and collectives between hosts, emulated by two network namespaces and one link; the
launcher runs on the first:

      [host a]  eth0 10.213.7.1 ------------------ eth0 10.213.7.2  [host b]
                     fd00:213:7::1                      fd00:213:7::2
                eth1 10.213.8.1 - - usually down - - - eth1 10.213.8.2
                brx0 172.31.9.1                    brx0 172.31.9.1    the same on both, not connected

Skipped if namespaces are not permitted."""

import json
import re
import subprocess
import tempfile
import unittest

from cluster import CALLS, MEET, PATIENCE_S, SANITIZED, TUTTI, VANISH, ClusterTest, environment, marked, wait_until
from hosts import Hosts, HostsError
from share import of_turn

HOSTS = ["hosta", "hostb"]


def connect(hosts):
    """Creates the network above."""
    for i, host in enumerate(HOSTS):
        lines = ["link set lo up", f"address add 10.213.7.{i + 1}/24 dev eth0",
                 f"address add fd00:213:7::{i + 1}/64 dev eth0 nodad",
                 "link set eth0 up",
                 "link add brx0 type veth peer name brx1",      # not connected, but up
                 "address add 172.31.9.1/24 dev brx0", "link set brx0 up", "link set brx1 up"]
        for link in ("eth0", "eth1") if i == 0 else ():
            lines.insert(0, f"link add {link} type veth peer name {link} netns "
                            f"{hosts.network_of(HOSTS[1])}")
        hosts.batch(host, "ip", lines)


class Namespaces(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(*HOSTS)
        try:
            cls.hosts.__enter__()
            connect(cls.hosts)
        except (OSError, HostsError) as why:
            cls.hosts.__exit__()
            raise unittest.SkipTest(f"network namespaces cannot be made here: {why}")
        cls.inside = cls.hosts.inside(HOSTS[0])
        cls.rsh = str(cls.hosts.on)

    @classmethod
    def tearDownClass(cls):
        cls.hosts.__exit__()

    def ip(self, host, *args):
        self.hosts.run(host, "ip", *args)

    def test_launcher_connects_two_hosts(self):
        for rule in ("", "eth", "=eth0", "^brx,lo"):
            with self.subTest(rule=rule):
                rules = ["--interfaces", rule] if rule else []
                done = self.run_tutti("-n", 5, "--hosts", f"localhost:3,{HOSTS[1]}:2", "--rsh",
                                      self.rsh, "--timeout", 20,
                                      *rules, MEET, "twice", inside=self.inside)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(done.stdout.count("of 5 met"), 10)

    def claim_speed(self, mbit, *what_is_below):
        """Makes /sys report that speed for eth0 of host a, until the test ends."""
        address = json.loads(self.hosts.run(HOSTS[0], "ip", "-j", "link", "show",
                                            "eth0"))[0]["address"]
        there = "/sys/class/net/eth0"
        self.hosts.run(HOSTS[0], "mount", "-t", "tmpfs", "none", "/sys/class/net")
        self.addCleanup(self.hosts.run, HOSTS[0], "umount", "/sys/class/net")
        self.hosts.run(HOSTS[0], "sh", "-c", f"mkdir {there}; echo {address} > {there}/address; "
                                             f"echo {mbit} > {there}/speed")
        for name in what_is_below:
            self.hosts.run(HOSTS[0], "mkdir", f"{there}/{name}")

    def choice(self, **variables):
        """The basis of the selection by the ranks of both hosts."""
        exports = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
        done = self.run_tutti("-n", 4, "-o", "plain", "--hosts", f"localhost:2,{HOSTS[1]}:2",
                              "--rsh", self.rsh, "--interfaces", "=eth0",
                              *exports, TUTTI, "plan", "why", "allreduce", "1M", "--json",
                              inside=self.inside)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_card_speed_is_the_default_rate(self):
        self.claim_speed(200, "device")
        slow = self.choice()
        self.assertEqual(slow["rail_byte_ns"], 40)
        # 1 MiB, all of which must leave each host at 200 Mbit/s
        for candidate in slow["candidates"]:
            self.assertGreaterEqual(candidate.get("simulated_us", 1e9), 40e3, candidate)
            self.assertGreaterEqual(candidate["formula_us"], 40e3, candidate)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as told:
            told.write('{"links": {"rack": {"gbit_s": 8}}}')
            told.flush()
            self.assertEqual(self.choice(TUTTI_TOPO=told.name)["rail_byte_ns"], 1)
        self.assertNotEqual(self.choice(TUTTI_TOPO_MEASURE="1")["rail_byte_ns"], 40)

    def test_implausible_card_speed_is_ignored(self):
        self.claim_speed(200)
        self.assertEqual(self.choice()["rail_byte_ns"], 0)

    def test_idle_rank_takes_64_bytes(self):
        """The memory of eight additional ranks. The printed value is rounded to a twentieth of a
        byte per rank."""
        total = []
        for each in (2, 6):
            done = self.run_tutti("-n", 2 * each, "--hosts", f"localhost:{each},{HOSTS[1]}:{each}",
                                  "--rsh", self.rsh,
                                  "--interfaces", "=eth0", TUTTI, "info", "--memory",
                                  inside=self.inside)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            total.append(2 * each * float(re.search(r"each idle rank uses ([0-9.]+) bytes",
                                                    done.stdout)[1]))
        self.assertLessEqual(total[1] - total[0], 8 * 64 + 1)
        self.assertGreater(total[1], total[0])

    def test_rule_without_interface_is_reported(self):
        done = self.run_tutti("-n", 2, "--hosts", f"localhost,{HOSTS[1]}", "--rsh", self.rsh, "-x",
                              "TUTTI_INTERFACES==eth7",
                              MEET, inside=self.inside)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('"=eth7"', done.stdout + done.stderr)

    def test_manual_start_connects_two_hosts(self):
        jobs = [subprocess.Popen(self.hosts.inside(HOSTS[r % 2], MEET), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True,
                                 env=environment(TUTTI_RANK=str(r), TUTTI_SIZE="4",
                                                 TUTTI_TIMEOUT_MS="20000",
                                                 TUTTI_RENDEZVOUS="tcp://10.213.7.1:18999"))
                for r in range(4)]
        for rank, job in enumerate(jobs):
            output = job.communicate(timeout=60)[0]
            self.assertEqual(job.returncode, 0, output)
            self.assertIn(f"rank {rank} of 4 met", output)

    def test_vanished_host_is_detected_without_deadline(self):
        """With a shorter timeout than the control overlay's (15 s), so that the link itself detects
        the failure, as its message shows."""
        for i, how in enumerate(([], ["busy"])):
            with self.subTest(how=how):
                jobs = [subprocess.Popen(self.hosts.inside(HOSTS[r], VANISH, *how),
                                         stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                         env=environment(TUTTI_RANK=str(r), TUTTI_SIZE="2",
                                                         TUTTI_TIMEOUT_MS="-1",
                                                         TUTTI_TCP_SILENCE_S="4",
                                                         TUTTI_RENDEZVOUS=f"tcp://10.213.7.1:{18990 + i}")) for r in range(2)]
                for job in jobs:
                    self.assertEqual(self.read_lines(job, 1), ["ready"])
                self.ip(HOSTS[1], "addr", "del", "10.213.7.2/24", "dev", "eth0")
                try:
                    output = jobs[0].communicate(timeout=60)[0]
                    jobs[1].communicate(timeout=60)
                finally:
                    self.ip(HOSTS[1], "addr", "add", "10.213.7.2/24", "dev", "eth0")
                self.assertIn("PEER_LOST: rank 1 was lost", output)
                self.assertNotIn("its process ended", output)       # so the overlay reported it

    def received(self, family):
        """Bytes that host b has received over IPv4 or IPv6 so far, without its loopback."""
        name, at = {4: ("/proc/net/netstat", "IpExt"),
                    6: ("/proc/net/snmp6", "Ip6InOctets")}[family]
        text = self.hosts.run(HOSTS[1], "cat", name)
        if family == 6:
            return int(text.split("Ip6InOctets", 1)[1].split()[0])
        heads, values = [line.split() for line in text.splitlines() if line.startswith(at)]
        return int(values[heads.index("InOctets")])

    def calls_between_hosts(self, server, ports, **more):
        """Three ranks on host a, two on host b; every collective, short and long, every byte
        checked."""
        jobs = [subprocess.Popen(self.hosts.inside(HOSTS[r >= 3], CALLS), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True,
                                 env=environment(TUTTI_RANK=str(r), TUTTI_SIZE="5",
                                                 TUTTI_TIMEOUT_MS="60000",
                                                 TUTTI_RENDEZVOUS=f"tcp://{server}:{ports}",
                                                 **more)) for r in range(5)]
        for rank, job in enumerate(jobs):
            output = job.communicate(timeout=150)[0]
            self.assertEqual(job.returncode, 0, output)
            self.assertIn(f"rank {rank} of 5 is right", output)

    def test_collectives_between_hosts_over_ipv4(self):
        for lanes in (4,) if SANITIZED else of_turn((4, 1)):
            with self.subTest(lanes=lanes):
                before = self.received(4)
                self.calls_between_hosts("10.213.7.1", 18960 + lanes, TUTTI_LANES=str(lanes))
                self.assertGreater(self.received(4) - before, 1 << 20)

    def test_collectives_between_hosts_over_ipv6(self):
        for i, host in enumerate(HOSTS):    # now there is no other path
            self.ip(host, "addr", "del", f"10.213.7.{i + 1}/24", "dev", "eth0")
        try:
            for lanes in (4,) if SANITIZED else of_turn((1, 4)):
                with self.subTest(lanes=lanes):
                    before = self.received(6)
                    self.calls_between_hosts("[fd00:213:7::1]", 18970 + lanes,
                                             TUTTI_LANES=str(lanes))
                    self.assertGreater(self.received(6) - before, 1 << 20)
        finally:
            for i, host in enumerate(HOSTS):
                self.ip(host, "addr", "add", f"10.213.7.{i + 1}/24", "dev", "eth0")

    def second_link_up(self):
        for i, host in enumerate(HOSTS):
            self.hosts.batch(host, "ip", [f"address add 10.213.8.{i + 1}/24 dev eth1",
                                          "link set eth1 up"])

    def second_link_down(self):
        for host in HOSTS:
            self.hosts.batch(host, "ip", ["link set eth1 down", "address flush dev eth1"])

    def carried(self, rule, port):
        """Bytes that host b receives over each of the two links while one rank per host sums 4 MiB;
        the rendezvous uses the first. A rule of None is not set."""
        def now():
            return [int(self.hosts.run(HOSTS[1], "cat",
                                       f"/sys/class/net/{link}/statistics/rx_bytes"))
                    for link in ("eth0", "eth1")]

        before = now()
        rules = {} if rule is None else {"TUTTI_INTERFACES": rule}
        sums = [subprocess.Popen(self.hosts.inside(HOSTS[r], TUTTI, "perf", "allreduce", "--min",
                                                   "4M", "--max", "4M", "--iters", "1", "--check"),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True,
                                 env=environment(TUTTI_RANK=str(r), TUTTI_SIZE="2",
                                                 TUTTI_RENDEZVOUS=f"tcp://10.213.7.1:{port}",
                                                 TUTTI_TIMEOUT_MS="60000", **rules))
                for r in range(2)]
        for job in sums:
            output = job.communicate(timeout=150)[0]
            self.assertEqual(job.returncode, 0, output)
        return [after - bytes_before for after, bytes_before in zip(now(), before)]

    def test_data_uses_both_links_by_default(self):
        """Both are equally fast, and a rank that is alone on its host uses all such links."""
        self.second_link_up()
        try:
            carried = self.carried(None, 18988)
            self.assertGreater(sum(carried), 4 << 20)
            for link in range(2):
                self.assertGreater(carried[link], 1 << 18)
        finally:
            self.second_link_down()

    def test_rule_selects_the_data_link(self):
        self.second_link_up()
        try:
            for port, (rule, link) in enumerate([*of_turn((("=eth1", 1), ("=eth0", 0))),
                                                 *of_turn((("^eth0,lo,brx", 1), ("^eth1", 0)))]):
                with self.subTest(rule=rule):
                    carried = self.carried(rule, 18980 + port)
                    self.assertGreater(carried[link], 4 << 20)
                    self.assertLess(carried[1 - link], 1 << 18)
        finally:
            self.second_link_down()

    def test_remote_ranks_die_with_the_launcher(self):
        env = environment()
        job = self.start_tutti("-n", 2, "--hosts", f"localhost,{HOSTS[1]}", "--rsh", self.rsh, MEET,
                               "stay", env=env,
                               inside=self.inside)
        self.read_lines(job, 2)
        job.kill()
        job.communicate(timeout=PATIENCE_S)
        wait_until(lambda: not marked(env), "orphans")


if __name__ == "__main__":
    unittest.main(verbosity=2)
