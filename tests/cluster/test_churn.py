#!/usr/bin/env python3
"""Members join, are killed, stopped and leave, and a coordinator is killed and restarted, while
training continues with correct numbers. TUTTI_CHURN_SECONDS is the duration (default 10; 6 with
sanitizers; from 100 on, one is sometimes stopped until it is out). TUTTI_CHURN_SEED selects the
sequence of events (default: from the clock; it is printed).

Each member (prog_churn.c) checks every element of every result against the reported contributors,
and logs each committed step: the step, its epoch, the state after it, and the contributors. This
test checks that all members that committed a step have the same state and contributors; that steps
have no gaps; and that the state after each step equals that of one process (prog_churn_serial.c)
with the contributions that counted: exactly where sums are exact, within the documented bound where
they are quantized. At the end, members and coordinator that existed all the time have as many
threads and descriptors, and about as much memory, as new ones."""

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
SERIAL = str(BUILD / "tests" / "cluster" / "prog_churn_serial")
SECONDS = float(os.environ.get("TUTTI_CHURN_SECONDS", "6" if SANITIZED else "10"))
SEED = int(os.environ.get("TUTTI_CHURN_SEED", time.time_ns() % 1000000))
LEASE_S = 20                # no living member is declared lost, however busy the machine is
# runs of at least this length sometimes stop a member until it is out, for which the others wait a
# lease
EVICTING_S = 5 * LEASE_S
MEMBERS_MIN, MEMBERS_MAX = 2, 5
# including members that are stopped or have not left yet (which takes a lease if one is stopped):
# below MEMBERS_MAX of churn.h
PRESENT_MAX = 10
STEPS_MIN = 5
# share of the time at the end without coordinator failures, so that leaks in the coordinator remain
# visible
WITHOUT_FAILURES = 1 / 3
# Limits relative to a new member in the same view. Each connection is a descriptor at either end,
# and none may remain: the measured difference is 0. The thread of the quantized reduction is
# temporary. Resident memory: allocator arenas fill up gradually. At most 3.9 MiB were measured in 3
# minutes.
THREADS_MORE = 1
GROWTH_KIB = 6144
SAMPLES_MIN = 40            # minimum number of samples to compare memory over time
# Growth of a coordinator since its start with two members: one descriptor per additional member.
# 0.2 MiB were measured.
COORDINATOR_GROWTH_KIB = 1024


class Member:
    def __init__(self, run, number):
        self.log = run.dir / f"member.{number}"
        self.errors = run.dir / f"errors.{number}"
        self.fate = "lives"
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen([CHURN, run.at, str(self.log)],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=errors,
                                            env=run.env)

    def signal(self, number):
        self.process.send_signal(number)

    def lives(self):
        return self.process.poll() is None

    def lines(self, kind):
        """Its log lines of a kind, without that word. A line truncated by its death is ignored."""
        lines = self.log.read_text().splitlines(keepends=True) if self.log.exists() else ()
        return [line.split(" ", 1)[1] for line in lines if line.startswith(kind + " ")
                and line.endswith("\n")]

    def steps(self):
        """step -> (epoch, the state after it, and its contributors)."""
        words = (line.split(" ", 2) for line in self.lines("step"))
        return {int(step): (epoch, what) for step, epoch, what in words}

    def optimized(self, kind):
        """How often it optimized the order of the ring with others, blocking ("waited") or in the
        background ("behind")."""
        return sum(int(line.split(" of ")[1]) > 1 for line in self.lines(kind))

    def told(self):
        return self.errors.read_text()[-600:]


def resources(process):
    """Descriptors, threads, resident KiB."""
    at = Path(f"/proc/{process.pid}")
    status = dict(line.split(":", 1) for line in (at / "status").read_text().splitlines())
    return len(os.listdir(at / "fd")), int(status["Threads"]), int(status["VmRSS"].split()[0])


