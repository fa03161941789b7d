#!/usr/bin/env python3
"""scripts/install-launchers.sh, in a copy of the repository, with a python3 that only writes the
files of an environment."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "install-launchers.sh"
# python3 -m venv FOLDER; FOLDER/bin/python -m pip install ...
PYTHON = """#!/bin/sh
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho installed >>"%s/log"\\n' "$3" >"$3/bin/python"
printf '#!%s/bin/python3\\n' "$3" >"$3/bin/pip"
chmod +x "$3/bin/python"
"""


class InstallLaunchers(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="tutti-test-")
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.checkout = self.place / "checkout"
        (self.checkout / "scripts").mkdir(parents=True)
        shutil.copy(SCRIPT, self.checkout / "scripts")
        (self.place / "python3").write_text(PYTHON)
        (self.place / "python3").chmod(0o755)
        self.assertEqual(self.install(self.checkout), ["openmpi", "mpich"])

    def install(self, checkout):
        """Returns the installed launchers."""
        env = {**os.environ, "PATH": f"{self.place}:{os.environ['PATH']}"}
        done = subprocess.run([checkout / "scripts" / SCRIPT.name], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split("==")[0].removeprefix("installed ") for line in done.stdout.splitlines()]

    def test_existing_launchers_need_no_lock(self):
        """The lock may belong to another user; opening a directory fails for root, too."""
        lock = self.checkout / "build" / "launchers" / "lock"
        lock.unlink()
        lock.mkdir()
        self.assertEqual(self.install(self.checkout), [])

    def test_moved_checkout_reinstalls_its_launchers(self):
        moved = self.place / "moved"
        self.checkout.rename(moved)
        self.assertEqual(self.install(moved), ["openmpi", "mpich"])
        self.assertEqual(self.install(moved), [])

    def test_shared_folder_shares_the_launchers(self):
        other = self.place / "other"
        (other / "build").mkdir(parents=True)
        shutil.copytree(self.checkout / "scripts", other / "scripts")
        (other / "build" / "launchers").symlink_to(self.checkout / "build" / "launchers")
        self.assertEqual(self.install(other), [])


if __name__ == "__main__":
    unittest.main()
