#!/usr/bin/env python3
"""The example of triage (examples/triage): each story runs real processes, and the tool must name
the rank at fault and the kind of the fault, and no other rank."""

import json
import subprocess
import unittest
from pathlib import Path

from cluster import BUILD, PATIENCE_S, SANITIZED, ClusterTest, environment, marked, wait_until

import hosts        # after cluster, which sets its path
from share import of_turn

SCRIPT = str(Path(__file__).resolve().parent.parent.parent / "examples" / "triage" / "triage.sh")
# story: kind, culprits, text of the operation
HANGS = {
    "never-joins": ("never called", [2], 'allreduce 39 of "tensor"'),
    "rank-stops": ("stopped", [5], "did not end"),
    "wrong-order": ("order", [3], 'of "tensor"'),
}
# story: kind, rank
SLOW = {"late-rank": ("late caller", 5), "slow-nic": ("slow rank", 2)}
TRIES = 3


class Triage(ClusterTest):
    def story(self, name, *options):
        if name in ("nic-stops", "slow-nic") and (why := hosts.why_not(("tc", "iproute2"))):
            self.skipTest(why)
        env = environment(TUTTI_BUILD=str(BUILD), TIMEOUT_S="40" if SANITIZED else "10")
        done = subprocess.run([SCRIPT, name, *options], capture_output=True, text=True, env=env,
                              stdin=subprocess.DEVNULL, timeout=2 * PATIENCE_S, check=False)
        wait_until(lambda: not marked(env), f"processes are left: {marked(env)}")
        return done

    def test_hangs_name_the_culprit(self):
        for name, (kind, culprits, words) in of_turn(list(HANGS.items())):
            with self.subTest(name):
                done = self.story(name, "--json")
                self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
                found = json.loads(done.stdout)["diagnoses"]
                self.assertEqual((found[0]["kind"], found[0]["culprits"]), (kind, culprits), found)
                self.assertIn(words, found[0]["words"])
                for other in found[1:]:
                    self.assertLessEqual(set(other["culprits"]), set(culprits), found)

    def test_nic_that_stops_is_an_end_of_each_named_link(self):
        """On a busy machine, too few ranks may report rank 2 as silent before they write their
        dumps. Then a link of it is named by its two ends, not the NIC."""
        done = self.story("nic-stops", "--json")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        found = json.loads(done.stdout)["diagnoses"]
        self.assertEqual((found[0]["kind"], len(found[0]["culprits"])), ("link", 1), found)
        for one in found:
            if one["culprits"]:
                self.assertEqual(one["kind"], "link", found)
                self.assertIn(2, (*one["culprits"], one["link_to"]), found)

    def test_slow_jobs_name_the_culprit(self):
        """A starved rank is slow itself, so that a job on a busy machine is repeated. A group that
        is slow because the machine is busy names no rank."""
        for name, expected in of_turn(list(SLOW.items())):
            with self.subTest(name):
                for _ in range(TRIES):
                    done = self.story(name, "--json")
                    self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                    found = {(x["kind"], x["rank"]) for x in json.loads(done.stdout)["slow"]}
                    found -= {("slow group", None)}
                    if found == {expected}:
                        break
                self.assertEqual(found, {expected}, done.stdout)

    def test_usage(self):
        done = self.story("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in (*HANGS, *SLOW, "nic-stops", "namespaces"):
            self.assertIn(name, done.stdout)
        done = self.story("no-such-story")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("usage:", done.stderr)


if __name__ == "__main__":
    unittest.main()
