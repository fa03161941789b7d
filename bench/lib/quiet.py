"""Serializes benchmarks on one machine that name the same lock."""

import contextlib
import fcntl


def add_option(parser):
    parser.add_argument("--lock", metavar="FILE", help="hold the lock of this file (flock) during "
                                                       "each round, and wait for it "
                        "before: for machines on which others measure too")


@contextlib.contextmanager
def alone(path):
    """Holds the lock at path; does nothing if path is None."""
    if not path:
        yield
        return
    with open(path, "a", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield
