"""Jobs on the testbed, one rank bound to each rail as far as they go round, and a turn of one of them with what it used."""

import json
import os
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

from . import build, machine, shaped
from .group import Group
from .say import Problem

PORT = 29477
TURN_US = 1.5e6         # the measured part of a turn fills about this, with at least one iteration
ITERS_MAX = 9
WARM_US = 1e6           # not measured, before it: as of iperf3, whose first second is left out


@dataclass(frozen=True)
class Shape:
    """How many hosts, ranks on each, rails of each, their rate, and TCP's congestion control."""
    nhosts: int
    per_host: int
    nrails: int
    mbit: int
    congestion: str

    @property
    def nranks(self):
        return self.nhosts * self.per_host

    def __str__(self):
        return f"{self.nhosts} hosts x {self.per_host} ranks, {self.nrails} rails of {self.mbit} Mbit/s"

    def host_bytes(self, coll, nbytes):
        """What must enter each host, if nothing enters twice."""
        others = nbytes * (self.nhosts - 1) / self.nhosts
        return {"allgather": others, "reduce_scatter": others, "allreduce": 2 * others}[coll]


class Bed:
    """A testbed with ranks: knows how jobs are started on it."""

    def __init__(self, shape, binds):
        """binds: each rank is told the rail of its number on the host; else Tutti chooses."""
        self.shape, self.binds = shape, binds
        self.net = shaped.Testbed(shape.nhosts, shape.nrails, shape.mbit, shape.congestion)

    def __enter__(self):
        self.net.__enter__()
        return self

    def __exit__(self, *_):
        self.net.__exit__()

    def _binding(self, rank):
        return {"TUTTI_INTERFACES": "=" + self.net.device(rank % self.shape.per_host % self.shape.nrails)} if self.binds else {}

    def tutti_launches(self, *program):
        """One process per rank, started by hand."""
        s = self.shape
        return [(self.net.inside(r // s.per_host, *program),
                 {"TUTTI_RANK": str(r), "TUTTI_SIZE": str(s.nranks),
                  **self._binding(r),
                  "TUTTI_RENDEZVOUS": f"tcp://{self.net.address(0)}:{PORT}"}) for r in range(s.nranks)]

    def tutti(self, path):
        return Group("Tutti", self.shape.nranks, self.tutti_launches(build.tutti(path), "perf", "--interactive", "{dir}"))

    def openmpi(self):
        """Open MPI from host 0: shared memory inside a host, TCP between them with all rails offered, and its choice of
        algorithm open."""
        s = self.shape
        rails = ",".join(self.net.subnet(rail) for rail in range(s.nrails))
        argv = self.net.inside(
            0, build.program("mpirun.openmpi", "openmpi-bin"), "--allow-run-as-root", "-n", s.nranks,
            "--host", ",".join(f"host{h}:{s.per_host}" for h in range(s.nhosts)), "--mca", "plm_rsh_agent", self.net.on,
            "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
            "--mca", "pml", "ob1", "--mca", "btl", "tcp,vader,self", "--mca", "btl_tcp_if_include", rails,
            "--mca", "oob_tcp_if_include", self.net.subnet(0), "--mca", "coll_tuned_use_dynamic_rules", "1",
            build.mpi_peer("openmpi", "libopenmpi-dev openmpi-bin"), "{dir}")
        return Group("Open MPI", s.nranks, [(argv, {})])

    def sent(self):
        """[[bytes sent so far through each rail] of each host]."""
        return [[out for out, _ in self.net.counters(host)] for host in range(self.shape.nhosts)]


@dataclass
class Turn:
    """One turn of one contestant: the median of its iterations, and what an iteration used."""
    us: float
    cpu: float          # busy share of all cores, by whomever
    rail_mib: list      # sent per iteration through each rail of each host


@dataclass
class Turns:
    """A contestant's turns, one per round."""
    turns: list = field(default_factory=list)

    @property
    def us(self):
        return [turn.us for turn in self.turns]

    @property
    def median_us(self):
        return statistics.median(self.us)

    @property
    def cpu(self):
        return round(statistics.median(turn.cpu for turn in self.turns), 2)

    @property
    def rail_mib(self):
        return self.turns[-1].rail_mib


def take_turn(bed, group, coll, nbytes):
    """The first command makes the buffers and checks the result. The second warms up: while others had their turns, TCP has closed the
    windows of its connections, and opens them again only by and by. The third is measured."""
    first = group.command(coll, nbytes, 1)["samples_us"][0]
    group.command(coll, nbytes, int(max(1, WARM_US // first)))
    iters = int(min(ITERS_MAX, max(1, TURN_US // first)))
    sent, busy, began = bed.sent(), machine.busy_seconds(), time.monotonic()
    reply = group.command(coll, nbytes, iters)
    took, busy, after = time.monotonic() - began, machine.busy_seconds() - busy, bed.sent()
    rails = [[round((b - a) / iters / (1 << 20), 3) for a, b in zip(*pair)] for pair in zip(sent, after)]
    return Turn(statistics.median(reply["samples_us"]), busy / took / machine.cores(), rails)


def run_program(bed, *program, timeout_s=120):
    """A program to its end on all ranks; returns the one line of JSON that rank 0 prints."""
    with tempfile.TemporaryFile("w+") as errors:
        jobs = []
        try:
            for argv, env in bed.tutti_launches(*program):
                jobs.append(subprocess.Popen(argv, env={**os.environ, **env}, stdin=subprocess.DEVNULL, text=True,
                                             stdout=subprocess.PIPE if not jobs else subprocess.DEVNULL, stderr=errors))
            said = jobs[0].communicate(timeout=timeout_s)[0]
            failed = [job.wait(timeout=10) for job in jobs]
        except subprocess.TimeoutExpired:
            raise Problem(f"{program[0]} is not done after {timeout_s} s") from None
        finally:
            for job in jobs:
                if job.poll() is None:
                    job.kill()
                    job.wait()
        if any(failed):
            errors.seek(0)
            raise Problem(f"{program[0]} failed: {errors.read().strip()[:300]}")
    return json.loads(said)
