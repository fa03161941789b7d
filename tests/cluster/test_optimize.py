#!/usr/bin/env python3
"""The order of the ring, measured and adopted by real processes on hosts at large distances
(tests/support/wan.py). A ring of fast links is hidden among slow ones, and the members join in
another order; afterwards their ranks must follow that ring. The test does not require a fast
machine: measurements are repeated. Skipped if namespaces or TUN devices are not permitted."""

import functools
import json
import subprocess
import unittest

from cluster import BUILD, PATIENCE_S, TUTTI, ClusterTest, environment

import wan          # after cluster, which sets its path
from hosts import HostsError

MEMBER = str(BUILD / "tests" / "cluster" / "prog_optimize")
FAST_MBIT, SLOW_MBIT = 60, 3
# The coordinator's status, requested on its host.
ASK = "import urllib.request, sys; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


def planted(order, roles=1):
    """A matrix in which host order[k] sends fast to order[k + 1], and slowly to all others. With
    roles these are groups of so many hosts: each sends fast to the host of its role, and to its
    group."""
    n = len(order) * roles
    rates = [[0 if a == b else FAST_MBIT if a // roles == b // roles else SLOW_MBIT
              for b in range(n)] for a in range(n)]
    for k, a in enumerate(order):
        for role in range(roles):
            rates[a * roles + role][order[(k + 1) % len(order)] * roles + role] = FAST_MBIT
    return {"hosts": [{"name": f"town{h}"} for h in range(n)], "delay_ms": 3, "rate_mbit": rates,
            "queue_ms": 100}


@functools.cache
def why_not():
    """Tries it, once."""
    why = wan.why_not()
    if why:
        return why
    try:
        with wan.Wan(planted([0, 1])):
            return None
    except (OSError, HostsError) as error:
        return str(error)


class Optimize(ClusterTest):
    def setUp(self):
        if why_not():
            self.skipTest(f"hosts that are far from each other cannot be made here: {why_not()}")

    def start(self, net, host, *argv):
        process = subprocess.Popen(net.inside(host, *map(str, argv)), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_with(self, order, ring, how, roles):
        """Runs members on as many hosts, joined in the order of the hosts: member h + 1 is on host
        h. ring: the expected order of hosts. Returns the final output of each, and the links shown
        by the coordinator."""
        net = wan.Wan(planted(order, roles))
        net.__enter__()
        self.addCleanup(net.__exit__)
        coordinator = self.start(net, 0, TUTTI, "coordinator", "--journal", "none", "--insecure",
                                 "--lease", 20000,
                                 "--listen", f"{net.address(0)}:0", "--http", "127.0.0.1:0")
        listens = [line.split()[-1] for line in self.read_lines(coordinator, 2)]
        members = []
        for host in range(len(ring)):
            members.append(self.start(net, host, MEMBER, listens[0], how, roles, host,
                                      *(h + 1 for h in ring)))
            self.assertEqual(self.read_lines(members[-1], 1)[0], f"joined {host + 1}")
        said = [member.communicate(timeout=2 * PATIENCE_S) for member in members]
        for member, (_, errors) in zip(members, said):
            self.assertEqual(member.returncode, 0, errors)
        shown = json.loads(net.run(0, "python3", "-c", ASK, f"{listens[1]}status.json"))
        return [out.split("\n") for out, _ in said], shown["links"]

    def check(self, order, how, roles=1):
        at = order.index(0)
        first = order[at:] + order[:at]     # rank 0 keeps its rank
        ring = [group * roles + role for group in first for role in range(roles)]
        said, links = self.run_with(order, ring, how, roles)
        for lines in said:
            self.assertEqual(lines[:2], [f"order {' '.join(str(host + 1) for host in ring)}",
                                         "right"])
        # the first of each group
        self.assertEqual([links["ids"][i] for i in links["order"]],
                         [host + 1 for host in ring[::roles]])
        self.assertFalse(links["waits"])
        self.assertLess(links["now_s"], links["was_s"])
        for a, row in enumerate(links["latency_s"]):
            for b, latency in enumerate(row):
                if a != b:
                    self.assertGreaterEqual(latency, 0.003)     # the relay never delivers early

    def test_hidden_ring_is_measured_and_adopted(self):
        self.check([0, 3, 1, 4, 2], "wait")

    def test_background_optimization_is_adopted_together(self):
        self.check([0, 2, 1, 3], "background")

    def test_replica_groups_are_reordered_as_units(self):
        self.check([0, 2, 1], "wait", roles=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
