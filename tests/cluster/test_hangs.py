#!/usr/bin/env python3
"""Histories of real jobs that hang: 8 to 32 processes in tensor, data and pipeline groups, over
shared memory, TCP, and two hosts (network namespaces), with one fault each. tutti analyze must
find the kind of the fault and the rank from their trace dumps, and name no other rank.

Nothing depends on the speed of the machine: the faults are made by the processes themselves or at a
point at which all of them wait, and the test waits for the dumps."""

import json
import os
import random
import signal
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from cluster import BUILD, PATIENCE_S, SANITIZED, TUTTI, ClusterTest, environment, marked, wait_until
from hosts import Hosts, HostsError
from share import SHARE, TURN

HANG = str(BUILD / "tests" / "cluster" / "prog_hang")
HOSTS = ("hosta", "hostb")
HISTORIES = 50
AT_ONCE = 3                 # most of the time they wait
CALLS = 6
# the calls of an iteration (prog_hang.c) that may be at fault
PLACES = {"order": (3,), "mismatch": (0, 3, 4), "cut": (4, 5)}
KINDS = {"never": "never called", "outside": "outside", "stop": "stopped", "kill": "died",
         "order": "order", "mismatch": "mismatch",
         "cut": "link"}
# Sanitized processes are slow: a call that takes as long as this without a fault is a false alarm.
TIMEOUT_MS = 40000 if SANITIZED else 10000


class History:
    """A job and its fault, drawn from a seed."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.seed = seed
        self.fault = sorted(KINDS)[seed % len(KINDS)]
        self.tensor = 4
        self.n = 4 * draw.choice((2, 2, 2, 3, 4) if SANITIZED else (2, 2, 2, 3, 3, 4, 5, 6, 8))
        self.wire = draw.choice(("shm", "tcp"))
        self.culprit = draw.randrange(self.n)
        self.iteration = draw.randrange(1, 4)
        self.call = draw.choice(PLACES.get(self.fault, range(CALLS)))
        self.count = draw.choice((2, 64, 5000, 200000))
        self.exits = self.fault not in ("cut", "never", "outside") and draw.random() < 0.3

    def __str__(self):
        where = f"iteration {self.iteration}, call {self.call}, {self.count} elements"
        return (f"seed {self.seed}: {self.fault} of rank {self.culprit} of {self.n} over "
                f"{self.wire}, {where}{', exits' if self.exits else ''}")


def connect(hosts):
    """[host a] eth0 10.213.9.1 ---- eth0 10.213.9.2 [host b]"""
    for i, host in enumerate(HOSTS):
        lines = ["link set lo up", f"address add 10.213.9.{i + 1}/24 dev eth0", "link set eth0 up"]
        if i == 0:
            lines.insert(0, f"link add eth0 type veth peer name eth0 netns "
                            f"{hosts.network_of(HOSTS[1])}")
        hosts.batch(host, "ip", lines)


class Hangs(ClusterTest):
    def start(self, h, folder, hosts):
        env = environment(TUTTI_TRACE_DIR=str(folder), TUTTI_TCP_SILENCE_S="3600")
        if h.exits:
            env["EXITS"] = "1"
        program = [HANG, h.fault, h.culprit, h.tensor, h.iteration, h.call, h.count, TIMEOUT_MS,
                   folder]
        if hosts:
            half = h.n // 2
            where = ["--hosts", f"localhost:{half},{HOSTS[1]}:{half}", "--rsh", str(hosts.on), "-x",
                     "TUTTI_TRACE_DIR",
                     "-x", "TUTTI_TCP_SILENCE_S"]
            inside = hosts.inside(HOSTS[0])
        else:
            where, inside = ["--wires", h.wire], ()
        with open(folder / "output", "w", encoding="utf-8") as output:
            job = subprocess.Popen([*inside, TUTTI, "run", "-n", str(h.n), "--survive", *where,
                                    *map(str, program)],
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env)
        return job, env

    def end(self, job, env):
        """tutti run ends its ranks; a rank behind a cut link is ended here."""
        if job.poll() is None:
            job.terminate()
            job.wait(PATIENCE_S)
        for pid in marked(env):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_until(lambda: not marked(env), f"processes are left: {marked(env)}")

    def await_dumps(self, h, folder, job):
        """All ranks write a dump, except one that is stopped or dead."""
        gone = h.fault in ("stop", "kill")

        def are_there():
            return len(list(folder.glob("*.jsonl"))) >= h.n - gone

        wait_until(lambda: are_there() or job.poll() is not None, f"{h}: dumps")
        self.assertTrue(are_there(), f"{h}: the job ended: {(folder / 'output').read_text()}")

    def analyze(self, folder):
        done = subprocess.run([TUTTI, "analyze", "--json", folder], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (3, ""), done.stdout)
        return json.loads(done.stdout)

    def check(self, h, found, folder):
        first = found["diagnoses"][0]
        what = f"{h}\n{first['words']}\n{(folder / 'output').read_text()}"
        self.assertEqual(first["kind"], KINDS[h.fault], what)
        if h.fault == "cut":
            self.assertTrue(first["culprits"], what)
            for diagnosis in found["diagnoses"]:
                self.check_link(h, diagnosis, what)
            return
        # the library reports a mismatch at once: other members may not have called yet
        if first["culprits"] or not any("majority" in text for text in first["evidence"]):
            self.assertEqual(first["culprits"], [h.culprit], what)
        for other in found["diagnoses"][1:]:
            self.assertLessEqual(set(other["culprits"]), {h.culprit}, f"{what}\n{other['words']}")

    def check_link(self, h, diagnosis, what):
        """The link between the hosts is named by its ends, the first and the second half of the
        ranks."""
        if diagnosis["culprits"]:
            ends = (diagnosis["culprits"][0], diagnosis["link_to"])
            self.assertEqual(diagnosis["kind"], "link", what)
            self.assertEqual({end * 2 // h.n for end in ends}, {0, 1},
                             f"{what}\n{diagnosis['words']}")

    def check_clocks(self, h, folder):
        """All processes of this machine have the same clock: the bounds must contain 0."""
        for path in folder.glob("*.jsonl"):
            with open(path, encoding="utf-8") as f:
                clock = json.loads(f.readline())["clock"]
            if clock["offset_ns"] is not None:
                self.assertLessEqual(abs(clock["offset_ns"]), clock["error_ns"], f"{h}: {path}")

    def run_history(self, h, hosts=None):
        with tempfile.TemporaryDirectory(prefix="tutti-hangs.") as scratch:
            folder = Path(scratch)
            job, env = self.start(h, folder, hosts)
            try:
                if hosts:
                    wait_until(lambda: (folder / "cut").exists() or job.poll() is not None,
                               f"{h}: the cut")
                    hosts.run(HOSTS[1], "ip", "link", "set", "eth0", "down")
                    (folder / "is-cut").touch()
                self.await_dumps(h, folder, job)
                self.check(h, self.analyze(folder), folder)
                self.check_clocks(h, folder)
            finally:
                (folder / "done").touch()
                self.end(job, env)

    def run_one(self, seed):
        """Returns why the history failed, "" or why it was skipped, and whether it was."""
        h = History(seed)
        with ExitStack() as stack:
            hosts = None
            if h.fault == "cut":
                try:
                    hosts = stack.enter_context(Hosts(*HOSTS))
                    connect(hosts)
                except (OSError, HostsError) as why:
                    return f"network namespaces cannot be made here: {why}", True
            try:
                self.run_history(h, hosts)
            except AssertionError as why:
                return str(why), False
        return "", False

    def test_cause_of_each_hang_is_found(self):
        """A run with shares tries some, each turn others. Sanitized processes are too slow for
        all."""
        every = 3 * SHARE if SHARE > 1 or SANITIZED else 1
        seeds = [seed for seed in range(HISTORIES) if (seed + TURN) % every == 0]
        with ThreadPoolExecutor(1 if SANITIZED else AT_ONCE) as pool:
            results = list(pool.map(self.run_one, seeds))
        for seed, (why, is_skipped) in zip(seeds, results):
            with self.subTest(history=str(History(seed))):
                if is_skipped:
                    self.skipTest(why)
                self.assertEqual(why, "")


if __name__ == "__main__":
    unittest.main()
