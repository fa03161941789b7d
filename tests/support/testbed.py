#!/usr/bin/env python3
"""Hosts with several network cards each, with every link shaped to one rate in both directions:

      host0              host1              host2              host3          hosts of several ranks
    eth0 eth1 ...      eth0 eth1 ...      eth0 eth1 ...      eth0 eth1 ...    10.77.<rail>.<host + 1>/24
     |    |             |    |             |    |             |    |     HTB  egress of a host
     |    |             |    |             |    |             |    |     HTB  ingress of a host
    =+====|=============+====|=============+====|=============+====|=====     switch of rail 0
         =+==================+==================+==================+=====     switch of rail 1, etc.

The switches are bridges on a separate host. Rails are not connected with each other. All
connections use one congestion control, whatever the default of this machine, so that numbers are
comparable.

    testbed.py [--hosts N] [--rails R] [--mbit M] [COMMAND...]

runs the command, or a shell, on host0 of such a network."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hosts import Hosts, HostsError, why_not as why_no_hosts     # noqa: E402

SWITCH = "switch"
BURST_US = 1250         # tokens that an idle link may accumulate, as time at its rate
QUEUE_MS = 20           # size of a port's buffer
CONGESTION = "cubic"
IPERF_PORT = 5201
IPERF_START_S = 10


def why_not():
    """Returns why testbeds cannot be created here, or None."""
    return why_no_hosts(("tc", "iproute2"), ("iperf3", "iperf3"), ("ping", "iputils-ping"))


def shaping(device, mbit):
    """Returns the tc commands that limit the rate of a device."""
    burst = max(4096, mbit * BURST_US // 8)
    queue = max(64 << 10, mbit * QUEUE_MS * 1000 // 8)
    return [f"qdisc add dev {device} root handle 1: htb default 1",
            f"class add dev {device} parent 1: classid 1:1 htb rate {mbit}mbit ceil {mbit}mbit "
            f"burst {burst} cburst {burst}",
            f"qdisc add dev {device} parent 1:1 bfifo limit {queue}"]


class Testbed:
    """A context manager: nhosts hosts with nrails links of mbit Mbit/s each, and a TCP congestion
    control."""

    def __init__(self, nhosts, nrails, mbit, congestion=CONGESTION):
        self.nhosts, self.nrails, self.mbit, self.congestion = nhosts, nrails, mbit, congestion
        self.hosts = Hosts(*(f"host{h}" for h in range(nhosts)), SWITCH)

    @staticmethod
    def device(rail):
        return f"eth{rail}"

    @staticmethod
    def subnet(rail):
        return f"10.77.{rail}.0/24"

    @staticmethod
    def address(host, rail=0):
        return f"10.77.{rail}.{host + 1}"

    @property
    def on(self):
        return self.hosts.on

    def inside(self, host, *argv):
        """Returns argv for a host."""
        return self.hosts.inside(f"host{host}", *argv)

    def __enter__(self):
        self.hosts.__enter__()
        try:
            self._make_switches()
            for host in range(self.nhosts):
                self._attach(host)
            self._shape_ports()
            self.hosts.add_names({f"host{h}": self.address(h) for h in range(self.nhosts)})
        except BaseException:
            self.hosts.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.hosts.__exit__()

    def _make_switches(self):
        self.hosts.batch(SWITCH, "ip", [line for rail in range(self.nrails) for line in
                                        (f"link add rail{rail} type bridge",
                                         f"link set rail{rail} up")])

    @staticmethod
    def _port(host, rail):
        return f"port{host}.{rail}"

    def _attach(self, host):
        """Creates a host's links, and the shaping of its egress."""
        name = f"host{host}"
        lines = ["link set lo up"]
        for rail in range(self.nrails):
            device = self.device(rail)
            lines += [f"link add {device} type veth peer name {self._port(host, rail)} netns "
                      f"{self.hosts.network_of(SWITCH)}",
                      f"address add {self.address(host, rail)}/24 dev {device}",
                      f"link set {device} up",
                      f"route change {self.subnet(rail)} dev {device} src "
                      f"{self.address(host, rail)} congctl {self.congestion}"]
        self.hosts.batch(name, "ip", lines)
        self.hosts.batch(name, "tc", [line for rail in range(self.nrails)
                                      for line in shaping(self.device(rail), self.mbit)])

    def _shape_ports(self):
        """Configures the switch ends of all links, and the shaping of their egress."""
        ports = [(self._port(host, rail), rail) for host in range(self.nhosts)
                 for rail in range(self.nrails)]
        self.hosts.batch(SWITCH, "ip", [f"link set {port} master rail{rail} up"
                                        for port, rail in ports])
        self.hosts.batch(SWITCH, "tc", [line for port, _ in ports
                                        for line in shaping(port, self.mbit)])

    def counters(self, host):
        """[(bytes sent, bytes received)] of each rail of a host, as counted by its devices, with
        all headers."""
        devices = {d["ifname"]: d["stats64"]
                   for d in json.loads(self.hosts.run(f"host{host}", "ip", "-json", "-stats",
                                                      "link"))}
        stats = [devices[self.device(rail)] for rail in range(self.nrails)]
        return [(s["tx"]["bytes"], s["rx"]["bytes"]) for s in stats]

    def iperf_mbit(self, seconds):
        """The goodput of one iperf3 stream on each rail, concurrently, from host 0 to host 1, in
        Mbit/s, without their first second."""
        servers = [subprocess.Popen(self.inside(1, "iperf3", "-s", "-1", "-B",
                                                self.address(1, rail)), stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL) for rail in range(self.nrails)]
        try:
            self._await_listeners(1, [self.address(1, rail) for rail in range(self.nrails)])
            clients = [subprocess.Popen(self.inside(0, "iperf3", "-c", self.address(1, rail), "-t",
                                                    seconds, "-O", 1, "-J"),
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)
                       for rail in range(self.nrails)]
            return [goodput_mbit(client.communicate(timeout=seconds + 30)[0]) for client in clients]
        finally:
            for server in servers:
                server.kill()
                server.wait()

    def _await_listeners(self, host, addresses):
        """Waits until iperf3 listens; it does not report it."""
        end = time.monotonic() + IPERF_START_S
        while True:
            listening = self.hosts.run(f"host{host}", "ss", "-Htln")
            if all(f"{address}:{IPERF_PORT}" in listening for address in addresses):
                return
            if time.monotonic() > end:
                raise HostsError(f"iperf3 does not listen on host{host} after {IPERF_START_S} s")
            time.sleep(0.02)

    def ping_us(self, count=20):
        """The median round trip of a small packet from host 0 to host 1 over rail 0, in
        microseconds."""
        text = self.hosts.run("host0", "ping", "-n", "-c", count, "-i", "0.01", self.address(1))
        return statistics.median(float(line.split("time=")[1].split()[0]) * 1000
                                 for line in text.splitlines() if "time=" in line)


