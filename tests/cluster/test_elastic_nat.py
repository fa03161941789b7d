#!/usr/bin/env python3
"""Members of an elastic run in different networks, emulated by network namespaces. Each member
checks every number (prog_member.c).

Two sites, each behind a network address translation that forwards some ports; both use the same
inner addresses:

    [house a]  192.168.77.2 --- 192.168.77.1 [nat a] 203.0.113.1 ---+
                                                                    |
    [house b]  192.168.77.3 --- 192.168.77.1 [nat b] 203.0.113.2 ---+    coordinator on nat b

And a host with both address families, and a host with only IPv6:

    [both]  10.213.8.1, fd00:213:8::1 ------ fd00:213:8::2  [six]

Skipped if namespaces are not permitted or cannot translate addresses."""

import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cluster import BUILD, TUTTI, environment, wait_until
from hosts import Hosts, HostsError

MEMBER = str(BUILD / "tests" / "cluster" / "prog_member")
NAT = Path(__file__).resolve().parent.parent / "support" / "nat.py"
TOKEN = "6f1d2c48f0b04c0c9d9f"
HOUSES = {"a": ("203.0.113.1", "192.168.77.2"), "b": ("203.0.113.2", "192.168.77.3")}


def connect_houses(hosts):
    """Creates the first network."""
    for house, (outside, inside) in HOUSES.items():
        hosts.batch(f"nat{house}", "ip", ["link set lo up",
                                          f"link add in0 type veth peer name eth0 netns "
                                          f"{hosts.network_of(f'house{house}')}",
                                          "address add 192.168.77.1/24 dev in0", "link set in0 up"])
        hosts.batch(f"house{house}", "ip", ["link set lo up", f"address add {inside}/24 dev eth0",
                                            "link set eth0 up",
                                            "route add default via 192.168.77.1"])
    hosts.batch("nata", "ip", [f"link add out0 type veth peer name out0 netns "
                               f"{hosts.network_of('natb')}"])
    for house, (outside, inside) in HOUSES.items():
        hosts.batch(f"nat{house}", "ip", [f"address add {outside}/24 dev out0", "link set out0 up"])
        hosts.run(f"nat{house}", sys.executable, "-I", NAT, "out0", inside, "29500-29501",
                  "40000-40015")


def connect_families(hosts):
    """Creates the second network."""
    hosts.batch("both", "ip", ["link set lo up", f"link add eth0 type veth peer name eth0 netns "
                                                 f"{hosts.network_of('six')}",
                               "address add 10.213.8.1/24 dev eth0",
                               "address add fd00:213:8::1/64 dev eth0 nodad", "link set eth0 up"])
    hosts.batch("six", "ip", ["link set lo up", "address add fd00:213:8::2/64 dev eth0 nodad",
                              "link set eth0 up"])


class Process:
    """A process on a host, with its output in a file."""

    def __init__(self, hosts, host, folder, *args, **more):
        self.out = Path(folder.name, f"{host}.{len(list(Path(folder.name).iterdir()))}")
        with open(self.out, "w", encoding="ascii") as out:
            self.process = subprocess.Popen(hosts.inside(host, *args), stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out,
                                            env=environment(TUTTI_TOKEN=TOKEN, **more))

    def text(self):
        return self.out.read_text()

    def await_line(self, pattern):
        wait_until(lambda: re.search(pattern, self.text()) or self.process.poll() is not None,
                   f"a line like {pattern}")
        if not re.search(pattern, self.text()):
            raise AssertionError(f"no line like {pattern}: {self.text()}")


class Far(unittest.TestCase):
    def begin(self, connect, *names):
        self.hosts = Hosts(*names)
        try:
            self.hosts.__enter__()
            self.addCleanup(self.hosts.__exit__)
            connect(self.hosts)
        except (OSError, HostsError) as why:
            self.skipTest(f"such a network cannot be made here: {why}")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.processes = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.processes:
            process.process.kill()
            process.process.wait()

    def start(self, host, *args, **more):
        self.processes.append(Process(self.hosts, host, self.folder, *args, **more))
        return self.processes[-1]

    def coordinator(self, host, *listen):
        at = [word for address in listen for word in ("--listen", address)]
        self.start(host, TUTTI, "coordinator", "--journal", "none", "--lease", 20000,
                   *at).await_line("listening on")

    def leave(self, members):
        for member in members:
            member.process.send_signal(signal.SIGTERM)
        for member in members:
            self.assertEqual(member.process.wait(60), 0, member.text())

    def in_house(self, house, number, coordinator, least):
        """A member that others reach at forwarded ports."""
        first = 40000 + 8 * number
        return self.start(f"house{house}", MEMBER, coordinator, 20000, least,
                          TUTTI_LISTEN=f":{29500 + number}",
                          TUTTI_ANNOUNCE=f"{HOUSES[house][0]}:{29500 + number}",
                          TUTTI_DATA_PORTS=f"{first}-{first + 7}")

    def test_members_behind_nat_connect(self):
        self.begin(connect_houses, "housea", "nata", "houseb", "natb")
        self.coordinator("natb", "203.0.113.2:29401")
        members = [self.in_house(house, 0, "203.0.113.2:29401", 2) for house in HOUSES]
        for member in members:
            member.await_line("members 2 ms")
        # a neighbour of the first, but not of the second
        members.append(self.in_house("a", 1, "203.0.113.2:29401", 1))
        for member in members:
            member.await_line("members 3 ms")
        self.leave(members)

    def test_dual_stack_members_share_a_run(self):
        self.begin(connect_families, "both", "six")
        self.coordinator("both", ":29401")
        members = [self.start(*args, 3) for args in (("both", MEMBER, "10.213.8.1:29401", 20000),
                                                     ("both", MEMBER, "[fd00:213:8::1]:29401",
                                                      20000),
                                                     ("six", MEMBER,
                                                      "10.213.8.1:29401,[fd00:213:8::1]:29401",
                                                      20000))]
        for member in members:
            member.await_line("members 3 ms")
        self.leave(members)


if __name__ == "__main__":
    unittest.main(verbosity=2)
