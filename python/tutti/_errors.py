"""Exceptions of Tutti: one for each status of the C library."""

import builtins
import enum
import re


class Status(enum.IntEnum):
    """The status of a failed call, as in the C library (tutti_status)."""

    INVALID = 2
    NOMEM = 3
    SYSTEM = 4
    TIMEOUT = 5
    PEER_LOST = 6
    ABORTED = 7
    MISMATCH = 8
    UNSUPPORTED = 9
    PROTOCOL = 10
    FORKED = 11
    RANGE = 12


# "rank 3", "ranks 1, 2 and 5", "ranks 4 to 7"
_RANKS = re.compile(r"\branks? (\d+(?:(?:, | and | to |-|\.\.)(?:rank )?\d+)*)")


def _ranks_of(message: str) -> "tuple[int, ...]":
    found: "dict[int, None]" = {}        # a set in order
    for numbers in _RANKS.findall(message):
        for part in re.split(r", | and ", numbers.replace("rank ", "")):
            first, *last = re.split(r" to |-|\.\.", part)
            for rank in range(int(first), int(last[-1] if last else first) + 1):
                found[rank] = None
    return tuple(found)


class Error(Exception):
    """A call of Tutti failed. The message is "what failed: cause (hint)" and names ranks, sizes
    and addresses."""

    status: "Status | None" = None
    """The Status of the subclass."""

    @property
    def ranks(self) -> "tuple[int, ...]":
        """The ranks that the message names, in its order; () if it names none."""
        return _ranks_of(str(self))


class InvalidError(Error, ValueError):
    """Invalid argument or setting; nothing was started."""

    status = Status.INVALID


class NoMemoryError(Error, MemoryError):
    """Out of memory, descriptors or another local resource."""

    status = Status.NOMEM


class SystemError(Error, OSError):      # pylint: disable=redefined-builtin
    """An operating-system call failed."""

    status = Status.SYSTEM


class TimeoutError(Error, builtins.TimeoutError):       # pylint: disable=redefined-builtin
    """The deadline passed; the message names the missing ranks."""

    status = Status.TIMEOUT


class PeerLostError(Error, ConnectionError):
    """A rank died or does not respond; the message names it."""

    status = Status.PEER_LOST


class AbortedError(Error):
    """Communicator.abort was called on this or another rank, or the communicator was destroyed."""

    status = Status.ABORTED


class MismatchError(Error):
    """Ranks made different calls; the message shows both."""

    status = Status.MISMATCH


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not supported by this build or machine."""

    status = Status.UNSUPPORTED


class ProtocolError(Error):
    """A remote process violated the protocol."""

    status = Status.PROTOCOL


class ForkedError(Error):
    """The object belongs to the parent process and was used in the child of a fork."""

    status = Status.FORKED


class RangeError(Error, ValueError):
    """A dynamic size exceeds its declared maximum; nothing was written."""

    status = Status.RANGE


# By the number of the status; the first two are no errors.
BY_STATUS = (Error, Error, InvalidError, NoMemoryError, SystemError, TimeoutError, PeerLostError,
             AbortedError,
             MismatchError, UnsupportedError, ProtocolError, ForkedError, RangeError)
