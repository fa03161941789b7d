"""Contestants on hosts at large distances (wan.py): one peer per host, rank r on host order[r], so
that order is the launch order.

Addresses are not loopback, so elastic runs are secured by a token, the default there; plain jobs
and PCCL are not."""

from . import build, pccl
from .group import Group

TOKEN = "a token of the benchmark's own, which guards nothing"
PORT = 29401
# PCCL's default, and the value to retry with. It has one thread per connection, which polls without
# sleeping. With six peers on two cores the threads compete for the cores. If a receiver has given
# up meanwhile, its sender ends with std::terminate, unless it has only one thread.
PCCL_PROBES = (16, 1)


def plain(net, order, path=None):
    """A job of `tutti run`, started on the first host."""
    tutti = build.tutti(path)
    return Group("Tutti, plain", len(order), [(net.inside(
        order[0], tutti, "run", "-n", len(order), "--hosts", ",".join(net.names[h] for h in order),
        "--rsh", net.on, "--",
        tutti, "perf", "--interactive", "{dir}", "--wire", "tcp"), {})])


def elastic(net, order, path=None, port=PORT):
    """Members of a run, whose coordinator is on the first host."""
    peer = build.elastic("elastic_peer", ["elastic_peer.c", "meeting.c", *build.PEER])
    at = f"{net.address(order[0])}:{port}"
    token = {"TUTTI_TOKEN": TOKEN}
    return Group("Tutti, elastic", len(order), [
        (net.inside(order[0], build.tutti(path), "coordinator", "--listen", at, "--journal",
                    "none"), token),
        *((net.inside(host, peer, "{dir}", rank, len(order), at), token)
          for rank, host in enumerate(order))])


def pccl_peers(net, order, port, probes=PCCL_PROBES[0], pool=8):
    """PCCL's peers, whose master is on the first host, at an unused port. probes: number of
    concurrent connections with which optimize measures a link; pool: of those that carry data."""
    start, library = pccl.command()
    at = f"{net.address(order[0])}:{port}"
    env = {"PCCL_NUM_BENCHMARK_CONNECTIONS": str(probes), "PCCL_PEER_POOL": str(pool)}
    return Group("PCCL", len(order),
                 [(net.inside(host, *start, "{dir}", rank, len(order), at, library), env)
                  for rank, host in enumerate(order)])
