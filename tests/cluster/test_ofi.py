#!/usr/bin/env python3
"""The ofi transport in jobs: every collective over libfabric, element by element, and the output of
`tutti info` for its providers.

TUTTI_TEST_OFI lists the providers to test, like "tcp sockets shm". Default: the one that the
transport selects, and with few sizes, the others that need no hardware."""

import json
import os
import re
import subprocess
import sys
import unittest

from cluster import SANITIZED, SLOW, TUTTI, ClusterTest, environment


def info(**more):
    done = subprocess.run([TUTTI, "info", "--json"], capture_output=True, text=True, timeout=100,
                          check=True, env=environment(**more))
    return {wire["name"]: wire for wire in json.loads(done.stdout)["wires"]}["ofi"]


def is_there(wire):
    """Whether the transport can be used; not if libfabric lacks the provider. A listed provider
    that does not work is an error."""
    for told in wire["about"], wire["why_not"]:
        if "failed its trial" in (told or ""):
            raise AssertionError(told)
    return wire["usable"]


def info_of_registration():
    done = subprocess.run([TUTTI, "info", "--json"], capture_output=True, text=True, timeout=100,
                          check=True, env=environment())
    return json.loads(done.stdout)["registration"]


# sockets has its own threads, whose synchronization TSan sees only in part.
OF_SOFTWARE = ("tcp;ofi_rxm", "shm", "udp;ofi_rxd", "net") + (() if SLOW else ("sockets",))


def providers():
    return os.environ.get("TUTTI_TEST_OFI", "").split() or [""]


def others():
    """Available providers without hardware that the transport does not select by itself; with a
    sanitizer one of them, in turn."""
    chosen = info()["about"]
    there = [p for p in OF_SOFTWARE if f" {p} on " not in chosen
             and is_there(info(TUTTI_OFI_PROVIDER=p))]
    if SANITIZED and there:
        there = [there[int(os.environ.get("TUTTI_TEST_TURN", "0")) // 3 % len(there)]]
    return there


def rank_counts():
    return (2,) if SANITIZED else (2, 3)


class Ofi(ClusterTest):
    def check_every_collective(self, provider, ranks, *sizes):
        with self.subTest(provider=provider, ranks=ranks):
            done = subprocess.run([TUTTI, "perf", "all", "-n", str(ranks), "--wire", "ofi", *sizes,
                                   "--check", "--json"],
                                  capture_output=True, text=True, timeout=280, check=False,
                                  env=environment(TUTTI_OFI_PROVIDER=provider))
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual({row["wire"] for row in rows}, {"ofi"})
            self.assertGreaterEqual(len({row["coll"] for row in rows}), 14)

    def test_collectives_work_over_each_provider(self):
        for provider in providers():
            for ranks in rank_counts():
                self.check_every_collective(provider, ranks, "--min", "8", "--max", "1M",
                                            "--factor", "32", "--iters", "5")

    @unittest.skipIf("TUTTI_TEST_OFI" in os.environ, "TUTTI_TEST_OFI names the providers")
    def test_collectives_work_over_unselected_providers(self):
        for provider in others():
            self.check_every_collective(provider, 2, "--min", "64", "--max", "64K", "--factor",
                                        "1024", "--iters", "1", "--warmup", "1")

    def test_info_lists_providers_with_reasons(self):
        for provider in providers():
            about = info(TUTTI_OFI_PROVIDER=provider)
            self.assertTrue(about["usable"], about)
            self.assertIn(provider, about["about"])
            self.assertRegex(about["about"], r"^libfabric \d+\.\d+, .* on .*: messages ")
            if len(providers()) > 1:    # otherwise it may be the only one of this libfabric
                self.assertIn("not used: ", about["about"])

    def test_registrations_are_cached_as_configured(self):
        """The number of registrations found and made in calls; 100 calls send from the same
        megabytes."""
        counted = r"(\d+) hits, (\d+) registrations"
        for mode in "lazy", "none":
            done = subprocess.run([TUTTI, "perf", "sendrecv", "-n", "2", "--wire", "ofi", "--min",
                                   "1M", "--max", "1M", "--iters", "100"],
                                  capture_output=True, text=True, timeout=280, check=True,
                                  env=environment(TUTTI_REGISTER=mode))
            found, made = (int(n) for n in re.search(counted, done.stdout).groups())
            self.assertGreater(found + made, 100, done.stdout)
            if mode == "none":
                self.assertEqual(found, 0, done.stdout)
            # otherwise memory not registered with Tutti is not cached
            elif info_of_registration()["watches"]:
                self.assertGreater(found, 10 * made, done.stdout)
        done = subprocess.run([TUTTI, "perf", "sendrecv", "-n", "2", "--wire", "ofi", "--min", "1M",
                               "--max", "1M", "--iters", "1"],
                              capture_output=True, text=True, timeout=280, check=False,
                              env=environment(TUTTI_REGISTER_DYNAMIC="0"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("set TUTTI_REGISTER_DYNAMIC=1", done.stderr)

    def test_missing_provider_is_reported(self):
        self.assertIn('no provider "nosuch"', info(TUTTI_OFI_PROVIDER="nosuch")["why_not"])

    def test_provider_without_allowed_address_is_reported(self):
        why = info(TUTTI_OFI_PROVIDER="tcp;ofi_rxm", TUTTI_INTERFACES="=nosuch0")["why_not"]
        self.assertIn("has no address allowed by TUTTI_INTERFACES", why)
        # it has no addresses: the internal tcp transport refuses it
        shm = info(TUTTI_WIRES="ofi", TUTTI_OFI_PROVIDER="shm", TUTTI_INTERFACES="=nosuch0")
        self.assertFalse(shm["usable"], shm)

    def test_different_providers_are_both_reported(self):
        named = [p for p in ("tcp;ofi_rxm", "sockets", "udp;ofi_rxd")
                 if is_there(info(TUTTI_OFI_PROVIDER=p))]
        if len(named) < 2:
            self.skipTest(f"this libfabric has only {named}")
        job = 'test $TUTTI_RANK = 0 || export TUTTI_OFI_PROVIDER="$2"; exec "$1" info --memory'
        for wires, ends, log in (("ofi", 1, "none"), ("ofi,tcp", 0, "info")):
            done = self.run_tutti("-n", 2, "--", "sh", "-c", job, "sh", TUTTI, named[1],
                                  env=environment(TUTTI_WIRES=wires, TUTTI_OFI_PROVIDER=named[0],
                                                  TUTTI_LOG=log))
            self.assertEqual(done.returncode, ends, done.stderr)
            self.assertRegex(done.stderr, f"libfabric's provider is {named[0]} on rank 0, but "
                                          f"{named[1]} on rank 1|"
                                          f"libfabric's provider is {named[1]} on rank 1, but "
                                          f"{named[0]} on rank 0")


if __name__ == "__main__":
    if not is_there(info()):
        print(f"skipped: {info()['why_not']}")
        sys.exit(77)
    unittest.main()
