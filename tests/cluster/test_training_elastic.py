#!/usr/bin/env python3
"""The training examples for elastic runs have the loss curves of one process, for any membership
changes during training (docs/training.md)."""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import test_elastic
from cluster import BUILD, SLOW, wait_until

# a text that does not change: curves depend on it
TEXT = Path(os.environ["TUTTI_SOURCE_DIR"]) / "LICENSE"
EXAMPLES = BUILD / "examples"
# of a loss, after thousands of steps; a missing or duplicate share of a member differs by a hundred
# times that
TOLERANCE = 2e-3
BATCH = 300
INNER = 5
DILOCO = ("--batch", 16, "--inner", INNER, "--rate", 0.03, "--outer-rate", 0.5, "--outer-momentum",
          0.3)


def curve_of(lines):
    return [(int(step), float(loss)) for step, loss, *_ in (line.split() for line in lines)]


def alone(*options):
    words = [str(word) for word in (EXAMPLES / "train_alone", TEXT, *options)]
    return curve_of(subprocess.run(words, capture_output=True, text=True, timeout=120,
                                   check=True).stdout.splitlines())


class Members(unittest.TestCase):
    setUp, tearDown = test_elastic.Elastic.setUp, test_elastic.Elastic.tearDown
    start, start_coordinator = test_elastic.Elastic.start, test_elastic.Elastic.start_coordinator

    def member(self, program, *options):
        self.env["TUTTI_COORDINATOR"] = self.address
        return self.start(EXAMPLES / program, TEXT, *options)

    def await_end(self, *members):
        for member in members:
            self.assertEqual(member.process.wait(timeout=60), 0, member.errors[-5:])
            for reader in member.readers:
                reader.join()


class Training(Members):
    UNEVEN = 64     # divides evenly by two members, but not by three

    def trainer(self):
        return self.member("train_elastic", "--steps", 10000000, "--batch", self.UNEVEN)

    def await_view(self, member, members, act):
        """Waits until it has trained in a view of so many members after the act."""
        mark = len(member.errors)
        result = act()
        wait_until(lambda: any(f": {members} members" in line for line in member.errors[mark:]),
                   f"{members} members: {member.errors}")
        steps = len(member.lines)
        wait_until(lambda: len(member.lines) > steps + 20, "steps in this view")
        return result

    def test_elastic_training_has_the_reference_curve(self):
        first = self.trainer()
        wait_until(lambda: len(first.lines) > 5, "its first steps alone")
        second = self.await_view(first, 2, self.trainer)
        third = self.await_view(first, 3, self.trainer)
        self.await_view(first, 2, second.process.kill)
        fourth = self.await_view(first, 3, self.trainer)
        self.await_view(first, 2, third.process.terminate)
        for member in (first, fourth):
            member.process.terminate()
        self.await_end(first, third, fourth)
        curve = curve_of(first.lines)
        # newcomers receive; no incumbent has diverged
        for member in (first, second, third, fourth):
            views = [line for line in member.errors if line.startswith("epoch ")]
            self.assertEqual([line for line in views if "received the state" in line],
                             [] if member is first else views[:1])
        expected = alone("--steps", len(curve), "--batch", self.UNEVEN)
        # each once, and in order
        self.assertEqual([step for step, _ in curve], [step for step, _ in expected])
        for (step, loss), (_, there) in zip(curve, expected):
            self.assertAlmostEqual(loss, there, delta=TOLERANCE,
                                   msg=f"at step {step} of {len(curve)}: {first.errors}")
        print(f"{len(curve)} steps, at most "
              f"{max(abs(a[1] - b[1]) for a, b in zip(curve, expected)):.2g} apart",
              file=sys.stderr)


