#!/usr/bin/env python3
"""A test that passed only the second time is listed by .ci/run, for any kind of failure, with its
exact name."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[1]))
PATIENCE_S = 60
# The behaviour of each test in its first run, and its name in ctest's output.
FIRST = {
    "room.fails": ("exit 1", "Failed"),
    "room.aborts": ("ulimit -c 0; kill -ABRT $$", "Subprocess aborted Exception"),
    "room.crashes": ("ulimit -c 0; kill -SEGV $$", "Exception: SegFault"),
    "room.hangs": ("exec sleep 1000", "Timeout"),
}
OTHERS = """
add_test(room.passes true)
add_test(room.fails_twice false)
add_test(room.skips sh -c "exit 77")
set_tests_properties(room.skips PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(room.hangs PROPERTIES TIMEOUT 5)
"""


class Unsteady(unittest.TestCase):
    @unittest.skipUnless(shutil.which("ctest"), "there is no ctest")
    def test_second_success_is_listed_with_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "CTestTestfile.cmake")
            file.write_text("".join(f'add_test({name} sh -c "test -e {folder}/{name} || {{ touch '
                                    f'{folder}/{name}; {what}; }}")\n'
                                    for name, (what, _) in FIRST.items()).replace("$$", "\\$\\$")
                            + OTHERS)
            log = Path(folder, "log")
            with open(log, "w", encoding="ascii") as to:
                subprocess.run(["ctest", "--output-on-failure", "-j", "3", "--repeat",
                                "until-pass:2"], cwd=folder, stdout=to,
                               stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False)
            listed = subprocess.run([SOURCE / ".ci" / "run", "--unsteady", log],
                                    capture_output=True, text=True, timeout=PATIENCE_S, check=True)
            self.assertEqual(sorted(listed.stdout.splitlines()),
                             sorted(f"{name}: {how}" for name, (_, how) in FIRST.items()),
                             log.read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
