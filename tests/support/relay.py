#!/usr/bin/env python3
"""Hosts that are far from each other: each has one network device, and a relay in user space carries what leaves it to the host that it is
for, so much later as these two are far from each other. For kernels without netem.

      host0          host1          host2          host3
       far0           far0           far0           far0         10.78.0.<host + 1>/24
        |              |              |              |           TUN devices
        +-----------[ relay: delay_ms(a, b) one way ]------------+

The relay is a process of its own, which ends when its standard input closes, however its owner dies.

    relay.py DELAYS HOST...       JSON on its command line: DELAYS[a][b] in milliseconds, HOST: the path of a network namespace
"""

import ctypes
import fcntl
import heapq
import json
import os
import select
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hosts import Hosts, HostsError, why_not as why_no_hosts     # noqa: E402

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
DEVICE = "far0"
MTU = 16384             # fewer packets: Python carries them
QUEUE_PACKETS = 4000    # under way at once; what comes then is lost
READY = "ready"


def why_not():
    """Returns why relayed hosts cannot be made here, or None."""
    why = why_no_hosts()
    if why:
        return why
    try:
        os.close(os.open(TUN, os.O_RDWR))
    except OSError as error:
        return f"{TUN} cannot be opened: {error.strerror}"
    return None


class FarHosts:
    """A context manager: hosts with these names, `delay_ms(a, b)` apart (numbers of hosts; the same both ways)."""

    def __init__(self, names, delay_ms):
        self.hosts = Hosts(*names)
        self.names = list(names)
        n = len(self.names)
        self._delays = [[0 if a == b else delay_ms(min(a, b), max(a, b)) for b in range(n)] for a in range(n)]
        self._relay = None

    @staticmethod
    def address(host):
        return f"10.78.0.{host + 1}"

    def inside(self, host, *argv):
        return self.hosts.inside(self.names[host], *argv)

    def __enter__(self):
        self.hosts.__enter__()
        try:
            paths = [self.hosts.network_of(name) for name in self.names]
            self._relay = subprocess.Popen([sys.executable, "-I", Path(__file__), json.dumps(self._delays), *paths],
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            told = self._relay.stdout.readline().strip()
            if told != READY:
                raise HostsError(f"the relay did not start: {told or 'it said nothing'}")
            for host, name in enumerate(self.names):
                self.hosts.batch(name, "ip", ["link set lo up", f"address add {self.address(host)}/24 dev {DEVICE}",
                                              f"link set {DEVICE} mtu {MTU} up"])
            self.hosts.tell_names({name: self.address(host) for host, name in enumerate(self.names)})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._relay:
            self._relay.stdin.close()
            self._relay.stdout.close()
            self._relay.wait()
        self._relay = None
        self.hosts.__exit__()


def open_device(network):
    """A TUN device in that network namespace; this process goes there, and stays until the next."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(network, os.O_RDONLY)
    if libc.setns(fd, 0x40000000):
        raise OSError(ctypes.get_errno(), f"setns {network}")
    os.close(fd)
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    return device


def target_of(packet, nhosts):
    """The number of the host that an IPv4 packet is for, or None."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[16:19] != bytes([10, 78, 0]):
        return None
    host = packet[19] - 1
    return host if 0 <= host < nhosts else None


def carry(devices, delays_s):
    """Until standard input closes."""
    poll = select.poll()
    host_of = {device: host for host, device in enumerate(devices)}
    for device in devices:
        poll.register(device, select.POLLIN)
    poll.register(sys.stdin, select.POLLIN | select.POLLHUP)
    under_way, count = [], 0        # (when it arrives, order, device, packet)
    while True:
        wait_ms = max(0.0, (under_way[0][0] - time.monotonic()) * 1000) if under_way else None
        for fd, _ in poll.poll(wait_ms):
            if fd not in host_of:
                return
            try:
                packet = os.read(fd, 65536)
            except OSError:
                continue
            source, target = host_of[fd], target_of(packet, len(devices))
            if target is not None and len(under_way) < QUEUE_PACKETS:
                count += 1
                heapq.heappush(under_way, (time.monotonic() + delays_s[source][target], count, devices[target], packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, device, packet = heapq.heappop(under_way)
            try:
                os.write(device, packet)
            except OSError:
                pass            # it is not up


def main(delays, *networks):
    try:
        devices = [open_device(network) for network in networks]
    except OSError as why:
        print(why, flush=True)
        return 1
    print(READY, flush=True)
    carry(devices, [[ms / 1000 for ms in row] for row in json.loads(delays)])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
