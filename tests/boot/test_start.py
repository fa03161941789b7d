#!/usr/bin/env python3
"""Start-up of many ranks on many hosts over real sockets (prog_start): all ranks get the records of
all, and no process sends the table to more than a few others."""

import json
import os
import subprocess
import unittest
from pathlib import Path

PROGRAM = Path(os.environ["TUTTI_BUILD_DIR"]) / "tests" / "boot" / "prog_start"
RECORD = 512


def start(nranks, per_host):
    command = [PROGRAM, str(nranks), "2", str(RECORD), str(per_host)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode:
        raise AssertionError(f"{nranks} ranks, {per_host} per host: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


class Start(unittest.TestCase):

    def test_servers_have_servers(self):
        """81 hosts: the 8 children of the root have children, and these too."""
        self.assertEqual(start(81, 1)["ranks"], 81)

    def test_last_host_is_smaller(self):
        self.assertEqual(start(50, 3)["ranks"], 50)

    def test_no_process_sends_much(self):
        """60 hosts. Sent to each of these by the root, the table takes 590 KB even packed, and the
        reports of the hosts 100 KB. In the tree, and with some reports repeated, this is half."""
        values = start(240, 4)
        self.assertLess(values["busiest_bytes"], 450_000, values)


if __name__ == "__main__":
    unittest.main(verbosity=2)