class Sharded(Members):
    """Two groups of two members, which share one copy of the model."""

    STEPS = 80

    def role(self, group, role, *options):
        return self.member("train_hsdp", "--group", group, "--role", role, "--batch", BATCH,
                           *options)

    def groups(self, *options):
        return {(group, role): self.role(group, role, "--members", 4, *options) for group in (0, 1)
                for role in (0, 1)}

    def await_groups(self, first, n, act):
        """Waits until group 0, whose last role prints the curve, has trained with so many groups
        after the act."""
        mark = len(first.errors)
        result = act()
        wait_until(lambda: any(f": {n} groups" in line for line in first.errors[mark:]),
                   f"{n} groups: {first.errors}")
        steps = len(first.lines)
        wait_until(lambda: len(first.lines) > steps + 20 or first.process.poll() is not None,
                   "steps in this view")
        return result

    def assert_is_that_of_one_process(self, curve):
        expected = alone("--steps", len(curve), "--batch", BATCH)
        # each once, and in order
        self.assertEqual([step for step, _ in curve], [step for step, _ in expected])
        for (step, loss), (_, there) in zip(curve, expected):
            self.assertAlmostEqual(loss, there, delta=TOLERANCE,
                                   msg=f"at step {step} of {len(curve)}")

    def replacement(self, group, role):
        """Starts a member in place of a killed one, as soon as the coordinator has detected the
        loss."""
        while True:
            member = self.role(group, role, "--steps", 10000000)
            wait_until(lambda: member.errors or member.process.poll() is not None,
                       "a view, or why there is none")
            if member.process.poll() is not None:
                for reader in member.readers:
                    reader.join()
            if not any(f"role {role} of group {group} is taken" in line for line in member.errors):
                return member       # it may have ended already, for another reason
            member.process.wait(timeout=60)

    def test_replaced_group_keeps_the_reference_curve(self):
        members = self.groups("--steps", 10000000)
        first, waits = members[0, 1], members[1, 1]
        wait_until(lambda: len(first.lines) > 5, f"steps of two groups: {first.errors}")
        self.await_groups(first, 1, members[1, 0].process.kill)
        alone_until = len(first.lines)
        replacement = self.await_groups(first, 2, lambda: self.role(1, 0, "--steps", 10000000))
        self.assertGreater(len(first.lines), alone_until)
        # the remaining member is behind, too: the other group has continued
        for member in (replacement, waits):
            self.assertTrue(any("received its part" in line for line in member.errors),
                            member.errors)
        self.assertFalse(any("received" in line for line in first.errors), first.errors)
        self.await_groups(first, 1, replacement.process.terminate)
        # during its wait, because its group is incomplete
        waits.process.terminate()
        self.await_end(replacement, waits)
        for role in (0, 1):
            members[0, role].process.terminate()
        self.await_end(members[0, 0], first)
        self.assert_is_that_of_one_process(curve_of(first.lines))

    def test_replacement_without_part_does_not_train(self):
        members = {role: self.role(0, role, "--members", 2, "--steps", 10000000) for role in (0, 1)}
        wait_until(lambda: len(members[1].lines) > 5, f"steps: {members[1].errors}")
        members[0].process.kill()
        replacement = self.replacement(0, 0)
        for member in (members[1], replacement):
            self.assertEqual(member.process.wait(timeout=60), 1, member.errors[-5:])
            for reader in member.readers:
                reader.join()
            self.assertRegex(member.errors[-1], "a role is lost: no group was complete .the states "
                                                "are of steps 0 to [1-9]")

    def test_groups_reach_the_reference_curve(self):
        members = self.groups("--steps", self.STEPS)
        self.await_end(*members.values())
        self.assertEqual([len(member.lines) for member in members.values()], [0, self.STEPS, 0, 0])
        for (group, role), member in members.items():
            self.assertIn(f"role {role} of group {group} ended after step {self.STEPS}",
                          member.errors)
        self.assert_is_that_of_one_process(curve_of(members[0, 1].lines))


