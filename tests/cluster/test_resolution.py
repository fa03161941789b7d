#!/usr/bin/env python3
"""Start-up with unresponsive DNS servers, on a host emulated by namespaces:

      [host a]  lo 127.0.0.53, .54, .55: name servers that receive every query and never reply

There getaddrinfo blocks for minutes, because /etc/resolv.conf sets the longest timeout. Deadlines
still hold, and a name that is added to /etc/hosts meanwhile is found. Skipped if namespaces are not
permitted."""

import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

from cluster import BUILD, MEET, TUTTI, ClusterTest, environment
from hosts import Hosts, HostsError

MEMBER = str(BUILD / "tests" / "cluster" / "prog_member")
SERVERS = ["127.0.0.53", "127.0.0.54", "127.0.0.55"]
FILES = {"/etc/resolv.conf": "".join(f"nameserver {server}\n" for server in SERVERS)
         + "options timeout:30 attempts:3\n",
         "/etc/nsswitch.conf": "hosts: files dns\n"}
SILENT = """
import select, socket, sys
sockets = [socket.socket(type=socket.SOCK_DGRAM) for _ in sys.argv[1:]]
for s, address in zip(sockets, sys.argv[1:]):
    s.bind((address, 53))
print("ready", flush=True)
while True:
    for s in select.select(sockets, [], [])[0]:
        s.recv(512)
        print("query", flush=True)
"""
TIMEOUT_MS = 6000
SOON_S = 60         # without a deadline it takes minutes: 3 servers, 30 s each, three times
PATIENCE_S = 200


class SilentNameServers(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.hosts = Hosts("hosta")
        try:
            cls.hosts.__enter__()
            cls.hosts.run("hosta", "ip", "link", "set", "lo", "up")
            for path, text in FILES.items():
                source = Path(cls.hosts.directory) / Path(path).name
                source.write_text(text)
                cls.hosts.run("hosta", "mount", "--bind", source, path)
        except (OSError, HostsError) as why:
            cls.hosts.__exit__()
            raise unittest.SkipTest(f"network namespaces cannot be made here: {why}")
        cls.addClassCleanup(cls.hosts.__exit__)

    def setUp(self):
        self.servers = subprocess.Popen(self.hosts.inside("hosta", sys.executable, "-c", SILENT,
                                                          *SERVERS), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, self.servers)
        self.assertEqual(self.read_lines(self.servers, 1), ["ready"])

    def end(self, process):
        process.kill()
        process.communicate()

    def start(self, *command, timeout_ms=TIMEOUT_MS, **more):
        process = subprocess.Popen(self.hosts.inside("hosta", *command), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True,
                                   env=environment(TUTTI_TIMEOUT_MS=str(timeout_ms), **more))
        self.addCleanup(self.end, process)
        return process

    def rank(self, rank, rendezvous, timeout_ms=TIMEOUT_MS):
        return self.start(MEET, timeout_ms=timeout_ms, TUTTI_RANK=str(rank), TUTTI_SIZE="2",
                          TUTTI_RENDEZVOUS=rendezvous)

    def finish(self, process):
        """Returns its status and output."""
        output = process.communicate(timeout=PATIENCE_S)[0]
        return process.returncode, output

    def test_start_up_ends_at_its_deadline(self):
        begin = time.monotonic()
        ranks = [self.rank(rank, "tcp://nowhere.example:17053") for rank in range(2)]
        publisher = self.rank(0, "etcd://nowhere.example:17056/x")
        member = self.start(MEMBER, "nowhere.example:17054", "100", "1", TUTTI_SECURITY="plain")
        coordinator = self.start(TUTTI, "coordinator", "--journal", "none", "--insecure",
                                 "--listen", "nowhere.example:17055")
        for rank, process in enumerate(ranks):
            status, output = self.finish(process)
            self.assertEqual(status, 1, output)
            self.assertRegex(output, rf'failed: meet: rank {rank}: TUTTI_RENDEZVOUS is '
                                     rf'"tcp://nowhere.example:17053": the lookup of the name '
                                     r'"nowhere.example" timed out after \d+\.\d s')
        status, output = self.finish(publisher)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, 'cannot publish the address of rank 0 in etcd, key "x/root": etcd '
                                 'at nowhere.example:17056 does not respond: cannot resolve its '
                                 'name: no answer before the deadline')
        status, output = self.finish(member)
        self.assertEqual(status, 3, output)
        self.assertRegex(output, r'TIMEOUT: .*"nowhere.example:17054".*: no answer before the '
                                 r'deadline')
        status, output = self.finish(coordinator)
        self.assertNotEqual(status, 0, output)
        self.assertRegex(output, r'"nowhere.example:17055".*: no answer before the deadline')
        self.assertLess(time.monotonic() - begin, SOON_S)

    def test_name_added_meanwhile_is_found(self):
        self.addCleanup(self.hosts.add_names, {})
        ranks = [self.rank(rank, "tcp://later.example:17053", timeout_ms=SOON_S * 1000)
                 for rank in range(2)]
        seen = self.read_lines(self.servers, 2)     # a query is pending, and will not be answered
        self.assertEqual(seen, ["query"] * 2)
        self.hosts.add_names({"later.example": "127.0.0.1"})
        for rank, process in enumerate(ranks):
            status, output = self.finish(process)
            self.assertEqual(status, 0, output)
            self.assertTrue(re.search(rf"rank {rank} of 2 met \(tutti\)", output), output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
