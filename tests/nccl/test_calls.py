#!/usr/bin/env python3
"""Calls of NCCL that are no operation work with libnccl.so.2 of Tutti, on emulated devices and
without a driver; and the library exports what NCCL exports."""

import ctypes
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

BUILD = Path(os.environ.get("TUTTI_BUILD_DIR", "build"))
PROGRAM = BUILD / "tests" / "nccl" / "programs" / "calls"
LIBRARY = BUILD / "nccl" / "libnccl.so.2"
LIST = Path(__file__).parent / "calls-2.32.3.txt"
HEADERS = [
    Path("/usr/local/include/nccl.h"),
    *BUILD.parent.glob("torch/lib/python3*/site-packages/nvidia/nccl/include/nccl.h"),
]
INVALID_USAGE = 5
DEADLINE_S = 600


def run(check, emulated=True):
    paths = [str(BUILD / "nccl"), str(BUILD), str(BUILD / "emu")]
    devices = "8" if emulated else "0"
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(paths), "TUTTI_EMU_DEVICES": devices}
    return subprocess.run(
        [PROGRAM, check], capture_output=True, text=True, env=environment, timeout=DEADLINE_S
    )


def symbols():
    command = ["nm", "-D", "--defined-only", LIBRARY]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: kind for _, kind, name in (line.split() for line in text.splitlines())}


def exports(prefix):
    return {name for name in symbols() if name.startswith(prefix)}


class Calls(unittest.TestCase):
    def check(self, name, **options):
        result = run(name, **options)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_without_devices_only_a_start_fails(self):
        self.check("without_driver", emulated=False)

    def test_invalid_arguments_are_refused(self):
        self.check("arguments")

    def test_communicators_are_split_and_shrunk(self):
        self.check("splits")

    def test_a_start_need_not_block(self):
        self.check("starts_that_do_not_block")

    def test_an_abort_releases_the_streams_of_other_ranks(self):
        self.check("aborts")

    def test_several_splits_in_a_group_are_matched_in_order(self):
        self.check("several_splits_in_a_group")

    def test_a_communicator_grows_by_new_ranks(self):
        self.check("grows")

    def test_a_revoked_communicator_can_still_be_split(self):
        self.check("revokes")

    def test_a_suspended_communicator_refuses_operations(self):
        self.check("suspends")

    def test_a_simulated_group_ends_without_its_operations(self):
        self.check("simulates")

    def test_windows_are_registered(self):
        self.check("windows")

    def test_a_failed_check_is_noticed(self):
        self.assertEqual(run("without_driver").returncode, 1)
        self.assertEqual(run("no such check").returncode, 2)

    def test_the_library_exports_the_calls_of_the_header(self):
        text = LIST.read_text()
        listed = {line.split()[0] for line in text.splitlines() if not line.startswith("#")}
        self.assertEqual(len(listed), 96)
        self.assertEqual(exports("nccl"), listed)
        for header in HEADERS:          # of older releases, where one is installed
            if header.exists():
                found = set(re.findall(r"\bp(nccl[A-Z]\w+)\s*\(", header.read_text()))
                self.assertGreater(len(found), 30, header)
                self.assertEqual(found - listed, set(), header)

    @unittest.skipIf(os.environ.get("CFLAGS"), "a sanitizer must be preloaded first")
    def test_refused_calls_return_a_sentence(self):
        names = re.findall(r"^(\w+) refused$", LIST.read_text(), re.MULTILINE)
        self.assertGreater(len(names), 20)
        library = ctypes.CDLL(str(LIBRARY))
        library.ncclGetLastError.restype = ctypes.c_char_p
        for name in names:
            for call in (name, "p" + name):
                library.ncclGroupStart()
                result = getattr(library, call)(None)
                why = library.ncclGetLastError(None).decode()
                self.assertEqual(result, INVALID_USAGE, name)
                self.assertRegex(why, f"^{name} is not supported by Tutti.* \\(.+\\)$")
                library.ncclGroupEnd()

    def test_names_are_weak_and_have_strong_aliases_without_versions(self):
        kinds = symbols()
        names = {name for name in kinds if name.startswith("nccl")}
        for name in names:
            self.assertEqual(kinds[name], "W", name)
            self.assertEqual(kinds["p" + name], "T", name)
        self.assertEqual(set(kinds), names | {"p" + name for name in names})


if __name__ == "__main__":
    if not PROGRAM.exists():
        print("skipped: the emulation of CUDA is not built")
        sys.exit(77)
    unittest.main()
