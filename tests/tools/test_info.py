#!/usr/bin/env python3
"""tutti info: the same values as text and as JSON."""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"


def info(*args, **environment):
    return subprocess.run([TUTTI, "info", *args], env={**os.environ, **environment},
                          capture_output=True, text=True,
                          timeout=240, check=False)


def document(test, *args, **environment):
    done = info(*args, "--json", **environment)
    test.assertEqual(done.returncode, 0, done.stderr)
    return json.loads(done.stdout)


class States(unittest.TestCase):
    def test_documentation_has_the_current_states(self):
        source = Path(os.environ["TUTTI_SOURCE_DIR"])
        done = subprocess.run([sys.executable, source / "scripts" / "draw-states.py", "--check"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        machines = document(self, "--states")
        self.assertEqual([machine["name"] for machine in machines],
                         ["members", "rounds", "syncs", "operations"])
        for machine in machines:
            self.assertTrue((source / "docs" / "states" / f"{machine['name']}.svg").exists())
            for change in machine["changes"]:
                self.assertRegex(info("--states").stdout,
                                 f"(?m)^  {change['from']} +-> {change['to']} +{change['when']}$")


class Machine(unittest.TestCase):
    def test_the_version_is_the_command_s(self):
        version = subprocess.run([TUTTI, "--version"], capture_output=True, text=True,
                                 check=True).stdout.split()[1]
        self.assertEqual(document(self)["build"]["version"], version)
        self.assertIn(f"tutti {version}", info().stdout)

    def test_whether_pmix_is_compiled_in(self):
        cache = (TUTTI.parent / "CMakeCache.txt").read_text()
        found = re.search(r"^pmix_FOUND:INTERNAL=1", cache, re.M) is not None
        self.assertIs(document(self)["build"]["pmix"], found)
        self.assertRegex(info().stdout,
                         f"(?m)^  PMIx +{'compiled in' if found else 'not compiled in'}$")

    def test_unusable_transport_has_a_reason(self):
        wires = document(self)["wires"]
        self.assertEqual([wire["name"] for wire in wires], ["shm", "verbs", "ofi", "tcp"])
        for wire in wires:
            self.assertEqual(wire["usable"], wire["why_not"] == "", wire)
            self.assertIs(wire["by_name"], wire["name"] in ("verbs", "ofi"))
            self.assertIn(wire["name"], info().stdout)
        self.assertRegex(info().stdout, "(?m)^  verbs .*; used only if TUTTI_WIRES lists it$")

    def test_setting_selects_the_transports(self):
        none = {"TUTTI_RDMA_DEVICES": "=nosuch0"}       # no verbs, on any machine
        for setting, wires in (("", ["shm", "tcp"]), ("tcp", ["tcp"]), ("tcp,shm", ["shm", "tcp"]),
                               ("shm,verbs", ["shm"])):
            jobs = document(self, TUTTI_WIRES=setting, **none)["jobs"]
            self.assertEqual(jobs, {"wires_setting": setting or None, "wires": wires,
                                    "why_not": ""})
            said = f'TUTTI_WIRES is "{setting}"' if setting else "TUTTI_WIRES is not set"
            self.assertIn(f"\n  jobs use {', '.join(wires)} ({said})\n",
                          info(TUTTI_WIRES=setting, **none).stdout)
        for setting, why in (("shm,pigeon", 'unknown transport "pigeon" in the list "shm,pigeon"'),
                             ("verbs", "no allowed transport is usable")):
            jobs = document(self, TUTTI_WIRES=setting, **none)["jobs"]
            self.assertEqual(jobs["wires"], [])
            self.assertIn(why, jobs["why_not"])
            self.assertIn(f"\n  jobs cannot start: {why}", info(TUTTI_WIRES=setting, **none).stdout)

    def test_unopened_transport_has_a_reason(self):
        wires = {wire["name"]: wire for wire in document(self,
                                                         TUTTI_INTERFACES="=nosuch0")["wires"]}
        self.assertFalse(wires["tcp"]["usable"])
        self.assertIn("nosuch0", wires["tcp"]["why_not"])

    def test_rdma_needs_devices(self):
        devices = Path("/sys/class/infiniband")
        verbs = {wire["name"]: wire for wire in document(self)["wires"]}["verbs"]
        if "not in this build" in verbs["summary"]:
            self.assertIn("libibverbs", verbs["why_not"])
        elif not devices.is_dir() or not any(devices.iterdir()):
            self.assertEqual(verbs["why_not"], "verbs: this machine has no RDMA device")
        else:
            none = {wire["name"]: wire
                    for wire in document(self, TUTTI_RDMA_DEVICES="=nosuch0")["wires"]}["verbs"]
            self.assertIn("not allowed by TUTTI_RDMA_DEVICES", none["why_not"])

    def test_interfaces_obey_the_rule(self):
        names = {interface["name"]
                 for interface in document(self, TUTTI_INTERFACES="=lo")["interfaces"]}
        self.assertEqual(names, {"lo"})

    def test_limits_match_this_process(self):
        machine = document(self)["machine"]
        self.assertEqual(machine["cores_allowed"], len(os.sched_getaffinity(0)))
        self.assertIsInstance(machine["cma"], bool)
        self.assertEqual(machine["cma"], machine["cma_why_not"] == "")
        self.assertEqual(machine["kernel_tls"], machine["kernel_tls_why_not"] == "")
        self.assertTrue(machine["cma_wanted"])
        self.assertNotIn("disabled", info().stdout)
        self.assertFalse(document(self, TUTTI_CMA="0")["machine"]["cma_wanted"])
        self.assertIn("disabled", info(TUTTI_CMA="0").stdout)
        limited = subprocess.run(["bash", "-c", f"ulimit -Sn 100; {TUTTI} info --json"],
                                 capture_output=True, text=True,
                                 timeout=60, check=True)
        self.assertEqual(json.loads(limited.stdout)["machine"]["nofile"], 100)

    def test_registration_follows_the_settings(self):
        plain = document(self)["registration"]
        self.assertEqual(plain["mode"], "lazy")
        self.assertTrue(plain["dynamic"])
        self.assertEqual(plain["watches"], plain["watches_why_not"] == "")
        other = document(self, TUTTI_REGISTER="eager", TUTTI_REGISTER_BYTES="4096",
                         TUTTI_REGISTER_COUNT="3",
                         TUTTI_REGISTER_DYNAMIC="0")["registration"]
        self.assertEqual((other["mode"], other["bytes_max"], other["count_max"], other["dynamic"]),
                         ("eager", 4096, 3, False))
        self.assertIn('TUTTI_REGISTER is "often"',
                      document(self, TUTTI_REGISTER="often")["registration"]["wrong"])
        self.assertIn('TUTTI_REGISTER is "often"', info(TUTTI_REGISTER="often").stdout)

    def test_memory_is_shown_by_purpose(self):
        """After one ring all-reduce two peers are connected; per-rank memory consists only of
        tables of comm and transports."""
        for wires, links in (("tcp", "tcp: links"), ("shm,tcp", "shm: links")):
            m = document(self, "--memory", "--ranks", "6", TUTTI_WIRES=wires)
            self.assertEqual((m["nranks"], m["connected"]), (6, 2))
            parts = {part["purpose"]: part for part in m["parts"]}
            for purpose in "engine: peers", links:
                self.assertEqual(parts[purpose]["rank_bytes"], 0)
                self.assertGreater(parts[purpose]["peer_bytes"], 0)
            self.assertAlmostEqual(m["idle_bytes"],
                                   sum(part["rank_bytes"] for part in m["parts"]) / 6, places=3)
            self.assertEqual(m["bytes"], sum(part[kind] for part in m["parts"]
                                             for kind in ("fixed_bytes", "rank_bytes",
                                                          "peer_bytes")))
        self.assertIn("each idle rank uses", info("--memory", TUTTI_WIRES="tcp").stdout)

    def test_idle_rank_takes_64_bytes(self):
        """The memory of eight more ranks without communication; regular layouts have no per-rank
        memory."""
        usable = {wire["name"] for wire in document(self, TUTTI_WIRES="shm,verbs,ofi,tcp")["wires"]
                  if wire["usable"]}
        for wires in ["shm,tcp"] + ["shm,ofi,tcp"] * ("ofi" in usable) + ["verbs", "shm,verbs,tcp"] * ("verbs" in usable):
            few, many = (document(self, "--memory", "--ranks", str(n), TUTTI_WIRES=wires)
                         for n in (4, 12))
            self.assertEqual((few["connected"], many["connected"]), (2, 2))
            total = [sum(part["rank_bytes"] for part in m["parts"]) for m in (few, many)]
            self.assertLessEqual(total[1] - total[0], 8 * 64, wires)
            self.assertGreater(total[1], total[0])

    def memory_at_98304_ranks(self, wires):
        """Bytes of a rank without its links, and bytes of its links, after start-up and a ring
        all-reduce of 1 MiB. Calculated from 32 ranks, whose blocks are eager messages, too; some
        are unexpected, and stored in 32 KiB each, instead of 11 bytes. The control overlay has 34
        links instead of 9. With 8 ranks per host, a rank has an eighth of its host's records of 31
        bytes, and of their index (tests/comm/test_idle_rank.c)."""
        idle, total, links = 31 / 8 + 1 / 8, 0, 0
        m = document(self, "--memory", "--ranks", "32", TUTTI_WIRES=wires)
        self.assertEqual((m["nranks"], m["connected"]), (32, 2))
        for part in m["parts"]:
            if part["purpose"].endswith(": links"):
                links += part["peer_bytes"]
            else:
                total += part["peer_bytes"] % (32 << 10)
            total += part["fixed_bytes"] * (4 if part["purpose"] == "job: control overlay" else 1)
            if part["purpose"] != "job: addresses of ranks":
                idle += part["rank_bytes"] / 32
        self.assertLess(idle, 32)
        return total + 98304 * idle, links

    def test_rank_of_98304_ranks_takes_8_mib(self):
        """A rank whose two neighbours are on its host. One of them on another host is connected by
        tcp, which takes more (docs/start-up.md)."""
        total, shm = self.memory_at_98304_ranks("shm,tcp")
        tcp = self.memory_at_98304_ranks("tcp")[1]
        edge = total + (shm + tcp) / 2
        print(f"within a host {total + shm:.0f} bytes, at its edge {edge:.0f} bytes")
        self.assertLessEqual(total + shm, 8 << 20)
        self.assertLessEqual(edge, 8.5 * (1 << 20))


class Params(unittest.TestCase):
    def test_every_parameter_has_all_fields(self):
        params = document(self, "--params")
        self.assertTrue(params)
        for param in params:
            self.assertTrue(param["name"].startswith("TUTTI_"))
            self.assertTrue(param["summary"])
            self.assertIn(param["name"], info("--params").stdout)
            if "unit" not in param:     # a word
                continue
            self.assertTrue(param["unit"])
            self.assertLessEqual(param["min"], param["default"])
            self.assertLessEqual(param["default"], param["max"])

    def test_the_value_is_the_environment_s(self):
        def value(name, text):
            return {p["name"]: p["value"] for p in document(self, "--params", **{name: text})}[name]
        self.assertEqual(value("TUTTI_LANES", "3"), 3)
        self.assertIsNone(value("TUTTI_LANES", "300"))
        self.assertIn("invalid", info("--params", TUTTI_LANES="300").stdout)
        self.assertEqual(value("TUTTI_WIRES", "tcp"), "tcp")
        for name in ("TUTTI_TOKEN", "TUTTI_STATUS_TOKEN"):
            self.assertNotIn("sesame", info("--params", **{name: "sesame"}).stdout)


class Algos(unittest.TestCase):
    def test_each_algorithm_has_a_summary(self):
        algos = document(self, "--algos")
        self.assertIn("allreduce_ring", [algo["name"] for algo in algos])
        for algo in algos:
            self.assertTrue(algo["summary"])
            self.assertTrue(algo["name"].startswith(algo["coll"] + "_"))

    def test_collective_filter_works(self):
        algos = document(self, "--algos", "broadcast")
        self.assertEqual({algo["coll"] for algo in algos}, {"broadcast"})
        lines = info("--algos", "broadcast").stdout.splitlines()
        self.assertEqual(len([line for line in lines if not line.startswith(" ")]), len(algos))

    def test_conditional_algorithms_name_their_requirements(self):
        needs = {algo["name"]: algo["needs"] for algo in document(self, "--algos")}
        self.assertEqual(needs["allgather_ring"], "")
        self.assertEqual(needs["allgatherv_bruck"], "packed blocks")
        self.assertRegex(info("--algos", "allgatherv").stdout,
                         r"allgatherv_bruck[^\n]*\n +needs packed blocks")


class Arguments(unittest.TestCase):
    def test_invalid_arguments_give_status_2(self):
        for args in (["--algos", "bread"], ["allreduce"], ["--everything"]):
            done = info(*args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)
            self.assertTrue(done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
