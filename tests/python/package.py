"""Runs a test of the Python package in the environment that the package was built for.

Import it first: it continues in that Python, with the package of the build folder, or skips the
test (exit status 77). A test is a function that every rank calls with its communicator:

    @package.ranks(1, 3)
    def result_is_the_sum(comm): ...

    package.main()      # a unittest case for each, by `tutti run`
"""

import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ["TUTTI_BUILD_DIR"])
PYTHON = ROOT / "build" / "python" / "bin" / "python"
TOOL = BUILD / "tutti"
DEADLINE_S = 240

if "TUTTI_TEST_PACKAGE" not in os.environ:
    if not PYTHON.exists() or not list((BUILD / "python" / "tutti").glob("_core.*.so")):
        print("skipped: the Python package is not built (scripts/install-python.sh, then "
              "configure; never with sanitizers)")
        sys.exit(77)
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "TUTTI_TEST_PACKAGE": "1",
                   "OPENBLAS_NUM_THREADS": "1"}
    os.execve(PYTHON, [str(PYTHON), *sys.argv], environment)

programs = {}       # name -> (function, numbers of ranks)


def ranks(*sizes):
    """Marks a function as a test for these numbers of ranks."""
    def add(function):
        assert function.__name__ not in programs
        programs[function.__name__] = (function, sizes)
        return function
    return add


def raises(kind, call, *arguments, **options):
    """Calls, and returns the exception, which must be of this type."""
    try:
        call(*arguments, **options)
    except kind as e:
        return e
    raise AssertionError(f"{call} did not raise {kind.__name__}")


def _test_of(name, size):
    def test(self):
        done = subprocess.run([TOOL, "run", "-n", str(size), "--", sys.executable, sys.argv[0],
                               "--rank", name],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, "\n" + done.stdout)
    return test


def main():
    """Runs all tests, or, in a rank, the named one."""
    if sys.argv[1:2] == ["--rank"]:
        import tutti

        with tutti.Communicator(timeout=120) as comm:
            programs[sys.argv[2]][0](comm)
        return
    cases = {f"test_{name}_{size}_ranks": _test_of(name, size)
             for name, (_, sizes) in programs.items() for size in sizes}
    sys.modules["__main__"].Ranks = type("Ranks", (unittest.TestCase,), cases)
    unittest.main(verbosity=2)
