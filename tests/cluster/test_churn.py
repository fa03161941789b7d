#!/usr/bin/env python3
"""Members that come, are killed, paused, and leave, while a coordinator is killed and started again, and training goes on: the numbers are
right. TUTTI_CHURN_SECONDS says for how long (10; 6 under sanitizers; from 100 on, one is now and then stopped until it is out), TUTTI_CHURN_SEED which course it takes (else by the clock; it is printed).

Each member (prog_churn.c) checks every element of every result against the members that are said to have contributed, and writes down each step that was
committed: the step, its epoch, a hash of the state after it, who contributed. Here: whoever committed a step has the same state after it, by the same
members; steps follow each other without a gap; and who lived through it all has as many threads, descriptors and as much memory in the end as in the
beginning."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from cluster import BUILD, PATIENCE_S, SANITIZED, TUTTI, ClusterTest, environment, free_port, marked, wait_until

CHURN = str(BUILD / "tests" / "cluster" / "prog_churn")
SECONDS = float(os.environ.get("TUTTI_CHURN_SECONDS", "6" if SANITIZED else "10"))
SEED = int(os.environ.get("TUTTI_CHURN_SEED", time.time_ns() % 1000000))
LEASE_S = 20                # nobody who lives is taken for dead, however busy the machine is
EVICTING_S = 5 * LEASE_S    # in runs of this length and more, a member now and then is stopped until it is out, for which the others wait a lease
MEMBERS_MIN, MEMBERS_MAX = 2, 5
STEPS_MIN = 5
GROWTH_KIB = 8192           # what a member's memory may grow by: its log's buffers, the allocator's arenas
PEER_KIB = 4096             # and with each connection to a member: rings, and room for what arrives
SAMPLES_MIN = 40            # from so many on, memory is compared over time


class Member:
    def __init__(self, run, number):
        self.log = run.dir / f"member.{number}"
        self.errors = run.dir / f"errors.{number}"
        self.fate = "lives"
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen([CHURN, run.at, str(self.log)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                                            env=run.env)

    def signal(self, number):
        self.process.send_signal(number)

    def lives(self):
        return self.process.poll() is None

    def steps(self):
        """What it wrote down: step -> (epoch, hash, members). A line that was cut off by its death is none."""
        out = {}
        for line in self.log.read_text().splitlines(keepends=True) if self.log.exists() else ():
            words = line.split()
            if line.endswith("\n") and len(words) > 3:
                out[int(words[0])] = (words[2], tuple(words[3:]))
        return out

    def told(self):
        return self.errors.read_text()[-600:]


def resources(pid):
    """Descriptors, threads, resident KiB."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]), int(status["VmRSS"].split()[0])


