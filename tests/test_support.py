#!/usr/bin/env python3
"""The functions by which tests decide that a process has ended.

The directory of test hosts (tests/support/hosts.py, scratch.py) is never removed while its keeper
runs, and always after it was killed. A marked process (tests/cluster/cluster.py) is found while it
executes another program. Hosts need root and namespaces: otherwise that case is skipped."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

for folder in ("support", "cluster"):
    sys.path.insert(0, str(Path(__file__).resolve().parent / folder))
import cluster          # noqa: E402
import hosts            # noqa: E402
import scratch          # noqa: E402
import share            # noqa: E402

KEEPERS = 200 // min(share.SHARE, 8)
REMOVALS = 200          # of each remover, before it checks whether all keepers have ended
LOOKS = 300
EXECS = 64
# A keeper's interpreter: it executes itself EXECS times first. During each exec /proc/PID/cmdline
# is empty for a moment.
AGAIN = f"""#!/bin/sh
: "${{left:={EXECS}}}"
[ "$left" -gt 0 ] || exec {sys.executable} "$@"
left=$((left - 1)) exec "$0" "$@"
"""


def remove_again_and_again(place, ended):
    tempfile.tempdir = place
    while True:
        for _ in range(REMOVALS):
            hosts.remove_leftovers()
        if ended.is_set():
            return


class Place(unittest.TestCase):
    """A temporary directory that no other run uses."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        patch = unittest.mock.patch.object(tempfile, "tempdir", place.name)
        patch.start()
        self.addCleanup(patch.stop)
        self.place = Path(place.name)


class Keepers(Place):
    def setUp(self):
        super().setUp()
        why = hosts.why_not()
        if why:
            self.skipTest(why)
        try:
            with hosts.Hosts("probe"):
                pass
        except hosts.HostsError as trouble:
            self.skipTest(f"hosts cannot be made here: {trouble}")

    def trouble_of(self, _):
        """The failure of one keeper; None: none."""
        try:
            with hosts.Hosts("a") as made:
                return None if (made.directory / "hosts").exists() else "its directory was removed"
        except (hosts.HostsError, OSError) as trouble:
            return str(trouble)

    def test_starting_keepers_keep_their_directories(self):
        interpreter = self.place / "interpreter"
        interpreter.write_text(AGAIN)
        interpreter.chmod(0o700)
        fork = multiprocessing.get_context("fork")
        ended = fork.Event()
        removers = [fork.Process(target=remove_again_and_again, args=(str(self.place), ended),
                                 daemon=True) for _ in range(2)]
        for remover in removers:
            remover.start()
        try:
            with unittest.mock.patch.object(hosts.sys, "executable",
                                            str(interpreter)), ThreadPoolExecutor(4) as some:
                troubles = [trouble for trouble in some.map(self.trouble_of, range(KEEPERS))
                            if trouble]
        finally:
            ended.set()
            for remover in removers:
                remover.join()
        self.assertEqual(troubles, [], f"{len(troubles)} of {KEEPERS} keepers")
        self.assertEqual([remover.exitcode for remover in removers], [0] * len(removers))
        self.assertEqual(list(self.place.glob(hosts.PREFIX + "*")), [])


class Directories(Place):
    def test_directory_removed_before_lock_is_recreated(self):
        made = []
        make = tempfile.mkdtemp

        def make_and_lose(**how):
            made.append(make(**how))
            if len(made) < 3:
                scratch.remove_leftovers("x-")
                self.assertFalse(os.path.exists(made[-1]))
            return made[-1]

        with unittest.mock.patch.object(tempfile, "mkdtemp", make_and_lose):
            path, fd = scratch.make("x-")
        self.addCleanup(os.close, fd)
        self.assertEqual((str(path), len(made)), (made[-1], 3))
        scratch.remove_leftovers("x-")
        self.assertTrue(path.is_dir())

    def test_last_descriptor_keeps_the_directory(self):
        path, fd = scratch.make("x-")
        heir = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                pass_fds=[fd])
        os.close(fd)
        scratch.remove_leftovers("x-")
        self.assertTrue(path.is_dir())
        heir.kill()
        os.waitid(os.P_PID, heir.pid, os.WEXITED | os.WNOWAIT)      # it has ended, and is a zombie
        scratch.remove_leftovers("x-")
        self.assertFalse(path.exists())
        heir.communicate()


class Marks(unittest.TestCase):
    def test_process_in_exec_is_found(self):
        env = cluster.environment()
        process = subprocess.Popen(["sh", "-c", 'exec sh -c "$0" "$0"', 'exec sh -c "$0" "$0"'],
                                   env=env)
        try:
            cluster.wait_until(lambda: cluster.marked(env), "the process has no mark")
            missed = sum(cluster.marked(env) != [process.pid] for _ in range(LOOKS))
        finally:
            process.kill()
            process.wait()
        self.assertEqual(missed, 0, f"of {LOOKS} looks")
        self.assertEqual(cluster.marked(env), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