def goodput_mbit(report):
    """Returns the received Mbit/s in the output of an iperf3 client."""
    try:
        result = json.loads(report)
        return result["end"]["sum_received"]["bits_per_second"] / 1e6
    except (ValueError, KeyError):
        said = report.strip()[-300:] or "it said nothing"
        raise HostsError(f"iperf3 over the shaped links failed: {said}") from None


def add_size_options(parser):
    """--hosts, --rails, --mbit."""
    def number(low, high):
        def parse(text):
            if not text.isdigit() or not low <= int(text) <= high:
                raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low} to {high}")
            return int(text)
        return parse

    parser.add_argument("--hosts", type=number(1, 64), default=4, metavar="N",
                        help="hosts (default 4)")
    parser.add_argument("--rails", type=number(1, 16), default=4, metavar="N",
                        help="network cards of each host (default 4)")
    parser.add_argument("--mbit", type=number(1, 100000), default=100, metavar="M",
                        help="rate of each, in Mbit/s, in either direction (default 100)")
    parser.add_argument("--congestion", default=CONGESTION, metavar="NAME",
                        help=f"TCP's congestion control (default {CONGESTION})")


def visit(options, command=()):
    """Runs a command, or an interactive shell, on host0 of a testbed; returns its exit status. `on
    HOST COMMAND...` is in its path."""
    with Testbed(options.hosts, options.rails, options.mbit, options.congestion) as bed:
        env = {**os.environ,
               "PATH": f"{bed.hosts.directory}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"}
        if not command:
            print(f"{bed.nhosts} hosts with {bed.nrails} rails of {bed.mbit} Mbit/s: host0 to "
                  f"host{bed.nhosts - 1}, eth0 "
                  f"({bed.subnet(0)}) to {bed.device(bed.nrails - 1)} "
                  f"({bed.subnet(bed.nrails - 1)}). This shell is on host0.\n"
                  f"  on HOST COMMAND...   runs a command on another; works as --rsh of tutti run: "
                  f"{bed.on}\n"
                  "  exit                 ends the testbed and everything in it", file=sys.stderr)
            command = [os.environ.get("SHELL", "/bin/sh")]
        return subprocess.run(bed.inside(0, *command), env=env, check=False).returncode


def main(argv):
    parser = argparse.ArgumentParser(prog="testbed.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_size_options(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND...",
                        help="instead of a shell")
    options = parser.parse_args(argv)
    why = why_not()
    try:
        if why:
            raise HostsError(why)
        return visit(options, options.command)
    except HostsError as error:
        print(f"testbed.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
