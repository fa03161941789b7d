"""Jobs on the testbed, with ranks bound to rails in turn, and turns of a job with their resource
usage."""

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
TURN_US = 1.5e6         # duration of a measurement, which has at least one iteration
ITERS_MAX = 9
WARM_US = 1e6           # duration of the warm-up before it; of iperf3, the first second is excluded


@dataclass(frozen=True)
class Shape:
    """Number of hosts, ranks per host and rails per host, their rate, and the TCP congestion
    control."""
    nhosts: int
    per_host: int
    nrails: int
    mbit: int
    congestion: str

    @property
    def nranks(self):
        return self.nhosts * self.per_host

    def __str__(self):
        return (f"{self.nhosts} hosts x {self.per_host} ranks, {self.nrails} rails of {self.mbit} "
                f"Mbit/s")

    def host_bytes(self, coll, nbytes):
        """Minimum number of bytes that must enter each host."""
        others = nbytes * (self.nhosts - 1) / self.nhosts
        return {"allgather": others, "reduce_scatter": others, "allreduce": 2 * others}[coll]


class Bed:
    """A testbed with ranks, on which jobs can be started."""

    def __init__(self, shape, binds):
        """binds: each rank is bound to the rail with its number on the host; else Tutti selects."""
        self.shape, self.binds = shape, binds
        self.net = shaped.Testbed(shape.nhosts, shape.nrails, shape.mbit, shape.congestion)

    def __enter__(self):
        self.net.__enter__()
        return self

    def __exit__(self, *_):
        self.net.__exit__()

    def _binding(self, rank):
        return ({"TUTTI_INTERFACES": "=" + self.net.device(rank % self.shape.per_host
                                                           % self.shape.nrails)} if self.binds
                else {})

    def tutti_launches(self, *program):
        """One process per rank, started by hand."""
        s = self.shape
        return [(self.net.inside(r // s.per_host, *program),
                 {"TUTTI_RANK": str(r), "TUTTI_SIZE": str(s.nranks),
                  **self._binding(r),
                  "TUTTI_RENDEZVOUS": f"tcp://{self.net.address(0)}:{PORT}"})
                for r in range(s.nranks)]

    def tutti(self, path):
        return Group("Tutti", self.shape.nranks,
                     self.tutti_launches(build.tutti(path), "perf", "--interactive", "{dir}"))

    def openmpi(self):
        """Open MPI, started on host 0: shared memory within a host, TCP between hosts with all
        rails, and its own selection of the algorithm."""
        s = self.shape
        rails = ",".join(self.net.subnet(rail) for rail in range(s.nrails))
        argv = self.net.inside(
            0, build.program("mpirun.openmpi", "openmpi-bin"), "--allow-run-as-root", "-n",
            s.nranks,
            "--host", ",".join(f"host{h}:{s.per_host}" for h in range(s.nhosts)), "--mca",
            "plm_rsh_agent", self.net.on,
            "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
            "--mca", "pml", "ob1", "--mca", "btl", "tcp,vader,self", "--mca", "btl_tcp_if_include",
            rails,
            "--mca", "oob_tcp_if_include", self.net.subnet(0), "--mca",
            "coll_tuned_use_dynamic_rules", "1",
            build.mpi_peer("openmpi", "libopenmpi-dev openmpi-bin"), "{dir}")
        return Group("Open MPI", s.nranks, [(argv, {})])

    def sent(self):
        """[[bytes sent so far through each rail] of each host]."""
        return [[out for out, _ in self.net.counters(host)] for host in range(self.shape.nhosts)]


@dataclass
class Turn:
    """A contestant's measurement in one round: the median of its iterations, and the resource usage
    of an iteration."""
    us: float
    cpu: float          # utilization of all cores, by any process
    rail_mib: list      # sent per iteration through each rail of each host


@dataclass
class Turns:
    """The measurements of a contestant, one per round."""
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
    """Runs three commands. The first one allocates the buffers and checks the result. The second
    one warms up: while others were measured, TCP has closed the windows of its connections, and
    reopens them gradually. The third one is measured."""
    first = group.command(coll, nbytes, 1)["samples_us"][0]
    group.command(coll, nbytes, int(max(1, WARM_US // first)))
    iters = int(min(ITERS_MAX, max(1, TURN_US // first)))
    sent, busy, began = bed.sent(), machine.busy_seconds(), time.monotonic()
    reply = group.command(coll, nbytes, iters)
    took, busy, after = time.monotonic() - began, machine.busy_seconds() - busy, bed.sent()
    rails = [[round((b - a) / iters / (1 << 20), 3) for a, b in zip(*pair)]
             for pair in zip(sent, after)]
    return Turn(statistics.median(reply["samples_us"]), busy / took / machine.cores(), rails)


def run_program(bed, *program, timeout_s=120):
    """Runs a program to its end on all ranks; returns the line of JSON that rank 0 prints."""
    with tempfile.TemporaryFile("w+") as errors:
        jobs = []
        try:
            for argv, env in bed.tutti_launches(*program):
                jobs.append(subprocess.Popen(argv, env={**os.environ, **env},
                                             stdin=subprocess.DEVNULL, text=True,
                                             stdout=subprocess.PIPE if not jobs
                                             else subprocess.DEVNULL, stderr=errors))
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
