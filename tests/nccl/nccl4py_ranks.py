"""A process of a job that uses nccl4py: its number, the number of processes, the devices of each,
and the file for the unique id. Each process drives its ranks from one thread, in groups. Runs every
kind of call, and compares all results; prints the names of the checks that passed."""

import sys
import time
from pathlib import Path

import nccl.core as nccl
import numpy as np
from cuda.bindings import driver
from cuda.core import Device
from nccl.bindings.nccl import NCCLError

BLOCK = 3  # elements


def checked(result):
    """Returns the value of a call of the CUDA driver."""
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) > 1 else None


def block(number, n=BLOCK):
    return np.arange(n, dtype=np.float32) + 10 * number


def blocks(numbers):
    return np.concatenate([block(number) for number in numbers])


class Array:
    """Typed device memory of a rank, as packages for arrays expose it."""

    def __init__(self, rank, values):
        self.rank = rank
        self.values = np.asarray(values)
        self.memory = nccl.mem_alloc(self.values.nbytes, rank.device)
        self.address = int(self.memory.handle)
        self.__cuda_array_interface__ = {
            "shape": self.values.shape,
            "typestr": self.values.dtype.str,
            "data": (self.address, False),
            "version": 3,
        }
        rank.device.set_current()
        checked(driver.cuMemcpyHtoD(self.address, self.values.ctypes.data, self.values.nbytes))

    def expect(self, values):
        out = np.empty_like(self.values)
        self.rank.device.set_current()
        self.rank.stream.sync()
        checked(driver.cuMemcpyDtoH(out.ctypes.data, self.address, out.nbytes))
        np.testing.assert_array_equal(out, np.asarray(values, out.dtype))


class Rank:
    def __init__(self, number):
        self.number = number
        self.device = Device(number)
        self.device.set_current()
        self.stream = self.device.create_stream()
        self.comm = nccl.Communicator()

    def zeros(self, n=BLOCK):
        return Array(self, np.zeros(n, np.float32))

    def block(self, number=None):
        return Array(self, block(self.number if number is None else number))


class Job:
    """The ranks of this process, of `n` in all."""

    def __init__(self, process, processes, devices, path):
        self.n = processes * devices
        self.everyone = range(self.n)
        self.ranks = [Rank(process * devices + k) for k in range(devices)]
        unique_id = share_id(process, path)
        with nccl.group():
            for r in self.ranks:
                r.device.set_current()
                r.comm.initialize(self.n, r.number, unique_id)

    def each(self, function):
        """Calls function(rank) for all ranks in a group, with the rank's device as the current one;
        returns the results."""
        out = []
        with nccl.group():
            for r in self.ranks:
                r.device.set_current()
                out.append(function(r))
        return out

    def run(self, make_source, make_result, call, expected):
        """Runs call(rank, source, result) in a group, and compares the results of all ranks. A rank
        without an expected value is not compared."""
        pairs = {r.number: (make_source(r), make_result(r)) for r in self.ranks}
        self.each(lambda r: call(r, *pairs[r.number]))
        for r in self.ranks:
            value = expected(r)
            if value is not None:
                pairs[r.number][1].expect(value)


def share_id(process, path):
    if process == 0:
        part = path.with_suffix(".part")
        part.write_bytes(nccl.get_unique_id().as_bytes)
        part.rename(path)
    while not path.exists():
        time.sleep(0.02)
    return nccl.UniqueId.from_bytes(path.read_bytes())


# ---- checks ----


def queries(job):
    for r in job.ranks:
        comm = r.comm
        assert (comm.rank, comm.nranks, comm.device.device_id) == (r.number, job.n, r.number)
        p = comm.properties
        assert (p.rank, p.n_ranks, p.cuda_dev) == (r.number, job.n, r.number)
        assert p.host_rma_support and not p.device_api_support and not p.multimem_support
        assert (comm.team_world.n_ranks, comm.team_world.rank) == (job.n, r.number)
        assert (comm.team_lsa.n_ranks, comm.n_lsa_teams) == (1, job.n)
        assert comm.team_rank_to_world(comm.team_lsa, 0) == r.number
        assert comm.get_async_error() == 0
    assert str(nccl.get_version().libnccl.version) == "2.32.3"


def reductions(job):
    total = sum(block(r) for r in job.everyone)

    def reduce_with(op, **options):
        return lambda r, a, b: r.comm.allreduce(a, b, op, stream=r.stream, **options)

    def scaled(r, a, b):
        op = r.comm.create_pre_mul_sum(0.5, nccl.FLOAT32)
        r.comm.allreduce(a, b, op, stream=r.stream)

    job.run(Rank.block, Rank.zeros, reduce_with(nccl.SUM), lambda r: total)
    hints = nccl.NCCLCollConfig()
    job.run(Rank.block, Rank.zeros, reduce_with(nccl.AVG, config=hints), lambda r: total / job.n)
    job.run(Rank.block, Rank.zeros, scaled, lambda r: total / 2)
    job.run(
        Rank.block,
        Rank.zeros,
        lambda r, a, b: r.comm.reduce(a, b, nccl.MAX, root=0, stream=r.stream),
        lambda r: None if r.number else block(job.n - 1),
    )
    job.run(
        lambda r: Array(r, np.arange(job.n, dtype=np.int32) + r.number),
        lambda r: Array(r, np.zeros(1, np.int32)),
        lambda r, a, b: r.comm.reduce_scatter(a, b, nccl.SUM, stream=r.stream),
        lambda r: [sum(r.number + k for k in job.everyone)],
    )


def copies(job):
    whole = blocks(job.everyone)

    def zeros(r):
        return r.zeros(BLOCK * job.n)

    job.run(
        Rank.block,
        Rank.zeros,
        lambda r, a, b: r.comm.broadcast(a, b, root=job.n - 1, stream=r.stream),
        lambda r: block(job.n - 1),
    )
    job.run(
        Rank.block, zeros, lambda r, a, b: r.comm.allgather(a, b, stream=r.stream), lambda r: whole
    )
    job.run(
        lambda r: Array(r, blocks(10 * r.number + k for k in job.everyone)),
        zeros,
        lambda r, a, b: r.comm.alltoall(a, b, stream=r.stream),
        lambda r: blocks(10 * k + r.number for k in job.everyone),
    )
    job.run(
        lambda r: Array(r, whole),
        Rank.zeros,
        lambda r, a, b: r.comm.scatter(a, b, root=0, stream=r.stream),
        lambda r: block(r.number),
    )
    job.run(
        Rank.block,
        zeros,
        lambda r, a, b: r.comm.gather(a, b, root=0, stream=r.stream),
        lambda r: None if r.number else whole,
    )


def messages(job):
    def exchange(r, a, b):
        r.comm.send(a, (r.number + 1) % job.n, stream=r.stream)
        r.comm.recv(b, (r.number - 1) % job.n, stream=r.stream)

    job.run(Rank.block, Rank.zeros, exchange, lambda r: block((r.number - 1) % job.n))


def windows(job):
    memory = [r.zeros(BLOCK * job.n) for r in job.ranks]
    data = [r.block() for r in job.ranks]
    of = dict(zip((r.number for r in job.ranks), zip(memory, data)))
    registered = job.each(lambda r: r.comm.register_window(of[r.number][0]))
    window = dict(zip(of, registered))

    def put(r):
        for peer in job.everyone:
            r.comm.put_signal(
                of[r.number][1], peer, window[r.number], BLOCK * r.number, stream=r.stream
            )
        r.comm.wait_signal([nccl.WaitSignalDesc(k) for k in job.everyone], stream=r.stream)

    def signal(r):
        left = nccl.WaitSignalDesc((r.number - 1) % job.n, signal_index=1, context=2)
        r.comm.signal((r.number + 1) % job.n, 1, 2, stream=r.stream)
        r.comm.wait_signal(left, stream=r.stream)

    job.each(put)
    for r in job.ranks:
        assert window[r.number].user_ptr == of[r.number][0].address
        of[r.number][0].expect(blocks(job.everyone))
    job.each(signal)
    for r in job.ranks:
        r.stream.sync()
        window[r.number].close()
        r.comm.register_buffer(of[r.number][1]).close()


def communicators(job):
    for r, half in zip(job.ranks, job.each(lambda r: r.comm.split(r.number % 2, -r.number))):
        assert half.nranks == len(range(r.number % 2, job.n, 2)), half
        half.destroy()
    with nccl.group():
        fewer = [r.comm.shrink([0]) for r in job.ranks if r.number]
    for comm in fewer:
        assert comm.nranks == job.n - 1
        comm.destroy()
    for r in job.ranks:
        r.comm.suspend()
        r.comm.resume()
        assert r.comm.get_mem_stat(nccl.NcclCommMemStat.GPU_MEM_SUSPENDED) == 0


def captures(job):
    """A graph of an all-reduce, launched twice, doubles its input twice for two ranks."""
    data = {r.number: Array(r, np.ones(4, np.int32)) for r in job.ranks}
    modes = driver.CUstreamCaptureMode
    execs = []
    for r in job.ranks:
        r.device.set_current()
        mode = modes.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        checked(driver.cuStreamBeginCapture(int(r.stream.handle), mode))
    job.each(
        lambda r: r.comm.allreduce(data[r.number], data[r.number], nccl.SUM, stream=r.stream)
    )
    for r in job.ranks:
        graph = checked(driver.cuStreamEndCapture(int(r.stream.handle)))
        execs.append(checked(driver.cuGraphInstantiate(graph, 0)))
        checked(driver.cuGraphDestroy(graph))
    for _ in range(2):
        for r, graph in zip(job.ranks, execs):
            checked(driver.cuGraphLaunch(graph, int(r.stream.handle)))
    for r, graph in zip(job.ranks, execs):
        data[r.number].expect([job.n**2] * 4)
        checked(driver.cuGraphExecDestroy(graph))


def errors(job):
    for r in job.ranks:
        data = r.block()
        try:
            r.comm.send(data, job.n, stream=r.stream)
        except NCCLError as error:
            assert "invalid argument" in str(error), error
        else:
            raise AssertionError("a send to a rank that does not exist succeeded")
        assert f"peer is {job.n}:" in r.comm.get_last_error(), r.comm.get_last_error()


def main():
    process, processes, devices = (int(text) for text in sys.argv[1:4])
    job = Job(process, processes, devices, Path(sys.argv[4]))
    for check in (queries, reductions, copies, messages, windows, communicators, captures, errors):
        check(job)
        print(check.__name__)
    for r in job.ranks:
        r.comm.finalize()
    for r in job.ranks:
        r.comm.destroy()


main()
