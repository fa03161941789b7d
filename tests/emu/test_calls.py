#!/usr/bin/env python3
"""docs/emulation.md lists exactly the calls of the emulated libraries, as emulated or refused."""

import fnmatch
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EMU = Path(os.environ["TUTTI_BUILD_DIR"]) / "emu"
REFUSED = {
    "libcudart.so.13": "emu/cuda/runtime/rt_refused.c",
    "libcuda.so.1": "emu/cuda/driver/drv_refused.c",
}
# The names of the ABI where the header renames a call without a version.
RENAMED = {"cuGraphInstantiateWithFlags": "cuGraphInstantiate"}


def without_version(name):
    name = re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name)
    return RENAMED.get(name, name)


def exported(library):
    command = ["nm", "-D", "--defined-only", str(EMU / library)]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    names = (line.split()[-1].split("@")[0] for line in out.stdout.splitlines())
    return {without_version(name) for name in names if re.match(r"(__)?cu(da)?[A-Z]", name)}


def section(library):
    """Returns the calls that the guide lists as emulated, and the patterns of refused calls."""
    text = (ROOT / "docs" / "emulation.md").read_text()
    text = text.split(f"### {library}\n")[1].split("\n### ")[0]
    done, refused = text.split("Not emulated:")
    return set(re.findall(r"`(\w+)`", done)), re.findall(r"`([\w*]+)`", refused)


class Calls(unittest.TestCase):
    def test_the_guide_lists_all_calls(self):
        for library, file in REFUSED.items():
            names = re.findall(r"^REFUSE\((\w+)\)", (ROOT / file).read_text(), re.MULTILINE)
            refused = {without_version(name) for name in names}
            listed, patterns = section(library)
            emulated = exported(library) - (refused - listed)
            self.assertGreater(len(emulated), 100)
            self.assertEqual(sorted(emulated ^ listed), [], f"{library}: the list differs")
            for name in refused - listed:
                found = any(fnmatch.fnmatchcase(name, p) for p in patterns)
                self.assertTrue(found, f"{library}: {name} is not listed")
            for pattern in patterns:
                self.assertTrue(fnmatch.filter(refused, pattern), f"{library}: no {pattern}")
                self.assertFalse(fnmatch.filter(emulated, pattern), f"{library}: {pattern} works")


if __name__ == "__main__":
    if not (EMU / "libcudart.so.13").exists():
        print("skipped: the emulation is not built")
        sys.exit(77)
    unittest.main()
