"""Who is measured, and how each is started: (wire, ranks, malloc) -> processes.

TCP is forced as follows, checked by counting what passes through lo while 2 ranks reduce 64 MiB (4 x 64 MiB):
- Open MPI: btl tcp,self under pml ob1.
- MPICH: Debian builds it as ch4:ucx, so UCX_TLS=tcp,self is enough (MPIR_CVAR_NOLOCAL=1, which one finds
  recommended, leaves UCX on shared memory: nothing passes lo).
- Gloo has no other wire.

More ranks than cores: Open MPI yields. MPICH is started as it comes: its MPIR_CVAR_POLLS_BEFORE_YIELD
changes nothing in this build, a waiting rank spins through its time slice, so 8 bytes take milliseconds.
"""

import os

from . import build
from .group import Group
from .say import Problem

TUNED_MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "4000000000"}
GLOO_ALLREDUCE = ("ring", "bcube", "old_ring", "ring_chunked", "halving_doubling", "old_bcube")


def cores():
    return len(os.sched_getaffinity(0))


class OpenMPI:
    title = "Open MPI"
    wires = ("shm", "tcp")
    algos = {}

    def launches(self, wire, ranks):
        worker = build.mpi_peer("openmpi", "libopenmpi-dev openmpi-bin")
        argv = [build.program("mpirun.openmpi", "openmpi-bin"), "--allow-run-as-root", "-n", ranks]
        if ranks <= cores():
            argv += ["--bind-to", "core"]
        else:
            argv += ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        if wire == "tcp":
            argv += ["--mca", "btl", "tcp,self", "--mca", "pml", "ob1"]
        return [([*argv, worker, "{dir}"], {})]


class MPICH:
    title = "MPICH"
    wires = ("shm", "tcp")
    algos = {}

    def launches(self, wire, ranks):
        worker = build.mpi_peer("mpich", "libmpich-dev mpich")
        argv = [build.program("mpirun.mpich", "mpich"), "-n", ranks]
        if ranks <= cores():
            argv += ["-bind-to", "core"]
        env = {"UCX_TLS": "tcp,self"} if wire == "tcp" else {}
        return [([*argv, worker, "{dir}"], env)]


class Gloo:
    title = "Gloo"
    wires = ("tcp",)
    algos = {"allreduce": GLOO_ALLREDUCE}

    def launches(self, _wire, ranks):
        worker = build.gloo_peer()
        return [([worker, "{dir}", rank, ranks, "127.0.0.1"], {}) for rank in range(ranks)]


class Tutti:
    title = "Tutti"
    wires = ("shm", "tcp")
    algos = {}

    def __init__(self, path=None):
        self._path = path

    def launches(self, wire, ranks):
        tutti = build.tutti(self._path)
        return [([tutti, "run", "-n", ranks, "--", tutti, "perf", "--interactive", "{dir}",
                  "--wire", wire], {})]


PEERS = {"openmpi": OpenMPI(), "mpich": MPICH(), "gloo": Gloo()}


class Stable:
    """Starts groups when they are first needed and keeps them, asleep, for the cases that follow.

    Groups of another wire or number of ranks are closed; a group that failed is not started again for the
    same setting: every later row of it says why it is skipped.
    """

    def __init__(self, contestants):
        self.contestants = contestants
        self._groups, self._broken, self._setting = {}, {}, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._close()

    def _close(self):
        for group in self._groups.values():
            group.close()
        self._groups = {}

    def group(self, key, wire, ranks, malloc):
        """The group of contestant key. The malloc setting is for peers; Tutti always runs at its default."""
        if (wire, ranks) != self._setting:
            self._close()
            self._broken, self._setting = {}, (wire, ranks)
        tuned = malloc == "tuned" and key != "tutti"
        name = (key, tuned)
        if name in self._broken:
            raise Problem(self._broken[name])
        if name not in self._groups:
            self._groups[name] = self._begin(name, wire, ranks)
        return self._groups[name]

    def _begin(self, name, wire, ranks):
        contestant = self.contestants[name[0]]
        extra = TUNED_MALLOC if name[1] else {}
        # Gloo has TCP only: rows that set it beside shared memory mean that.
        wire = wire if wire in contestant.wires else contestant.wires[0]
        launches = [(argv, {**env, **extra}) for argv, env in contestant.launches(wire, ranks)]
        return Group(contestant.title, ranks, launches)

    def drop(self, key, malloc, why):
        """Gives up a group that failed."""
        name = (key, malloc == "tuned" and key != "tutti")
        self._broken[name] = why
        if name in self._groups:
            self._groups.pop(name).close()
