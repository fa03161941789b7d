#!/usr/bin/env python3
"""Several NICs per host. Two hosts, emulated by network namespaces, connected by rails of one
network each; rail2 is not connected:

      [host a]  rail0 10.214.0.1 ---------------- rail0 10.214.0.2  [host b]
                rail1 10.214.1.1 ---------------- rail1 10.214.1.2
                rail2 10.214.2.1 --|          |-- rail2 10.214.2.2
                far0  10.215.1.1 ---------------- far0  10.216.1.1      routed: no common network
                far1  10.215.2.1 ---------------- far1  10.216.2.1

Bytes per rail are the kernel's counters. Skipped if namespaces are not permitted."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from cluster import CALLS, TUTTI, ClusterTest, environment
from hosts import Hosts, HostsError

HOSTS = ["hosta", "hostb"]
HELLO = 200000      # maximum bytes of links and start-up on a rail without other traffic

# A machine of two sockets with one processor each: rail1 is attached to the first, rail0 to the
# second.
SETS = 'cpuset="0x{0:x}" complete_cpuset="0x{0:x}" nodeset="0x{0:x}" complete_nodeset="0x{0:x}"'


def machine():
    def package(i, nic):
        s, n = SETS.format(1 << i), 10 * (i + 1)
        return (f'<object type="Package" os_index="{i}" {s} gp_index="{n}">'
                f'<object type="NUMANode" os_index="{i}" {s} gp_index="{n + 1}" '
                f'local_memory="1024"/>'
                f'<object type="PU" os_index="{i}" {s} gp_index="{n + 2}"/>'
                f'<object type="OSDev" gp_index="{n + 3}" name="{nic}" osdev_type="2"/></object>')
    both = SETS.format(3) + ' allowed_cpuset="0x3" allowed_nodeset="0x3"'
    return ('<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE topology SYSTEM '
            '"hwloc2.dtd"><topology version="2.0">'
            f'<object type="Machine" os_index="0" {both} '
            f'gp_index="1">{package(0, "rail1")}{package(1, "rail0")}</object></topology>')


def connect(hosts):
    """Creates the network above."""
    there = hosts.network_of(HOSTS[1])
    hosts.batch(HOSTS[0], "ip", [f"link add {name} type veth peer name {name} netns {there}"
                                 for name in ("rail0", "rail1", "far0", "far1")])
    for i, host in enumerate(HOSTS):
        lines = ["link set lo up", "link add rail2 type veth peer name nowhere",
                 "link set nowhere up"]
        for k in range(3):
            lines += [f"address add 10.214.{k}.{i + 1}/24 dev rail{k}", f"link set rail{k} up"]
        for k in range(2):
            lines += [f"address add 10.{215 + i}.{k + 1}.1/24 dev far{k}", f"link set far{k} up",
                      f"route add 10.{216 - i}.{k + 1}.0/24 dev far{k}"]
        hosts.batch(host, "ip", lines)


class Rails(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts(*HOSTS)
        try:
            cls.hosts.__enter__()
            connect(cls.hosts)
        except (OSError, HostsError) as why:
            cls.hosts.__exit__()
            raise unittest.SkipTest(f"network namespaces cannot be made here: {why}")
        cls.tmp = tempfile.TemporaryDirectory()
        cls.machine = os.path.join(cls.tmp.name, "machine.xml")
        Path(cls.machine).write_text(machine())

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()
        cls.hosts.__exit__()

    def counted(self, host):
        """Bytes that each interface of a host has sent and received."""
        links = json.loads(self.hosts.run(HOSTS[host], "ip", "-j", "-s", "link"))
        return {link["ifname"]: link["stats64"]["tx"]["bytes"] + link["stats64"]["rx"]["bytes"]
                for link in links}

    def calls(self, each, interfaces, pin=False, **more):
        """Runs and checks every collective, with `each` ranks per host. Returns the bytes on host
        a's interfaces, and the ranks' logs."""
        before = self.counted(0)
        jobs = []
        for rank in range(2 * each):
            command = self.hosts.inside(HOSTS[rank // each],
                                        *(["taskset", "-c", str(rank % each)] if pin else []),
                                        CALLS)
            env = environment(TUTTI_RANK=str(rank), TUTTI_SIZE=str(2 * each),
                              TUTTI_TIMEOUT_MS="100000", TUTTI_LOG="info",
                              TUTTI_INTERFACES=interfaces,
                              TUTTI_RENDEZVOUS=f"tcp://{self.server(interfaces)}:18997", **more)
            jobs.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT,
                                         text=True, env=env))
        told = [job.communicate(timeout=200)[0] for job in jobs]
        for job, output in zip(jobs, told):
            self.assertEqual(job.returncode, 0, output[-4000:])
        after = self.counted(0)
        return {name: after[name] - before[name] for name in after}, told

    def server(self, interfaces):
        return "10.215.1.1" if "far" in interfaces else "10.214.0.1"

    def test_lone_rank_stripes_over_all_rails(self):
        carried, told = self.calls(1, "rail0,rail1")
        total = carried["rail0"] + carried["rail1"]
        self.assertGreater(carried["rail0"], total / 4, carried)
        self.assertGreater(carried["rail1"], total / 4, carried)
        self.assertIn("2 ranks on 2 hosts, 2 rails each", told[0])

    def test_each_rank_uses_one_rail(self):
        carried, told = self.calls(2, "rail0,rail1")
        total = carried["rail0"] + carried["rail1"]
        self.assertGreater(min(carried["rail0"], carried["rail1"]), total / 5, carried)
        for rank, output in enumerate(told):
            self.assertIn(f"lanes use rail {rank % 2}, rail{rank % 2}", output)

    def test_ranks_use_rails_of_their_socket(self):
        if os.cpu_count() < 2:
            self.skipTest("two processors are needed to bind two ranks")
        _, told = self.calls(2, "rail0,rail1", pin=True, HWLOC_XMLFILE=self.machine)
        for rank, output in enumerate(told):
            self.assertIn(f"lanes use rail {1 - rank % 2}, rail{1 - rank % 2}", output)

    def test_interface_rule_limits_the_rails(self):
        carried, told = self.calls(2, "=rail1")
        self.assertGreater(carried["rail1"], 1000000)
        # includes the rendezvous
        self.assertLess(carried["rail0"], HELLO + carried["rail1"] / 10, carried)
        self.assertIn("4 ranks on 2 hosts, 1 rail each", told[0])

    def test_unconnected_rail_is_avoided(self):
        carried, told = self.calls(1, "rail")
        self.assertIn("2 ranks on 2 hosts, 3 rails each", told[0])
        self.assertLess(carried["rail2"], HELLO)
        self.assertGreater(carried["rail0"] + carried["rail1"], 1000000)

    def test_unrelated_networks_pair_rails_by_number(self):
        carried, _ = self.calls(1, "far")
        total = carried["far0"] + carried["far1"]
        self.assertGreater(min(carried["far0"], carried["far1"]), total / 4, carried)

    def test_topo_prints_rails_of_a_job(self):
        done = self.run_tutti("-n", 4, "-o", "plain", "--hosts", f"localhost:2,{HOSTS[1]}:2",
                              "--rsh", self.hosts.on,
                              "--timeout", 30, "--interfaces", "rail0,rail1", TUTTI, "topo",
                              "--json",
                              inside=self.hosts.inside(HOSTS[0]))
        self.assertEqual(done.returncode, 0, done.stderr)
        ranks = json.loads(done.stdout)["ranks"]
        self.assertEqual([rank["host_number"] for rank in ranks], [0, 0, 1, 1])
        self.assertEqual([rank["rail"] for rank in ranks], ["rail0", "rail1"] * 2)
        self.assertEqual({bool(re.search("in turn|nearest", rank["why"])) for rank in ranks},
                         {True})


if __name__ == "__main__":
    unittest.main(verbosity=2)
