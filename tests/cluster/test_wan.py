#!/usr/bin/env python3
"""Hosts at large distances (tests/support/wan.py): latencies, rates, losses and counters of the
relay, and that it leaves nothing behind. The tests do not require a fast machine: they check only
the relay's own clock and counters, and that nothing arrives too early. Skipped if namespaces or TUN
devices are not permitted."""

import functools
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from cluster import BUILD, PATIENCE_S, TUTTI, ClusterTest, environment, marked, wait_until

import wan          # after cluster, which sets its path
from hosts import HostsError

MEMBER = str(BUILD / "tests" / "cluster" / "prog_member")
DELAYS_MS = [[0, 20, 5], [35, 0, 0.5], [7.5, 1, 0]]
PORT = 18970
COUNT = 1 << 20         # numbers of 8 bytes, for which lanes open

# Returns each datagram to its sender.
ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
print("here", flush=True)
while True:
    data, who = s.recvfrom(2000)
    s.sendto(data, who)
"""
# The shortest of some round trips, in ms; a missing datagram is sent once more.
ASK = """
import socket, sys, time
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.connect((sys.argv[1], int(sys.argv[2])))
s.settimeout(5)
best = None
for i in range(8):
    began = time.monotonic()
    s.send(b"%d" % i)
    while s.recv(100) != b"%d" % i: pass
    took = (time.monotonic() - began) * 1e3
    best = took if best is None else min(best, took)
print(best)
"""
# Sends numbered datagrams to an address: count, size, and interval.
SEND = """
import socket, sys, time
address, port, n, size, gap = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(n):
    s.sendto(b"%08d" % i + bytes(size - 8), (address, port))
    if gap: time.sleep(gap)
"""
# Reads the expected number of datagrams from standard input; prints their numbers, and those of all
# others.
KEEP = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)       # SO_RCVBUFFORCE: nothing is lost here
s.bind((sys.argv[1], int(sys.argv[2])))
print("here", flush=True)
n = int(sys.stdin.read() or 0)
s.settimeout(30)
for i in range(n): print(int(s.recv(2000)[:8]))
s.setblocking(False)
try:
    while True: print(int(s.recv(2000)[:8]))
except BlockingIOError: pass
"""
# Prints the hash of all data received over one connection, and of all data sent.
TAKE = """
import hashlib, socket, sys
s = socket.create_server((sys.argv[1], int(sys.argv[2])), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("here", flush=True)
c, h = s.accept()[0], hashlib.sha256()
while data := c.recv(1 << 16): h.update(data)
print(h.hexdigest())
"""
GIVE = """
import random, socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
c.sendall(random.Random(int(sys.argv[3])).randbytes(int(sys.argv[4])))
"""
# Creates a network, starts an endless process on each host, prints its state, and waits to be
# killed.
OWNER = f"""
import json, subprocess, sys
sys.path.insert(0, {str(Path(wan.__file__).parent)!r})
import wan
with wan.Wan({{"hosts": [{{"name": "a"}}, {{"name": "b"}}]}}) as net:
    for host in range(2):
        subprocess.Popen(net.inside(host, "sleep", "1000"), start_new_session=True,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(json.dumps({{"directory": str(net.hosts.directory), "relay": net._relay.pid}}), flush=True)
    sys.stdin.read()
"""


def matrix(n=3, **more):
    return {"hosts": [{"name": f"town{h}"} for h in range(n)], **more}


@functools.cache
def why_not():
    """Tries it, once."""
    why = wan.why_not()
    if why:
        return why
    try:
        with wan.Wan(matrix(2)):
            return None
    except (OSError, HostsError) as error:
        return str(error)


class WanTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        if why_not():
            raise unittest.SkipTest(f"hosts that are far from each other cannot be made here: "
                                    f"{why_not()}")

    def net(self, *args, **more):
        net = wan.Wan(*args, **more)
        net.__enter__()
        self.addCleanup(net.__exit__)
        return net

    def started(self, net, host, script, *args):
        """Starts a script on a host, and waits until it is ready."""
        process = subprocess.Popen(net.inside(host, sys.executable, "-c", script, *args),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.read_lines(process, 1)
        return process


class Packets(WanTest):
    def test_nothing_arrives_before_its_time(self):
        net = self.net(matrix(delay_ms=DELAYS_MS))
        for address in (net.address, net.address6):
            for target in (1, 2):
                self.started(net, target, ECHO, address(target), PORT)
            for source, target in ((0, 1), (0, 2), (1, 2)):
                with self.subTest(source=source, target=target, address=address(target)):
                    best_ms = float(net.run(source, sys.executable, "-c", ASK, address(target),
                                            PORT))
                    self.assertGreaterEqual(best_ms, DELAYS_MS[source][target]
                                            + DELAYS_MS[target][source])

    def test_a_delay_can_be_changed(self):
        net = self.net(matrix(2))
        self.started(net, 1, ECHO, net.address(1), PORT)
        net.change(0, 1, delay_ms=250)
        self.assertGreaterEqual(float(net.run(0, sys.executable, "-c", ASK, net.address(1), PORT)),
                                250)

    def test_lossy_lines_keep_bytes_unchanged(self):
        nbytes = 3 << 20
        net = self.net(matrix(2, delay_ms=2, loss=0.01, rate_mbit=60, queue_bytes=50000, seed=5))
        for seed, address in ((1, net.address(1)), (2, net.address6(1))):
            before = net.stats()["pairs"][0][1]
            taker = self.started(net, 1, TAKE, address, PORT)
            net.run(0, sys.executable, "-c", GIVE, address, PORT, seed, nbytes)
            self.assertEqual(self.read_lines(taker, 1)[0],
                             hashlib.sha256(random.Random(seed).randbytes(nbytes)).hexdigest())
            after = net.stats()["pairs"][0][1]
            self.assertGreater(after["arrived_bytes"] - before["arrived_bytes"], nbytes)
            self.assertGreater(after["lost"], before["lost"])
            self.assertGreater(after["segments"] - before["segments"],
                               after["packets"] - before["packets"], "no packet was a long one")

    def test_kernel_segments_packets_if_requested(self):
        net = self.net(matrix(2), cuts=True)
        taker = self.started(net, 1, TAKE, net.address(1), PORT)
        net.run(0, sys.executable, "-c", GIVE, net.address(1), PORT, 1, 1 << 20)
        self.read_lines(taker, 1)
        counts = net.stats()["pairs"][0][1]
        self.assertEqual(counts["segments"], counts["packets"])

    def numbers_that_arrive(self, seed, n):
        net = self.net(matrix(2, loss=0.05, seed=seed))
        keeper = self.started(net, 1, KEEP, net.address(1), PORT)
        net.run(0, sys.executable, "-c", SEND, net.address(1), PORT, n, 100, 0.0001)

        def all_there():
            counts = net.stats()["pairs"][0][1]
            return counts["arrived_segments"] + counts["lost"] == n
        wait_until(all_there, f"{n} datagrams are not all counted: {net.stats()}")
        lost = net.stats()["pairs"][0][1]["lost"]
        arrived = list(map(int, keeper.communicate(str(n - lost), timeout=60)[0].split()))
        self.assertEqual(len(arrived), n - lost)
        self.assertEqual(arrived, sorted(arrived))
        return arrived

    def test_equal_seeds_lose_equal_packets(self):
        first, again, other = (self.numbers_that_arrive(seed, 1500) for seed in (3, 3, 4))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertTrue(1300 < len(first) < 1500, len(first))

    def flood(self, **lines):
        """Sends more than the capacity of a line. Returns the stats before and after, when all of
        it has arrived or was dropped."""
        n = 15000
        net = self.net(matrix(2, queue_bytes=20000) | lines)
        before = net.stats()
        self.started(net, 1, KEEP, net.address(1), PORT)
        net.run(0, sys.executable, "-c", SEND, net.address(1), PORT, n, 1000, 0)

        def all_gone():
            stats = net.stats()
            return (stats["pairs"][0][1]["packets"] + net.unread() == n and stats["under_way_bytes"]
                    == 0)
        wait_until(all_gone, "the queue does not run empty", 60)
        after = net.stats()
        counts = after["pairs"][0][1]
        gone = sum(counts[f"dropped_{where}"]
                   for where in ("up", "pair", "down", "room")) + counts["lost"]
        self.assertEqual(counts["arrived_segments"] + gone, counts["packets"])
        seconds = (after["now_ns"] - before["now_ns"]) / 1e9
        self.assertLessEqual(counts["arrived_bytes"] * 8 / seconds, 2e6)
        self.assertGreater(counts["arrived_segments"], 15)      # at least the capacity of the queue
        return after

    def test_pair_rate_limits_a_flood(self):
        after = self.flood(rate_mbit=2)
        self.assertGreater(after["pairs"][0][1]["dropped_pair"], 1000)
        self.assertLessEqual(after["pairs"][0][1]["queue_peak_bytes"], 20000)

    def test_sending_rate_limits_a_flood(self):
        after = self.flood(hosts=[{"name": "town0", "up_mbit": 2}, {"name": "town1"}])
        self.assertGreater(after["pairs"][0][1]["dropped_up"], 1000)
        self.assertLessEqual(after["hosts"][0]["up_queue_peak_bytes"], 20000)

    def test_receiving_rate_limits_a_flood(self):
        after = self.flood(hosts=[{"name": "town0"}, {"name": "town1", "down_mbit": 2}])
        self.assertGreater(after["pairs"][0][1]["dropped_down"], 1000)
        self.assertLessEqual(after["hosts"][1]["down_queue_peak_bytes"], 20000)

    def test_cut_path_is_one_directional(self):
        net = self.net(matrix(2))
        keepers = [self.started(net, host, KEEP, net.address(host), PORT) for host in range(2)]
        net.change(0, 1, loss=1)
        for source, target in ((0, 1), (1, 0)):
            net.run(source, sys.executable, "-c", SEND, net.address(target), PORT, 100, 100, 0)

        def all_there():
            pairs = net.stats()["pairs"]
            return pairs[0][1]["lost"] == 100 and pairs[1][0]["arrived_segments"] == 100
        wait_until(all_there, "100 are lost and 100 come back")
        came = [len(keeper.communicate(n, timeout=60)[0].split())
                for keeper, n in zip(keepers, ("100", "0"))]
        self.assertEqual(came, [100, 0])


class Matrices(WanTest):
    def wan(self, *args):
        return subprocess.run([sys.executable, wan.__file__, *map(str, args)], capture_output=True,
                              text=True, timeout=60,
                              env=environment(), check=False)

    def test_invalid_matrix_creates_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.json"
            for text, sentence in (("", "invalid JSON"),
                                   ('{"hosts": 3}', "hosts must be a list of 2 to 64 hosts"),
                                   ('{"hosts": [{"name": "a"}, {"name": "b"}], "loss": [[0, 2], '
                                    '[0, 0]]}',
                                    "loss[0][1]: loss is 2, but must be from 0 to 1")):
                path.write_text(text)
                done = self.wan(path, "true")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"wan.py: matrix {path}", done.stderr)
                self.assertIn(sentence, done.stderr)
            done = self.wan(Path(folder) / "nothing.json", "true")
            self.assertEqual(done.returncode, 1)
            self.assertIn("there is no file", done.stderr)
            self.assertIn("europe-6", done.stderr)
        with self.assertRaisesRegex(HostsError, r"matrix of standard input:1: hosts\[1\]: "
                                                r"hosts\[0\] has the name x, too"):
            wan.Wan({"hosts": [{"name": "x"}, {"name": "x"}]})

    def test_command_on_first_host_returns_status(self):
        done = self.wan("europe-6", "sh", "-c", "hostname; cat /etc/hosts; exit 7")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertTrue(done.stdout.startswith("frankfurt1\n"), done.stdout)
        self.assertIn("10.79.0.6 eemshaven\n", done.stdout)

    def test_deployments_are_reproducible_and_plausible(self):
        sys.path.insert(0, str(wan.DEPLOYMENTS))
        import places
        done = subprocess.run([sys.executable, places.__file__, "--check"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name, nhosts in (("europe-6", 6), ("north-america-12", 12), ("both-18", 18)):
            told = json.loads(wan.deployment(name).read_text())
            whole = wan.whole_matrix(wan.deployment(name))
            self.assertEqual(len(whole["hosts"]), nhosts)
            for a, row in enumerate(whole["pairs"]):
                for b, pair in enumerate(row):
                    if a == b:
                        continue
                    where = [(told["hosts"][h]["latitude"], told["hosts"][h]["longitude"])
                             for h in (a, b)]
                    self.assertGreater(pair["delay_ms"],
                                       places.great_circle_km(*where) / 299.792458)
                    self.assertEqual(pair["delay_ms"], told["delay_ms"][a][b])
                    self.assertEqual(pair["rate_mbit"], told["rate_mbit"][a][b])

    def test_great_circle_distances_are_correct(self):
        sys.path.insert(0, str(wan.DEPLOYMENTS))
        import places
        quarter = 6371.0 * 3.141592653589793 / 2
        self.assertAlmostEqual(places.great_circle_km((0, 0), (0, 90)), quarter, 6)
        self.assertAlmostEqual(places.great_circle_km((90, 0), (0, 77)), quarter, 6)
        self.assertEqual(places.great_circle_km((50, 8), (50, 8)), 0)


class Relay(WanTest):
    def relay(self, *args, stdin=""):
        return subprocess.run([wan.relay_program(), *map(str, args)], input=stdin,
                              capture_output=True, text=True, timeout=60, check=False)

    def test_invalid_arguments_are_reported(self):
        path = wan.deployment("europe-6")
        for args, sentence in (([], "which matrix?"), ([path, "/proc/self/ns/net"],
                                                       "has 6 hosts, but there are 1 network "
                                                       "namespaces"),
                               ([path, *["/nowhere"] * 6], "/nowhere: No such file"),
                               (["/nowhere.json"], "/nowhere.json: No such file"),
                               ([path, *["/dev/null"] * 6],
                                "enter the network namespace /dev/null")):
            done = self.relay(*args)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(sentence, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertIn("change FROM TO", self.relay("--help").stdout)

    def test_invalid_commands_change_nothing(self):
        net = self.net(matrix(2))
        for line in ("", "stat", "change 0 1 delay_ms", "change 0 1 delay_ms 3 x",
                     "change -1 1 loss x"):
            self.assertTrue(net._command(line).startswith("unknown: "), line)
        with self.assertRaisesRegex(HostsError, "change town0 to town1, loss 3: refused"):
            net.change(0, 1, loss=3)
        self.assertEqual(net._command("change 0 2 loss 0"), "refused")
        self.assertEqual(net.stats()["pairs"][0][1]["packets"], 0)

    def test_overlong_command_ends_the_relay(self):
        net = self.net(matrix(2))
        with self.assertRaisesRegex(HostsError, "a command of 255 characters or more"):
            net._command("x" * 400)
        with self.assertRaisesRegex(HostsError, "the relay ended with status 1: .*a command of 255 "
                                                "characters or more"):
            net.__exit__()

    def test_killed_relay_is_reported(self):
        net = self.net(matrix(2))
        net._relay.kill()
        net._relay.wait()
        with self.assertRaisesRegex(HostsError, "the relay has ended"):
            net.stats()

    def owner(self):
        env = environment()
        process = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=env)
        there = json.loads(self.read_lines(process, 1)[0])
        wait_until(lambda: len(marked(env)) >= 5, "the owner, the keeper, the relay, and what runs "
                                                  "on the hosts")
        return process, there, env

    def test_killed_owner_leaves_nothing(self):
        for sig in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(signal=sig.name):
                process, there, env = self.owner()
                self.assertIn(there["relay"], marked(env))
                process.send_signal(sig)
                process.communicate(timeout=PATIENCE_S)
                wait_until(lambda: not marked(env), f"processes are left: {marked(env)}")
                wait_until(lambda: not os.path.exists(there["directory"]),
                           f"{there['directory']} is left")


class Collectives(WanTest):
    def test_long_vectors_arrive_unchanged(self):
        """More segments are in flight than a plan has slots for."""
        net = self.net(matrix(2, delay_ms=50))
        done = self.run_tutti("-n", 2, "-o", "plain", "--hosts", ",".join(net.names), "--rsh",
                              net.on, "--timeout", 100, "--env", "TUTTI_LOG=info",
                              TUTTI, "perf", "allreduce", "--algo", "ring", "--json", "--check",
                              "--min", "16M", "--max", "16M", "--iters", 1,
                              "--warmup", 0, inside=net.inside(0), timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines() if '"coll"' in line]
        self.assertEqual({row["wrong"] for row in rows if "wrong" in row}, {0})
        away_ms = [float(ms) for ms in re.findall(r"rank \d has a round-trip time of ([0-9.]+) ms",
                                                  done.stderr)]
        self.assertTrue(away_ms and min(away_ms) >= 100, done.stderr)
        self.assertIn(" of 16 lanes to rank ", done.stderr)

    def lanes(self, delay_ms, size, **more):
        """Runs calls of this size one by one between two hosts. Returns the numbers of lanes that
        the ranks requested."""
        net = self.net(matrix(2, delay_ms=delay_ms))
        env = [word for name, value in more.items() for word in ("--env", f"{name}={value}")]
        done = self.run_tutti("-n", 2, "-o", "plain", "--hosts", ",".join(net.names), "--rsh",
                              net.on, "--timeout", 300, "--env", "TUTTI_LOG=info", *env,
                              TUTTI, "perf", "allreduce", "--json", "--check",
                              "--min", size, "--max", size, "--iters", 4, "--warmup", 0,
                              inside=net.inside(0), timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines() if '"coll"' in line]
        self.assertEqual({row["wrong"] for row in rows if "wrong" in row}, {0})
        return [int(n) for n in re.findall(r"tcp: (\d+) of \d+ lanes to rank \d+ for the data",
                                           done.stderr)]

    def test_lanes_follow_the_distance_and_the_data(self):
        self.assertGreater(max(self.lanes(20, "16M")), 2)
        self.assertEqual(self.lanes(20, "64K"), [])                         # too short
        self.assertEqual(self.lanes(20, "16M", TUTTI_LANES=2), [])
        self.assertEqual(self.lanes(20, "16M", TUTTI_FAR_LANES=1), [])

    def test_all_reduce_in_europe_is_correct(self):
        net = self.net(wan.deployment("europe-6"))
        began = time.monotonic_ns()
        done = self.run_tutti("-n", net.nhosts, "-o", "plain", "--hosts", ",".join(net.names),
                              "--rsh", net.on, "--timeout", 100, TUTTI, "perf",
                              "allreduce", "--json", "--check", "--min", "64K", "--max", "1M",
                              "--factor", 16, "--iters", 1, "--warmup", 0,
                              inside=net.inside(0), timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines() if '"coll"' in line]
        self.assertEqual({row["wrong"] for row in rows if "wrong" in row}, {0})
        self.assertGreaterEqual(len(rows), 2)
        stats = net.stats()
        self.assertTrue(began < stats["now_ns"] < time.monotonic_ns())
        arrived = [sum(row[host]["arrived_bytes"] for row in stats["pairs"] if row[host])
                   for host in range(net.nhosts)]
        for host in range(net.nhosts):      # each needs the blocks of all others
            self.assertGreater(arrived[host], 1 << 20, net.names[host])


class Elastic(WanTest):
    DELAY_MS = 300      # one way
    LEASE_S = 1

    def begin(self, net, host, *argv):
        process = subprocess.Popen(net.inside(host, *map(str, argv)), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**environment(), "TUTTI_SECURITY": "plain",
                                        "TUTTI_LOG": "info"})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def await_members(self, member, n):
        """Reads its output up to an operation with n members; the test runner sets the
        deadline."""
        while f" members {n} " not in self.read_lines(member, 1)[0]:
            pass

    def test_distant_members_leave_while_lanes_open(self):
        """A member joins, has long operations, for which lanes open, and leaves. The other one goes
        on without it, twice."""
        net = self.net(matrix(2, delay_ms=20))
        coordinator = self.begin(net, 0, TUTTI, "coordinator", "--journal", "none", "--insecure",
                                 "--lease", 20000, "--listen", f"{net.address(0)}:0")
        at = self.read_lines(coordinator, 1)[0].split()[-1]
        near = self.begin(net, 0, MEMBER, at, COUNT, 1)
        for _ in range(2):
            self.await_members(near, 1)
            far = self.begin(net, 1, MEMBER, at, COUNT, 1)
            self.await_members(far, 2)
            far.send_signal(signal.SIGTERM)
            _, errors = far.communicate(timeout=PATIENCE_S)
            self.assertEqual(far.returncode, 0, errors)
            self.assertRegex(errors, "of 16 lanes to rank")
        self.await_members(near, 1)
        near.send_signal(signal.SIGTERM)
        _, errors = near.communicate(timeout=PATIENCE_S)
        self.assertEqual(near.returncode, 0, errors)
        self.assertNotIn("without a teardown", errors)

    def test_stopped_distant_member_is_lost_later(self):
        """A member on the coordinator's host reduces with a distant one, which then stops: it is
        lost after the lease, three round trips and a second (src/elastic/patience.h), not
        before."""
        net = self.net(matrix(2, delay_ms=self.DELAY_MS))
        coordinator = self.begin(net, 0, TUTTI, "coordinator", "--journal", "none", "--insecure",
                                 "--lease", self.LEASE_S * 1000, "--listen", f"{net.address(0)}:0")
        at = self.read_lines(coordinator, 1)[0].split()[-1]
        near = self.begin(net, 0, MEMBER, at, 1000, 1)
        self.await_members(near, 1)
        far = self.begin(net, 1, MEMBER, at, 1000, 1)
        self.await_members(near, 2)
        self.await_members(far, 2)
        far.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        self.await_members(near, 1)
        took_s = time.monotonic() - began
        # its last message was a heartbeat, sent at most a quarter of a lease before; it arrived
        # after half a round trip
        self.assertGreater(took_s, 1.75 * self.LEASE_S + 7 * self.DELAY_MS / 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
