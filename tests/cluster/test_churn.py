#!/usr/bin/env python3
"""Members that come, are killed, paused, and leave, while a coordinator is killed and started again, and training goes on: the numbers are
right. TUTTI_CHURN_SECONDS says for how long (10; 6 under sanitizers; from 100 on, one is now and then stopped until it is out), TUTTI_CHURN_SEED which course it takes (else by the clock; it is printed).

Each member (prog_churn.c) checks every element of every result against the members that are said to have contributed, and writes down each step that was
committed: the step, its epoch, the state after it, who contributed. Here: whoever committed a step has the same state after it, by the same members; steps follow each
other without a gap; the state after each is what one process (prog_churn_serial.c) computes from the contributions that counted: exactly where sums are
exact, within the documented bound where they are quantized. And whoever lived through it, members and coordinator, has as many threads and descriptors and
about as much memory in the end as one that has only just come."""

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
LEASE_S = 20                # nobody who lives is taken for dead, however busy the machine is
EVICTING_S = 5 * LEASE_S    # in runs of this length and more, a member now and then is stopped until it is out, for which the others wait a lease
MEMBERS_MIN, MEMBERS_MAX = 2, 5
PRESENT_MAX = 10            # with those that are stopped, or have yet to leave, which takes a lease if somebody is stopped: below MEMBERS_MAX of churn.h
STEPS_MIN = 5
UNDISTURBED = 1 / 3         # of the time, at its end: the coordinator lives, so that what it would leak is there
# Beyond what one needs that has only just come, in the same view. Each connection is a descriptor on either side, and none is left over: equality is what is
# found. The thread of the quantized reduction comes and goes. Resident memory: the allocator's arenas fill up by and by. At most 3.9 MiB were seen in 3 minutes.
THREADS_MORE = 1
GROWTH_KIB = 6144
SAMPLES_MIN = 40            # from so many on, memory is compared over time
# A coordinator, beyond what it needed in the beginning, with two members: a descriptor for each further one. 0.2 MiB were seen.
COORDINATOR_GROWTH_KIB = 1024


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

    def lines(self, kind):
        """What it wrote down of a kind, behind that word. A line that was cut off by its death is none."""
        lines = self.log.read_text().splitlines(keepends=True) if self.log.exists() else ()
        return [line.split(" ", 1)[1] for line in lines if line.startswith(kind + " ") and line.endswith("\n")]

    def steps(self):
        """step -> (epoch, what it was: the state after it, and whose)."""
        words = (line.split(" ", 2) for line in self.lines("step"))
        return {int(step): (epoch, what) for step, epoch, what in words}

    def optimized(self, kind):
        """How often it had the order of the ring optimized with others, waiting for it ("waited") or not ("behind")."""
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
        self.env = environment(TUTTI_LOG="error", TUTTI_TIMEOUT_MS="60000")
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
            self.coordinator = subprocess.Popen([TUTTI, "coordinator", "--listen", self.at, "--journal", str(self.dir / "journal"),
                                                 "--lease", str(1000 * LEASE_S)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                stderr=errors, env=self.env)

    def join(self):
        self.members.append(Member(self, len(self.members)))

    def living(self):
        return [m for m in self.members if m.fate == "lives" and m.lives()]

    def wake_lost(self):
        """Who was stopped until it was lost finds out that the run went on without it, and ends. Else those would be all that is present, by and by."""
        if time.monotonic() >= self.lost_by + LEASE_S:
            for member in self.members:
                if member.fate == "stop" and member.lives():
                    member.signal(signal.SIGCONT)

    def act(self):
        """One thing that happens."""
        self.wake_lost()
        living = self.living()
        may_restart = time.monotonic() < self.end - UNDISTURBED * SECONDS and not (self.delayed and time.monotonic() < self.lost_by)
        kinds = ["coordinator"] if self.draw.random() < 0.15 and may_restart else []
        kinds += ["join"] * 2 if len(living) < MEMBERS_MAX and sum(m.lives() for m in self.members) < PRESENT_MAX else []
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
        if kind == "stop" or (kind == "coordinator" and now < self.lost_by):     # a coordinator that starts again gives each a lease more,
            self.delayed = kind == "coordinator"                                 # once: the others would wait beyond their deadline
            self.lost_by = now + 2 * LEASE_S
        return kind

    def check_alive(self):
        for member in self.members:
            code = member.process.poll()
            allowed = {"lives": (None,), "kill": (None, -signal.SIGKILL), "stop": (None, 3), "leave": (None, 0)}[member.fate]
            self.assertIn(code, allowed, f"a member that {member.fate}: {member.told()}")
        self.assertIsNone(self.coordinator.poll(), (self.dir / "coordinator").read_text()[-600:])

    def check_logs(self):
        """Every committed step has one state and one set of members, and the state is that of one process. Returns how many steps there are."""
        steps = {}
        for member in self.members:
            for step, (epoch, what) in member.steps().items():
                first = steps.setdefault(step, (epoch, what))
                self.assertEqual(first[1], what, f"step {step} is not the same at all who committed it")
        self.assertEqual(sorted(steps), list(range(1, len(steps) + 1)), "a step is missing")
        path = self.dir / "steps"
        with open(path, "w") as out:
            for step in range(1, len(steps) + 1):
                out.write(f"{step} {steps[step][0]} {steps[step][1]}")
        with open(path) as lines:
            serial = subprocess.run([SERIAL], stdin=lines, capture_output=True, text=True)
        self.assertEqual((serial.returncode, serial.stdout), (0, f"{len(steps)} steps\n"), serial.stderr)
        return len(steps)

    def test_the_numbers_are_right_whoever_comes_and_goes(self):
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
        time.sleep(max(0, self.lost_by + LEASE_S - time.monotonic()))   # till the one that was stopped last is lost
        self.wake_lost()
        for member in self.members:
            if member.fate in ("stop", "leave"):
                wait_until(lambda m=member: not m.lives(), f"the end of one that was to {member.fate}")
        self.check_alive()
        reached = len(first.steps()) and max(first.steps())
        wait_until(lambda: self.check_alive() or max(first.steps()) >= reached + STEPS_MIN, "steps after it is quiet")
        self.check_coordinator(coordinator)
        self.check_members(sizes)
        for member in self.living():
            member.fate = "leave"
            member.signal(signal.SIGTERM)
        for member in self.members:
            wait_until(lambda m=member: not m.lives(), f"the end of one that was to {member.fate}: {member.told()}")
        self.check_alive()
        orders = " and ".join(f"{sum(m.optimized(kind) for m in self.members)} {kind}" for kind in ("waited", "behind"))
        print(f"{self.check_logs()} steps by {len(self.members)} members, who had the ring optimized: {orders}", file=sys.stderr)
        self.coordinator.terminate()
        self.assertEqual(self.coordinator.wait(PATIENCE_S), 0)
        wait_until(lambda: not marked(self.env), "processes are left")

    def wait_for_training(self, member):
        """All that a member does now and then it has done with others."""
        wait_until(lambda: self.check_alive() or (len(member.steps()) >= STEPS_MIN and member.optimized("waited") and member.optimized("behind")),
                   "steps, and orders of the ring")

    def within(self, process, what, limits):
        """Waits until it has no more descriptors, threads and KiB than limits() says: connections to the dead are about to end, and others about to be made."""
        now, most = (), ()

        def is_within():
            nonlocal now, most
            self.check_alive()
            descriptors, threads, kib = limits()
            most = (descriptors, threads, sys.maxsize if SANITIZED else kib)    # sanitizers keep freed memory
            now = resources(process)
            return all(a <= b for a, b in zip(now, most))

        try:
            wait_until(is_within, what)
        except AssertionError as error:
            raise AssertionError(f"{what}: descriptors, threads, resident KiB are {now}; at most {most} are expected") from error
        print(f"{what}: descriptors, threads, resident KiB {now}, of {most}", file=sys.stderr)

    def check_coordinator(self, before):
        """It lived for a while; before: one that had just begun, with two members."""
        self.within(self.coordinator, "the coordinator", lambda: (before[0] + len(self.living()) - 2, before[1], before[2] + COORDINATOR_GROWTH_KIB))

    def check_members(self, sizes):
        """Whoever lives, beside a member that has only just come."""
        veterans, quarter = self.living(), len(sizes) // 4
        self.join()
        self.wait_for_training(self.members[-1])

        def limits():
            new = resources(self.members[-1].process)
            return new[0], new[1] + THREADS_MORE, new[2] + GROWTH_KIB

        for member in veterans:
            self.within(member.process, f"member {self.members.index(member)} of {len(self.members)}", limits)
        if len(sizes) >= SAMPLES_MIN and not SANITIZED:
            self.assertLessEqual(max(sizes[-quarter:]), max(sizes[quarter:2 * quarter]) + GROWTH_KIB, f"resident KiB, over time: {sizes}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
