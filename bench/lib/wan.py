"""Emulated long-distance networks (tests/support/wan.py) for benchmarks: iperf3 streams between
hosts, and the timing errors of the network."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import wan                                                                  # noqa: E402
from hosts import HostsError                                                # noqa: E402,F401
from testbed import goodput_mbit                                            # noqa: E402
from wan import Wan, deployment, visit, whole_matrix                        # noqa: E402,F401

PORT = 5301
START_S = 10
PAYLOAD = (wan.MTU - 52) / wan.MTU      # share of TCP over IPv4 with time stamps, in a full packet


def why_not():
    """Returns why nothing can be measured on such a network here, or None."""
    return wan.why_not(("iperf3", "iperf3"), ("ss", "iproute2"))


@dataclass(frozen=True)
class Carried:
    """Throughput of streams over a network, and the network's statistics."""
    mbit: list              # goodput of each stream
    packets_s: float        # of all hosts in both directions, as received by the relay
    segments_s: float
    dropped: int            # segments dropped by a full queue
    # packets that the relay had no time to read: then the machine limited the rate, not the matrix
    unread: int
    late_us: float          # mean delay of packets in addition to the configured one
    queue_peak_bytes: int


def totals(net):
    """The relay's counters so far; the difference of two of them describes the time between."""
    stats = net.stats()
    pairs = [pair for row in stats["pairs"] for pair in row if pair]
    return {"packets": sum(p["packets"] for p in pairs),
            "segments": sum(p["segments"] for p in pairs),
            "dropped": sum(p[f"dropped_{where}"] for p in pairs
                           for where in ("up", "pair", "down", "room")),
            "peak": max(p["queue_peak_bytes"] for p in pairs), "unread": net.unread(),
            "carried": stats["carried"],
            "late_us": stats["late_mean_us"] * stats["carried"], "s": stats["now_ns"] / 1e9}


def ring_between(before, after):
    """The order, starting from host 0, in which each host sent most bytes to the next one, between
    two results of net.stats(); None if it is not a ring of all hosts."""
    def bytes_between(source, target):
        return (after["pairs"][source][target]["bytes"] - before["pairs"][source][target]["bytes"]
                if source != target else -1)

    nhosts = len(after["pairs"])
    following = [max(range(nhosts), key=lambda target, source=source: bytes_between(source, target))
                 for source in range(nhosts)]
    order = [0]
    while len(order) < nhosts:
        order.append(following[order[-1]])
    return order if len(set(order)) == nhosts and following[order[-1]] == 0 else None


def _await_listeners(net, ways):
    """Waits until all iperf3 servers listen; they do not report it."""
    end = time.monotonic() + START_S
    for number, (_, target) in enumerate(ways):
        while f"{net.address(target)}:{PORT + number}" not in net.run(target, "ss", "-Htln"):
            if time.monotonic() > end:
                raise HostsError(f"iperf3 does not listen on {net.names[target]} after {START_S} s")
            time.sleep(0.02)


def streams(net, ways, seconds, warm_s=2):
    """Runs one iperf3 stream for each (source, target) of ways, concurrently. Their first warm_s
    seconds are excluded."""
    servers = [subprocess.Popen(net.inside(target, "iperf3", "-s", "-1", "-B", net.address(target),
                                           "-p", PORT + number),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for number, (_, target) in enumerate(ways)]
    try:
        _await_listeners(net, ways)
        before = totals(net)
        clients = [subprocess.Popen(net.inside(source, "iperf3", "-c", net.address(target), "-p",
                                               PORT + number, "-t", seconds, "-O", warm_s,
                                               "-J"), stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True)
                   for number, (source, target) in enumerate(ways)]
        mbit = [goodput_mbit(client.communicate(timeout=seconds + warm_s + 60)[0])
                for client in clients]
        after = totals(net)
    finally:
        for server in servers:
            server.kill()
            server.wait()
    took_s = after["s"] - before["s"]
    return Carried(mbit=mbit, packets_s=(after["packets"] - before["packets"]) / took_s,
                   segments_s=(after["segments"] - before["segments"]) / took_s,
                   dropped=after["dropped"] - before["dropped"],
                   unread=after["unread"] - before["unread"], queue_peak_bytes=after["peak"],
                   late_us=(after["late_us"]
                            - before["late_us"]) / max(1, after["carried"] - before["carried"]))
