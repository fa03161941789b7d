"""Several benchmarks on one machine: each takes its turn alone, if all name the same lock."""

import contextlib
import fcntl


def add_option(parser):
    parser.add_argument("--lock", metavar="FILE", help="hold the lock of this file (flock) during each round, and wait for it "
                        "before: for machines on which others measure too")


@contextlib.contextmanager
def alone(path):
    """Holds the lock of path, or does nothing if there is none."""
    if not path:
        yield
        return
    with open(path, "a", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield
