"""Contestants on hosts that are far from each other (wan.py): a peer on each, rank r on host order[r], so that order is the launch order.

Addresses are none of loopback, so elastic runs are secured by a token, as they are by default there; a plain job and PCCL are not.
"""

from . import build, pccl
from .group import Group

TOKEN = "a token of the benchmark's own, which guards nothing"
PORT = 29401
# What PCCL takes when nobody says, and what it is asked for next. It has a thread for each connection, which polls without sleeping: with six peers on
# two cores they take the cores from each other, and a sender whose receiver has given up meanwhile ends with std::terminate, unless it has but one thread.
PCCL_PROBES = (16, 1)


def plain(net, order, path=None):
    """A job of `tutti run`, from the first host."""
    tutti = build.tutti(path)
    return Group("Tutti, plain", len(order), [(net.inside(
        order[0], tutti, "run", "-n", len(order), "--hosts", ",".join(net.names[h] for h in order), "--rsh", net.on, "--",
        tutti, "perf", "--interactive", "{dir}", "--wire", "tcp"), {})])


def elastic(net, order, path=None, port=PORT):
    """Members of a run, whose coordinator is on the first host."""
    peer = build.elastic("elastic_peer", ["elastic_peer.c", "meeting.c", *build.PEER])
    at = f"{net.address(order[0])}:{port}"
    token = {"TUTTI_TOKEN": TOKEN}
    return Group("Tutti, elastic", len(order), [
        (net.inside(order[0], build.tutti(path), "coordinator", "--listen", at, "--journal", "none"), token),
        *((net.inside(host, peer, "{dir}", rank, len(order), at), token) for rank, host in enumerate(order))])


def pccl_peers(net, order, port, probes=PCCL_PROBES[0]):
    """PCCL's, whose master is on the first host, at a port that none has had before; probes: connections at once by which its optimize measures a
    link."""
    start, library = pccl.command()
    at = f"{net.address(order[0])}:{port}"
    env = {"PCCL_NUM_BENCHMARK_CONNECTIONS": str(probes)}
    return Group("PCCL", len(order), [(net.inside(host, *start, "{dir}", rank, len(order), at, library), env) for rank, host in enumerate(order)])
