"""Temporary directories that a later run removes if their owner was killed.

A directory is in use while a process holds the lock on it. The kernel releases the lock when the
last process that holds the descriptor ends, however it ends. Nothing is inferred from process
numbers or from /proc: /proc/PID/cmdline is empty for a moment in each exec, so a starting process
would be mistaken for a dead one.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path


def lock(path):
    """Locks a directory. Returns the descriptor that holds the lock, or None: another process holds
    it, or the directory is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(fd)
    return None


def make(prefix):
    """Makes a directory; returns its path and the descriptor that keeps it in use, which child
    processes may inherit.

    Between its creation and its lock another process may remove the directory, or hold its lock to
    do so. Then the next one is tried.
    """
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        fd = lock(path)
        if fd is not None:
            return path, fd


def remove_leftovers(prefix):
    """Removes the directories with this prefix that nobody holds."""
    for path in Path(tempfile.gettempdir()).glob(prefix + "*"):
        try:
            fd = lock(path)
        except OSError:
            continue        # owned by another user
        if fd is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(fd)