class Churn(ClusterTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.dir = Path(self.folder.name)
        self.env = environment(TUTTI_LOG="error", TUTTI_TIMEOUT_MS="60000")
        self.at = f"127.0.0.1:{free_port()}"
        self.members, self.coordinator, self.lost_by = [], None, 0
        self.draw = random.Random(SEED)
        self.start_coordinator()

    def tearDown(self):
        for process in [*(m.process for m in self.members), self.coordinator]:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.folder.cleanup()

    def start_coordinator(self):
        with open(self.dir / "coordinator", "a") as errors:
            self.coordinator = subprocess.Popen([TUTTI, "coordinator", "--listen", self.at, "--journal", str(self.dir / "journal"),
                                                 "--lease", str(1000 * LEASE_S)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                stderr=errors, env=self.env)

    def join(self):
        self.members.append(Member(self, len(self.members)))

    def living(self):
        return [m for m in self.members if m.fate == "lives" and m.lives()]

    def act(self):
        """One thing that happens."""
        living = self.living()
        kinds = ["coordinator"] if self.draw.random() < 0.15 else []
        kinds += ["join"] * 2 if len(living) < MEMBERS_MAX else []
        if len(living) > MEMBERS_MIN:
            kinds += ["kill", "pause", "leave"]
            kinds += ["stop"] if SECONDS >= EVICTING_S and time.monotonic() >= self.lost_by else []
        kind = self.draw.choice(kinds or ["coordinator"])
        if kind == "join":
            self.join()
        elif kind == "coordinator":
            self.coordinator.kill()
            self.coordinator.wait()
            time.sleep(self.draw.uniform(0, 0.3))
            self.start_coordinator()
        else:
            one = self.draw.choice(living[1:])      # the first lives through it all
            if kind == "pause":                     # for less than the lease; perhaps it dies of it
                one.signal(signal.SIGSTOP)
                time.sleep(self.draw.uniform(0.1, 1))
                if self.draw.random() < 0.5:
                    one.signal(signal.SIGCONT)
                    return kind
                kind = "kill"
            if kind == "stop" and not one.steps():
                kind = "kill"                       # it may not have joined: then it would only come later
            if kind == "leave" and not one.log.exists():
                kind = "kill"                       # it has only begun, and would not hear the signal
            one.fate = kind
            one.signal({"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "leave": signal.SIGTERM}[kind])
        now = time.monotonic()
        if kind == "stop" or (kind == "coordinator" and now < self.lost_by):     # a coordinator that starts again gives each a lease more
            self.lost_by = now + 2 * LEASE_S
        return kind

    def check_alive(self):
        for member in self.members:
            code = member.process.poll()
            allowed = {"lives": (None,), "kill": (None, -signal.SIGKILL), "stop": (None, 3), "leave": (None, 0)}[member.fate]
            self.assertIn(code, allowed, f"a member that {member.fate}: {member.told()}")
        self.assertIsNone(self.coordinator.poll(), (self.dir / "coordinator").read_text()[-600:])

    def check_logs(self):
        """Every committed step has one state and one set of members. Returns how many steps there are."""
        steps = {}
        for member in self.members:
            for step, what in member.steps().items():
                self.assertEqual(steps.setdefault(step, what), what, f"step {step} is not the same at all who committed it")
        self.assertEqual(sorted(steps), list(range(1, len(steps) + 1)), "a step is missing")
        return len(steps)

    def test_the_numbers_are_right_whoever_comes_and_goes(self):
        print(f"seed {SEED}, {SECONDS:g} s", file=sys.stderr)
        self.join()
        self.join()
        first = self.members[0]
        wait_until(lambda: self.check_alive() or len(first.steps()) >= STEPS_MIN, "the first steps")
        before = resources(first.process.pid)
        sizes = []
        end, happened = time.monotonic() + SECONDS, {}
        while time.monotonic() < end:
            kind = self.act()
            happened[kind] = happened.get(kind, 0) + 1
            time.sleep(self.draw.uniform(0.5, 1.0))
            self.check_alive()
            sizes.append(resources(first.process.pid)[2])
        print(", ".join(f"{n} x {kind}" for kind, n in sorted(happened.items())), file=sys.stderr)
        time.sleep(max(0, self.lost_by - time.monotonic()))     # till the one that was stopped last is lost
        for member in self.members:                 # who was stopped finds out that the run went on without it
            if member.fate == "stop" and member.lives():
                member.signal(signal.SIGCONT)
        for member in self.members:
            if member.fate in ("stop", "leave"):
                wait_until(lambda m=member: not m.lives(), f"the end of one that was to {member.fate}")
        self.check_alive()
        reached = len(first.steps()) and max(first.steps())
        wait_until(lambda: self.check_alive() or max(first.steps()) >= reached + STEPS_MIN, "steps after it is quiet")
        self.check_resources(first, before, sizes)
        for member in self.living():
            member.fate = "leave"
            member.signal(signal.SIGTERM)
        for member in self.members:
            wait_until(lambda m=member: not m.lives(), f"the end of one that was to {member.fate}: {member.told()}")
        self.check_alive()
        print(f"{self.check_logs()} steps by {len(self.members)} members", file=sys.stderr)
        self.coordinator.terminate()
        self.assertEqual(self.coordinator.wait(PATIENCE_S), 0)
        wait_until(lambda: not marked(self.env), "processes are left")

    def check_resources(self, member, before, sizes):
        """Where it is quiet, with as many members as at most: connections to them are descriptors, and memory."""
        now = resources(member.process.pid)
        peers = 4 * MEMBERS_MAX
        quarter = len(sizes) // 4
        self.assertLessEqual(now[0], before[0] + 4 * peers, f"descriptors {before[0]} -> {now[0]}")
        self.assertLessEqual(now[1], before[1] + 2, f"threads {before[1]} -> {now[1]}")
        if SANITIZED:                               # sanitizers keep freed memory
            return
        self.assertLessEqual(now[2], before[2] + GROWTH_KIB + MEMBERS_MAX * PEER_KIB, f"resident KiB {before[2]} -> {now[2]}")
        if len(sizes) >= SAMPLES_MIN:
            self.assertLessEqual(max(sizes[-quarter:]), max(sizes[quarter:2 * quarter]) + GROWTH_KIB, f"resident KiB, over time: {sizes}")
        print(f"resident KiB {before[2]} -> {now[2]}", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
