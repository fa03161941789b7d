#!/usr/bin/env python3
"""tutti top: rates of a running job, and the rank that the others wait for."""

import json
import re
import subprocess
import unittest

from cluster import PATIENCE_S, TUTTI, wait_until
from test_status import RANKS, StatusTest

ROW = r"(?m)^(?:{}) +{} +(\d+) +(?:(\d+) +([0-9.]+) %|-  +-) +(?:(\d+) +([0-9.]+) %|-  +-) +([0-9.]+) (k|M|G|)B/s$"


class TopTest(StatusTest):
    def top(self, *args, env=None):
        return subprocess.run([TUTTI, "top", *map(str, args)], env=env or self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def await_row(self, name, ranks, condition, pattern=""):
        """Queries until the output matches the pattern and the row of a communicator meets the
        condition. Returns the output."""
        outputs = []

        def holds():
            done = self.top("--once", "--timeout", 8)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            outputs.append(done.stdout)
            found = re.search(ROW.format(name, ranks), done.stdout)
            return found and condition(found) and re.search(pattern, done.stdout)

        wait_until(holds, f"the row of {name}")
        return outputs[-1]

    def test_rank_that_does_not_call_is_the_latest(self):
        self.start("never", 3)
        # a second after the last call of all ranks
        text = self.await_row(
            "world",
            RANKS,
            lambda row: (row[1], row[2], row[3], row[5]) == ("0", "3", "0.0", "100.0"),
            rf"(?ms)^job [0-9a-f]{{16}}: {RANKS} of {RANKS} ranks report; 0 operations/s, 0 B/s\n.*^even +4 +0 +- ",
        )
        self.assertLess(text.index("world"), text.index("even"))
        self.assertTrue(all(len(line) <= 100 for line in text.splitlines()))

    def test_calls_and_bytes_of_a_running_job_are_shown(self):
        self.start("run")
        self.await_row("world", RANKS, lambda row: int(row[1]) > 0 and float(row[6]) > 0 and float(row[5]) > 0)

    def test_output_that_is_no_terminal_repeats_only_with_a_delay(self):
        self.start("run")
        once = self.top()
        self.assertEqual((once.returncode, once.stdout.count("job ")), (0, 1))
        command = [TUTTI, "top", "--delay", "0.1"]
        with subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as top:
            heads = 0
            while heads < 3:
                line = top.stdout.readline()
                self.assertNotIn("\033", line)
                self.assertTrue(line, "it ended")
                heads += line.startswith("job ")
            top.terminate()
            top.wait(PATIENCE_S)

    def test_json_has_the_rates(self):
        self.start("run")

        def holds():
            lines = self.top("--once", "--json", "--timeout", 8).stdout.splitlines()
            self.assertEqual(len(lines), 1)
            comms = {comm["name"]: comm for comm in json.loads(lines[0])["comms"]}
            rates = (comms.get("world") or {}).get("rates")
            return (rates and rates["calls_per_s"] > 0 and rates["bytes_per_s"] > 0
                    and rates["latest_share"] <= rates["most_share"] <= 1)

        wait_until(holds, "rates of the world")

    def test_stages_of_long_operations_are_shown(self):
        self.start("run", TUTTI_WIRES="tcp", PROG_STATUS_COUNT="65536", ranks=4)
        row = r"(?m)^world +[1-9]\d*((?: +\d+\.\d){8})$"
        texts = []

        def holds():
            texts.append(self.top("--once", "--timeout", 8).stdout)
            return re.search(row, texts[-1])

        wait_until(holds, "stages of the world")
        text = texts[-1]
        found = re.search(row, text)
        self.assertRegex(text, r"(?m)^stages, in % of time +calls/s +queue +peer +ctrl +reg +send "
                               r"+red +copy +wire$")
        self.assertAlmostEqual(sum(map(float, found[1].split())), 100, delta=0.4)
        self.assertTrue(all(len(line) <= 100 for line in text.splitlines()))

    def test_waiting_for_a_late_rank_is_no_control_message(self):
        self.start("late", 1, TUTTI_WIRES="tcp", PROG_STATUS_COUNT="65536", ranks=2)

        def holds():
            found = re.search(r"(?m)^world +[1-9]\d* +\d+\.\d +(\d+\.\d) +(\d+\.\d) ",
                              self.top("--once", "--timeout", 8).stdout)
            return found and float(found[1]) > 50 and float(found[2]) < 25

        wait_until(holds, "most of the time is that of waiting for rank 1")

    def test_short_operations_have_no_stages(self):
        self.start("run", ranks=2)
        self.assertNotIn("stages", self.top("--once", "--timeout", 8).stdout)

    def test_lanes_of_tcp_are_shown(self):
        self.check_lanes("tcp")

    def test_lanes_of_shared_memory_are_shown(self):
        self.check_lanes("shm")

    def check_lanes(self, wire):
        self.start("run", TUTTI_WIRES=wire)

        def holds():
            done = self.top("--once", "--json", "--timeout", 8)
            lanes = json.loads(done.stdout)["lanes"]
            return (len(lanes) == 1 and lanes[0]["wire"] == wire and lanes[0]["ranks"] == RANKS
                    and lanes[0]["up"] == lanes[0]["lanes"] >= RANKS
                    and lanes[0]["idle"] < lanes[0]["lanes"]
                    and lanes[0]["posts_per_s"] > 0 and lanes[0]["bytes_per_s"] > 0
                    and lanes[0]["out_of_order_depth"] == 0)

        wait_until(holds, f"lanes of all ranks over {wire}")
        text = self.top("--once", "--timeout", 8).stdout
        self.assertRegex(text, rf"(?m)^{wire} +\d+ +\d+ +0 +\d+ % +\d+ +\d+  "
                               r"[0-9.]+ (k|M|G|)B/s, \d+ \(\d+ B\) outstanding")
        self.assertTrue(all(len(line) <= 100 for line in text.splitlines()))

    def test_rows_are_limited(self):
        self.start("run")
        wait_until(
            lambda: "and 2 other communicators (--rows shows more)" in self.top("--rows", 1, "--timeout", 8).stdout,
            "a report of all communicators",
        )

    def test_errors_and_usage(self):
        done = self.top()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^tutti top: ")
        self.assertEqual(self.top("--delay", "0").returncode, 2)
        self.assertEqual(self.top("a", "b").returncode, 2)


if __name__ == "__main__":
    unittest.main()
