"""Tutti: collective communication for machine learning.

    import numpy as np
    import tutti

    with tutti.Communicator() as comm:          # started by: tutti run -n 4 -- python script.py
        x = np.full(1000, comm.rank, dtype=np.float32)
        comm.allreduce(x)                       # in place: the sum over all ranks
        request = comm.iallgather(x[:10].copy(), np.empty((comm.size, 10), np.float32))
        request.wait()

Arrays are objects with the buffer protocol or DLPack, and are not copied. See Communicator for the
conventions of all calls, Window for one-sided access, and Error for exceptions.
"""

from ._core import (
    Communicator,
    Counter,
    Memory,
    Recv,
    Registration,
    Request,
    Send,
    Window,
    create_id,
    trace_annotate,
    trace_dump,
    trace_read,
    version,
    wait_all,
    wait_any,
)
from ._errors import (
    AbortedError,
    Error,
    ForkedError,
    InvalidError,
    MismatchError,
    NoMemoryError,
    PeerLostError,
    ProtocolError,
    RangeError,
    Status,
    SystemError,
    TimeoutError,
    UnsupportedError,
)

__version__ = version()

__all__ = [
    "AbortedError", "Communicator", "Counter", "Error", "ForkedError", "InvalidError", "Memory",
    "MismatchError",
    "NoMemoryError", "PeerLostError", "ProtocolError", "RangeError", "Recv", "Registration",
    "Request", "Send",
    "Status", "SystemError", "TimeoutError", "UnsupportedError", "Window", "create_id",
    "trace_annotate", "trace_dump",
    "trace_read", "version", "wait_all", "wait_any",
]
for _class in [Error, *Error.__subclasses__(), Status]:
    _class.__module__ = "tutti"
del _class
