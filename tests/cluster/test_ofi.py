#!/usr/bin/env python3
"""The ofi wire in jobs: every collective over libfabric, element by element, and what `tutti info` says of its providers.

TUTTI_TEST_OFI names the providers to go through, like "tcp sockets shm"; not set: the one that the wire chooses, and the others that need no hardware
with a few sizes."""

import json
import os
import re
import subprocess
import sys
import unittest

from cluster import SANITIZED, SLOW, TUTTI, ClusterTest, environment


def info(**more):
    done = subprocess.run([TUTTI, "info", "--json"], capture_output=True, text=True, timeout=100, check=True, env=environment(**more))
    return {wire["name"]: wire for wire in json.loads(done.stdout)["wires"]}["ofi"]


def is_there(wire):
    """Whether the wire can be used; not where libfabric lacks the provider. One that is listed, and then does not do what it says, is an error."""
    for told in wire["about"], wire["why_not"]:
        if "failed its trial" in (told or ""):
            raise AssertionError(told)
    return wire["usable"]


def info_of_registration():
    done = subprocess.run([TUTTI, "info", "--json"], capture_output=True, text=True, timeout=100, check=True, env=environment())
    return json.loads(done.stdout)["registration"]


# sockets has threads of its own, of whose accesses the thread sanitizer knows some.
OF_SOFTWARE = ("tcp;ofi_rxm", "shm", "udp;ofi_rxd", "net") + (() if SLOW else ("sockets",))


def providers():
    return os.environ.get("TUTTI_TEST_OFI", "").split() or [""]


def others():
    """Of the providers without hardware that are here, those that the wire does not choose by itself; under a sanitizer one, another in each turn."""
    chosen = info()["about"]
    there = [p for p in OF_SOFTWARE if f" {p} on " not in chosen and is_there(info(TUTTI_OFI_PROVIDER=p))]
    if SANITIZED and there:
        there = [there[int(os.environ.get("TUTTI_TEST_TURN", "0")) // 3 % len(there)]]
    return there


def rank_counts():
    return (2,) if SANITIZED else (2, 3)


class Ofi(ClusterTest):
    def check_every_collective(self, provider, ranks, *sizes):
        with self.subTest(provider=provider, ranks=ranks):
            done = subprocess.run([TUTTI, "perf", "all", "-n", str(ranks), "--wire", "ofi", *sizes, "--check", "--json"],
                                  capture_output=True, text=True, timeout=280, check=False, env=environment(TUTTI_OFI_PROVIDER=provider))
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual({row["wire"] for row in rows}, {"ofi"})
            self.assertGreaterEqual(len({row["coll"] for row in rows}), 14)

    def test_every_collective_is_right_over_each_provider(self):
        for provider in providers():
            for ranks in rank_counts():
                self.check_every_collective(provider, ranks, "--min", "8", "--max", "1M", "--factor", "32", "--iters", "5")

    @unittest.skipIf("TUTTI_TEST_OFI" in os.environ, "TUTTI_TEST_OFI names the providers")
    def test_every_collective_is_right_over_those_that_nobody_chose(self):
        for provider in others():
            self.check_every_collective(provider, 2, "--min", "64", "--max", "64K", "--factor", "1024", "--iters", "1", "--warmup", "1")

    def test_info_tells_which_provider_and_why_not_the_others(self):
        for provider in providers():
            about = info(TUTTI_OFI_PROVIDER=provider)
            self.assertTrue(about["usable"], about)
            self.assertIn(provider, about["about"])
            self.assertRegex(about["about"], r"^libfabric \d+\.\d+, .* on .*: messages ")
            if len(providers()) > 1:    # else it may be the only one of this libfabric
                self.assertIn("not used: ", about["about"])

    def test_memory_stays_registered_from_call_to_call_as_the_settings_say(self):
        """What a call finds registered, and what was made; 100 calls send from the same megabytes."""
        counted = r"(\d+) hits, (\d+) registrations"
        for mode in "lazy", "none":
            done = subprocess.run([TUTTI, "perf", "sendrecv", "-n", "2", "--wire", "ofi", "--min", "1M", "--max", "1M", "--iters", "100"],
                                  capture_output=True, text=True, timeout=280, check=True, env=environment(TUTTI_REGISTER=mode))
            found, made = (int(n) for n in re.search(counted, done.stdout).groups())
            self.assertGreater(found + made, 100, done.stdout)
            if mode == "none":
                self.assertEqual(found, 0, done.stdout)
            elif info_of_registration()["watches"]:     # else what Tutti was not told of is not kept
                self.assertGreater(found, 10 * made, done.stdout)
        done = subprocess.run([TUTTI, "perf", "sendrecv", "-n", "2", "--wire", "ofi", "--min", "1M", "--max", "1M", "--iters", "1"],
                              capture_output=True, text=True, timeout=280, check=False, env=environment(TUTTI_REGISTER_DYNAMIC="0"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("set TUTTI_REGISTER_DYNAMIC=1", done.stderr)

    def test_a_provider_that_is_not_there_is_told(self):
        self.assertIn('no provider "nosuch"', info(TUTTI_OFI_PROVIDER="nosuch")["why_not"])

    def test_a_provider_without_an_address_that_is_allowed_is_told(self):
        why = info(TUTTI_OFI_PROVIDER="tcp;ofi_rxm", TUTTI_INTERFACES="=nosuch0")["why_not"]
        self.assertIn("has no address allowed by TUTTI_INTERFACES", why)
        shm = info(TUTTI_WIRES="ofi", TUTTI_OFI_PROVIDER="shm", TUTTI_INTERFACES="=nosuch0")    # it has no addresses: the tcp wire inside refuses
        self.assertFalse(shm["usable"], shm)

    def test_ranks_with_different_providers_are_told_both(self):
        named = [p for p in ("tcp;ofi_rxm", "sockets", "udp;ofi_rxd") if is_there(info(TUTTI_OFI_PROVIDER=p))]
        if len(named) < 2:
            self.skipTest(f"this libfabric has only {named}")
        job = 'test $TUTTI_RANK = 0 || export TUTTI_OFI_PROVIDER="$2"; exec "$1" info --memory'
        for wires, ends, log in (("ofi", 1, "none"), ("ofi,tcp", 0, "info")):
            done = self.run_tutti("-n", 2, "--", "sh", "-c", job, "sh", TUTTI, named[1],
                                  env=environment(TUTTI_WIRES=wires, TUTTI_OFI_PROVIDER=named[0], TUTTI_LOG=log))
            self.assertEqual(done.returncode, ends, done.stderr)
            self.assertRegex(done.stderr, f"libfabric's provider is {named[0]} on rank 0, but {named[1]} on rank 1|"
                                          f"libfabric's provider is {named[1]} on rank 1, but {named[0]} on rank 0")


if __name__ == "__main__":
    if not is_there(info()):
        print(f"skipped: {info()['why_not']}")
        sys.exit(77)
    unittest.main()
