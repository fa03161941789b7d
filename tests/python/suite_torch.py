#!/usr/bin/env python3
"""Runs PyTorch's own suite for backends, which its wheel contains, on the backend "tutti": the
tests that Gloo passes must pass.

    suite_torch.py [--ranks N...] [--share N] [NAME...]     the tests in torch_suite_gloo.txt, or the named ones
    suite_torch.py --record [--ranks N...]                  runs all tests on Gloo and writes that file

TUTTI_SUITE_LOG=FILE keeps the output of the ranks. --share N runs one in N tests. TUTTI_TEST_TURN,
a number, selects them: as many turns are all tests. Exit status 77: no PyTorch."""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from torch_ranks import HERE, PYTHON, environment

RECORD = HERE / "torch_suite_gloo.txt"
SIZES = (2, 3, 4)
SILENCE_S = 600     # longer than the suite waits for the ranks of a test

Result = collections.namedtuple("Result", "name size outcome seconds text")


class Record:
    """The tests that Gloo passes, each with its numbers of ranks, and the PyTorch version that
    they are from."""

    def __init__(self, version, sizes):
        self.version = version
        self.sizes = sizes

    @classmethod
    def read(cls):
        lines = [line.split() for line in RECORD.read_text().splitlines()]
        version = next(words[2] for words in lines if words[:2] == ["#", "PyTorch"])
        return cls(version, {words[0]: [int(w) for w in words[1:]] for words in lines if words
                             and words[0] != "#"})

    def write(self):
        rows = [" ".join([name, *map(str, self.sizes[name])]) for name in sorted(self.sizes)]
        RECORD.write_text("\n".join(["# Tests of "
                                     "torch.testing._internal.distributed.distributed_test that "
                                     "Gloo passes, and the numbers of ranks.",
                                     f"# PyTorch {self.version}",
                                     "# Recorded by: tests/python/suite_torch.py --record", "",
                                     *rows, ""]))


def installed_version():
    done = subprocess.run([PYTHON, "-c",
                           "import tutti, torch; print(torch.__version__.split('+')[0])"],
                          capture_output=True, text=True,
                          check=False)
    return done.stdout.strip()


def run_tests(backend, size, names, log, tell):
    """Runs tests with one number of ranks. A test that ends the program fails, and the program is
    started again for the others."""
    names = list(names)
    results = []
    while True:
        job = subprocess.Popen([PYTHON, HERE / "prog_torch_suite.py", log, *names],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                               env=environment(WORLD_SIZE=str(size), TUTTI_SUITE_BACKEND=backend,
                                               PYTHONPATH=str(HERE)))
        current = None
        silence = watch(job)
        for line in job.stdout:
            silence.set()
            message = json.loads(line)
            current = message["name"]
            if "outcome" in message:
                results.append(Result(size=size, **message))
                tell(results[-1])
                names = [name for name in names if name != current]
                current = None
        if job.wait() == 0:
            return results
        if current is None or not names:
            sys.exit(f"{backend}, {size} ranks: the program ended with status {job.returncode} in "
                     f"{current or 'no test'} "
                     "(TUTTI_SUITE_LOG=FILE keeps its output)")
        results.append(Result(current, size, "failed", 0.0,
                              f"the program ended with status {job.returncode}\n"))
        tell(results[-1])
        names = [name for name in names if name != current]
        if not names:
            return results


def watch(job):
    """Ends the program if nothing sets the event for SILENCE_S."""
    heard = threading.Event()

    def look():
        while job.poll() is None:
            if not heard.wait(SILENCE_S):
                job.kill()
            heard.clear()

    threading.Thread(target=look, daemon=True).start()
    return heard


def table(results, sizes):
    print(f"\n{'ranks':>5}  {'passed':>6}  {'skipped':>7}  {'failed':>6}  {'seconds':>7}")
    for size in sizes:
        of_size = [r for r in results if r.size == size]
        counts = collections.Counter(r.outcome for r in of_size)
        print(f"{size:5}  {counts['passed']:6}  {counts['skipped']:7}  {counts['failed']:6}  "
              f"{sum(r.seconds for r in of_size):7.0f}")


def run_all(backend, cases, log):
    """cases: {number of ranks: names, or None for all}. Prints each result and a table."""
    total = sum(len(names or ()) for names in cases.values())
    done = 0

    def tell(result):
        nonlocal done
        done += 1
        print(f"[{done}{f'/{total}' if total else ''}] {result.outcome}: {result.name}, "
              f"{result.size} ranks, {result.seconds:.1f} s", flush=True)
        if result.outcome == "failed":
            print(result.text, flush=True)

    results = []
    for size, names in cases.items():
        if names is None or names:
            results += run_tests(backend, size, names or (), log, tell)
    table(results, cases)
    return results


def record(sizes, version, log):
    passed = collections.defaultdict(list)
    for result in run_all("gloo", {size: None for size in sizes}, log):
        if result.outcome == "passed":
            passed[result.name].append(result.size)
    Record(version, passed).write()
    print(f"wrote {RECORD.name}: {len(passed)} tests")


def compare(arguments, version, log):
    known = Record.read()
    if known.version != version:
        sys.exit(f"{RECORD.name} is of PyTorch {known.version}, and PyTorch {version} is installed "
                 f"(suite_torch.py --record)")
    unknown = [name for name in arguments.names if name not in known.sizes]
    if unknown:
        sys.exit(f"not in {RECORD.name}: {', '.join(unknown)}")
    turn = int(os.environ.get("TUTTI_TEST_TURN", "0"))
    pairs = [(size, name) for size in SIZES for name in sorted(known.sizes)
             if size in known.sizes[name]]
    pairs = [pair for i, pair in enumerate(pairs) if (i + turn) % arguments.share == 0]
    cases = {size: [n for s, n in pairs if s == size
                    and (n in arguments.names or not arguments.names)] for size in arguments.ranks}
    results = run_all("tutti", cases, log)
    bad = [r for r in results if r.outcome != "passed"]
    for result in bad:
        print(f"Gloo passes it, Tutti does not: {result.name}, {result.size} ranks: "
              f"{result.outcome}")
    print(f"{len(results) - len(bad)} passed, {len(bad)} failed")
    if not results:
        sys.exit("no test was selected")
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    version = installed_version() if PYTHON.exists() else ""
    if not version:
        print("skipped: PyTorch with tutti is not installed here (scripts/install-torch.sh)")
        sys.exit(77)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = os.environ.get("TUTTI_SUITE_LOG", f"{folder}/log")
        if arguments.record:
            record(arguments.ranks, version, log)
            status = 0
        else:
            status = compare(arguments, version, log)
    print(f"{time.monotonic() - begin:.0f} s")
    sys.exit(status)


if __name__ == "__main__":
    main()