class DiLoCo(Members):
    """The curve of a run equals that of one process that replays its exchanges with the same
    members."""

    def await_members(self, first, n, act=None):
        """Waits until it has printed exchanges of so many members, after the act."""
        mark = len(first.lines)
        result = act() if act else None
        wait_until(lambda: sum(len(line.split()) == 2 + n for line in first.lines[mark:]) > 5
                   or first.process.poll() is not None,
                   f"exchanges of {n} members: {first.lines[-3:]}, {first.errors[-3:]}")
        self.assertIsNone(first.process.poll(), first.errors[-5:])
        return result

    def stop_and_kill(self, member):
        """Its part of a started exchange does not arrive."""
        member.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        member.process.kill()

    def churn(self, program):
        """The output of the first member of a run in which others join, are killed, are stopped,
        and leave."""
        def newcomer():
            return self.member(program, "--steps", 10000000, *DILOCO)

        first = newcomer()
        self.await_members(first, 1)
        second = self.await_members(first, 2, newcomer)
        third = self.await_members(first, 3, newcomer)
        self.await_members(first, 2, second.process.kill)
        fourth = self.await_members(first, 3, newcomer)
        self.await_members(first, 2, lambda: self.stop_and_kill(third))
        fifth = self.await_members(first, 3, newcomer)
        self.await_members(first, 2, fourth.process.terminate)
        first.process.terminate()
        wait_until(lambda: first.process.poll() is not None, "that it leaves")
        fifth.process.terminate()
        self.await_end(first, fourth, fifth)
        # it never diverged from the others
        self.assertFalse([line for line in first.errors if "received the state" in line])
        for later in (fourth, fifth):
            views = [line for line in later.errors if line.startswith("epoch ")]
            self.assertEqual([line for line in views if "received the state" in line], views[:1])
        return first.lines

    def play(self, lines, *options):
        run = Path(self.tmp.name, "run")
        run.write_text("\n".join(lines), encoding="ascii")
        return alone("--replay", run, *DILOCO, *options)

    def assert_is_played_alike(self, lines, *options):
        curve, expected = curve_of(lines), self.play(lines, *options)
        self.assertEqual([step for step, _ in curve], [step for step, _ in expected])
        for (step, loss), (_, there) in zip(curve, expected):
            self.assertAlmostEqual(loss, there, delta=TOLERANCE,
                                   msg=f"at step {step} of {curve[-1][0]}")
        return curve

    def assert_has_every_exchange(self, curve):
        self.assertEqual([step for step, _ in curve],
                         list(range(INNER, INNER * len(curve) + 1, INNER)))

    def assert_members_end_alike(self, program, *options):
        members = [self.member(program, "--steps", 98, "--members", 2, *DILOCO) for _ in range(2)]
        self.await_end(*members)
        ends = [line.split(" ", 2)[2] for member in members for line in member.errors
                if " ended after " in line]
        self.assertEqual(len(ends), 2)
        self.assertRegex(ends[0], "^ended after step 98 with state [0-9a-f]{16}$")
        self.assertEqual(ends[0], ends[1])
        curve = self.assert_is_played_alike([line for member in members for line in member.lines],
                                            *options)
        self.assertEqual(curve[-1][0], 98)

    def test_elastic_diloco_has_the_reference_curve(self):
        self.assert_has_every_exchange(self.assert_is_played_alike(self.churn("train_diloco_elastic")))

    def test_asynchronous_diloco_has_the_reference_curve(self):
        lines = self.churn("train_diloco_async")
        curve = self.assert_is_played_alike(lines, "--delay")
        self.assert_has_every_exchange(curve)
        # replayed without delay, the curve differs: otherwise this test could not fail
        prompt = self.play(lines[:30])
        self.assertGreater(max(abs(a[1] - b[1]) for a, b in zip(curve, prompt)), 10 * TOLERANCE)

    def test_newcomers_continue_without_the_lost_mean(self):
        """Between the epoch and the incumbents' send at the end of its round, which is long
        here."""
        options = ("--steps", 10000000, *DILOCO, "--inner", 400)
        first = self.member("train_diloco_async", *options)
        wait_until(lambda: len(first.lines) > 1, "exchanges")
        second = self.member("train_diloco_async", *options)
        wait_until(lambda: any("received the state" in line for line in second.errors),
                   f"a newcomer: {second.errors}")
        first.process.kill()
        wait_until(lambda: len(second.lines) > 2 or second.process.poll() is not None,
                   "exchanges of the one that is left")
        second.process.terminate()
        self.await_end(second)
        steps = [step for step, _ in curve_of(second.lines)]
        self.assertEqual(steps, list(range(steps[0], steps[0] + 400 * len(steps), 400)))
        self.assertGreater(steps[0], curve_of(first.lines)[-1][0])
        self.assertEqual({len(line.split()) for line in second.lines}, {3})

    def test_diloco_members_end_with_equal_states(self):
        self.assert_members_end_alike("train_diloco_elastic")

    def test_asynchronous_members_end_with_equal_states(self):
        self.assert_members_end_alike("train_diloco_async", "--delay")


if __name__ == "__main__":
    if SLOW:
        print("skipped: under the thread sanitizer, which has nothing to find here that it does "
              "not in tests of the calls")
        sys.exit(77)
    unittest.main(verbosity=2)