class Churn(ClusterTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.dir = Path(self.folder.name)
        self.env = environment(TUTTI_LOG="error", TUTTI_TIMEOUT_MS=str(1000 * 7 * LEASE_S))
        self.at = f"127.0.0.1:{free_port()}"
        self.members, self.coordinator, self.lost_by, self.delayed, self.end = [], None, 0, False, 0
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
            self.coordinator = subprocess.Popen([TUTTI, "coordinator", "--listen", self.at,
                                                 "--journal", str(self.dir / "journal"),
                                                 "--lease", str(1000 * LEASE_S)],
                                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                stderr=errors, env=self.env)

    def join(self):
        self.members.append(Member(self, len(self.members)))

    def living(self):
        return [m for m in self.members if m.fate == "lives" and m.lives()]

    def wake_lost(self):
        """Continues members that were stopped until they were lost: they detect it and exit.
        Otherwise all present members would gradually be such ones."""
        if time.monotonic() >= self.lost_by + LEASE_S:
            for member in self.members:
                if member.fate == "stop" and member.lives():
                    member.signal(signal.SIGCONT)

    def act(self):
        """One random event."""
        self.wake_lost()
        living = self.living()
        may_restart = (time.monotonic() < self.end - WITHOUT_FAILURES * SECONDS
                       and not (self.delayed and time.monotonic() < self.lost_by))
        kinds = ["coordinator"] if self.draw.random() < 0.15 and may_restart else []
        kinds += (["join"] * 2 if len(living) < MEMBERS_MAX and sum(m.lives() for m in self.members)
                  < PRESENT_MAX else [])
        if len(living) > MEMBERS_MIN:
            kinds += ["kill", "pause", "leave"]
            kinds += ["stop"] if SECONDS >= EVICTING_S and time.monotonic() >= self.lost_by else []
        kind = self.draw.choice(kinds or ["nothing"])
        if kind == "nothing":
            return kind
        if kind == "join":
            self.join()
        elif kind == "coordinator":
            self.coordinator.kill()
            self.coordinator.wait()
            time.sleep(self.draw.uniform(0, 0.3))
            self.start_coordinator()
        else:
            one = self.draw.choice(living[1:])      # the first one stays for the whole test
            # for less than the lease; the coordinator may still declare it lost
            if kind == "pause":
                one.signal(signal.SIGSTOP)
                time.sleep(self.draw.uniform(0.1, 1))
                if self.draw.random() < 0.5:
                    one.signal(signal.SIGCONT)
                    return kind
                kind = "kill"
            if kind == "stop" and not one.steps():
                # it may not have joined: then it would only come later
                kind = "kill"
            if kind == "leave" and not one.log.exists():
                # it has just started, and does not handle the signal yet
                kind = "kill"
            one.fate = kind
            one.signal({"kill": signal.SIGKILL, "stop": signal.SIGSTOP,
                        "leave": signal.SIGTERM}[kind])
        now = time.monotonic()
        # a restarted coordinator gives each member that does not reconnect five leases,
        if kind == "stop" or (kind == "coordinator" and now < self.lost_by):
            # only once: the others would wait beyond their deadline
            self.delayed = kind == "coordinator"
            self.lost_by = now + (5 if kind == "coordinator" else 2) * LEASE_S
        return kind

    def check_alive(self):
        for member in self.members:
            code = member.process.poll()
            allowed = {"lives": (None,), "kill": (None, -signal.SIGKILL), "stop": (None, 3),
                       "leave": (None, 0)}[member.fate]
            self.assertIn(code, allowed, f"a member that {member.fate}: {member.told()}")
        self.assertIsNone(self.coordinator.poll(), (self.dir / "coordinator").read_text()[-600:])

    def check_logs(self):
        """Checks that every committed step has one state and one set of members, and that the state
        is that of one process. Returns the number of steps."""
        steps = {}
        for member in self.members:
            for step, (epoch, what) in member.steps().items():
                first = steps.setdefault(step, (epoch, what))
                self.assertEqual(first[1], what, f"step {step} is not the same at all who "
                                                 f"committed it")
        self.assertEqual(sorted(steps), list(range(1, len(steps) + 1)), "a step is missing")
        path = self.dir / "steps"
        with open(path, "w") as out:
            for step in range(1, len(steps) + 1):
                out.write(f"{step} {steps[step][0]} {steps[step][1]}")
        with open(path) as lines:
            serial = subprocess.run([SERIAL], stdin=lines, capture_output=True, text=True)
        self.assertEqual((serial.returncode, serial.stdout), (0, f"{len(steps)} steps\n"),
                         serial.stderr)
        return len(steps)

    def test_numbers_are_correct_during_membership_changes(self):
        print(f"seed {SEED}, {SECONDS:g} s", file=sys.stderr)
        self.join()
        self.join()
        first = self.members[0]
        self.wait_for_training(first)
        coordinator = resources(self.coordinator)
        sizes, happened = [], {}
        self.end = time.monotonic() + SECONDS
        while time.monotonic() < self.end:
            kind = self.act()
            happened[kind] = happened.get(kind, 0) + 1
            time.sleep(self.draw.uniform(0.5, 1.0))
            self.check_alive()
            sizes.append(resources(first.process)[2])
        print(", ".join(f"{n} x {kind}" for kind, n in sorted(happened.items())), file=sys.stderr)
        # until the last stopped member is lost
        time.sleep(max(0, self.lost_by + LEASE_S - time.monotonic()))
        self.wake_lost()
        for member in self.members:
            if member.fate in ("stop", "leave"):
                wait_until(lambda m=member: not m.lives(),
                           f"the end of one that was to {member.fate}")
        self.check_alive()
        reached = len(first.steps()) and max(first.steps())
        wait_until(lambda: self.check_alive() or max(first.steps()) >= reached + STEPS_MIN,
                   "steps after it is quiet")
        self.check_coordinator(coordinator)
        self.check_members(sizes)
        for member in self.living():
            member.fate = "leave"
            member.signal(signal.SIGTERM)
        for member in self.members:
            wait_until(lambda m=member: not m.lives(),
                       f"the end of one that was to {member.fate}: {member.told()}")
        self.check_alive()
        orders = " and ".join(f"{sum(m.optimized(kind) for m in self.members)} {kind}"
                              for kind in ("waited", "behind"))
        print(f"{self.check_logs()} steps by {len(self.members)} members, who had the ring "
              f"optimized: {orders}", file=sys.stderr)
        self.coordinator.terminate()
        self.assertEqual(self.coordinator.wait(PATIENCE_S), 0)
        wait_until(lambda: not marked(self.env), "processes are left")

    def wait_for_training(self, member):
        """Waits until a member has done each periodic action with others."""
        wait_until(lambda: self.check_alive() or (len(member.steps()) >= STEPS_MIN
                                                  and member.optimized("waited")
                                                  and member.optimized("behind")),
                   "steps, and orders of the ring")

    def within(self, process, what, limits):
        """Waits until it has at most limits() descriptors, threads and KiB: connections to dead
        members are about to close, and others about to open."""
        now, most = (), ()

        def is_within():
            nonlocal now, most
            self.check_alive()
            descriptors, threads, kib = limits()
            # sanitizers keep freed memory
            most = (descriptors, threads, sys.maxsize if SANITIZED else kib)
            now = resources(process)
            return all(a <= b for a, b in zip(now, most))

        try:
            wait_until(is_within, what)
        except AssertionError as error:
            raise AssertionError(f"{what}: descriptors, threads, resident KiB are {now}; at most "
                                 f"{most} are expected") from error
        print(f"{what}: descriptors, threads, resident KiB {now}, of {most}", file=sys.stderr)

    def check_coordinator(self, before):
        """Compares an old coordinator with its state after the start, with two members."""
        self.within(self.coordinator, "the coordinator",
                    lambda: (before[0] + len(self.living()) - 2, before[1],
                             before[2] + COORDINATOR_GROWTH_KIB))

    def check_members(self, sizes):
        """Compares living members with a new one."""
        veterans, quarter = self.living(), len(sizes) // 4
        self.join()
        self.wait_for_training(self.members[-1])

        def limits():
            new = resources(self.members[-1].process)
            return new[0], new[1] + THREADS_MORE, new[2] + GROWTH_KIB

        for member in veterans:
            self.within(member.process, f"member {self.members.index(member)} of "
                                        f"{len(self.members)}", limits)
        if len(sizes) >= SAMPLES_MIN and not SANITIZED:
            self.assertLessEqual(max(sizes[-quarter:]), max(sizes[quarter:2 * quarter])
                                 + GROWTH_KIB, f"resident KiB, over time: {sizes}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
