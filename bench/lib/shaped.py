"""Links that we shape ourselves: every rank in a network namespace of its own, all on one bridge.

    ns 0          ns 1          ns 2          ns 3          10.77.0.(rank + 1) on eth0
     |  HTB        |  HTB        |  HTB        |  HTB       what leaves a rank
     |  HTB        |  HTB        |  HTB        |  HTB       what arrives at it
    =+=============+=============+=============+=           bridge, in a namespace too

Namespaces vanish with everything in them, so removing them is the whole clean-up. Those of a run that was
killed are removed by the next one.
"""

import json
import os
import re
import shutil
import subprocess
import time

from . import build
from .leftover import is_alive
from .say import Problem

PREFIX = "ttbench"
QUEUE = "1mb"       # a switch port's worth of buffer


def why_not():
    """Returns why namespaces cannot be made here, or None."""
    if os.geteuid():
        return "network namespaces need root"
    for name in ("ip", "tc"):
        if not shutil.which(name):
            return f"{name} is not installed (Debian: apt-get install iproute2)"
    if not shutil.which("iperf3"):
        return "iperf3 is not installed (Debian: apt-get install iperf3)"
    return None


def _do(*argv):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"{' '.join(str(w) for w in argv)}: {done.stderr.strip()}")
    return done.stdout


def remove_leftovers():
    """Removes the namespaces of runs whose process is gone."""
    for line in _do("ip", "netns", "list").splitlines():
        match = re.match(rf"({PREFIX}(\d+)-\w+)", line)
        if match and not is_alive(match[2]):
            subprocess.run(["ip", "netns", "del", match[1]], check=False)


class Network:
    """A context manager: n namespaces behind links of rate_mbit in each direction."""

    def __init__(self, n, rate_mbit):
        self.n, self.rate_mbit = n, rate_mbit
        self._base = f"{PREFIX}{os.getpid()}"
        self._made = []

    def name(self, rank):
        return f"{self._base}-{rank}"

    @staticmethod
    def address(rank):
        return f"10.77.0.{rank + 1}"

    def inside(self, rank, *argv):
        """argv, as it is run in the namespace of rank."""
        return ["ip", "netns", "exec", self.name(rank), *argv]

    def __enter__(self):
        remove_leftovers()
        try:
            self._make("br")
            self._ip("br", "link", "add", "br0", "type", "bridge")
            self._ip("br", "link", "set", "br0", "up")
            for rank in range(self.n):
                self._make(rank)
                self._attach(rank)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self._made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        self._made = []

    def _make(self, what):
        _do("ip", "netns", "add", self.name(what))
        self._made.append(self.name(what))

    def _ip(self, what, *argv):
        _do("ip", "-n", self.name(what), *argv)

    def _attach(self, rank):
        port = f"port{rank}"
        self._ip(rank, "link", "add", "eth0", "type", "veth", "peer", "name", port,
                 "netns", self.name("br"))
        self._ip(rank, "address", "add", f"{self.address(rank)}/24", "dev", "eth0")
        self._ip(rank, "link", "set", "lo", "up")
        self._ip(rank, "link", "set", "eth0", "up")
        self._ip("br", "link", "set", port, "master", "br0", "up")
        self._shape(rank, "eth0")
        self._shape("br", port)

    def _shape(self, what, device):
        rate = f"{self.rate_mbit}mbit"
        _do("tc", "-n", self.name(what), "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1")
        _do("tc", "-n", self.name(what), "class", "add", "dev", device, "parent", "1:", "classid", "1:1",
            "htb", "rate", rate, "ceil", rate, "burst", "64kb", "cburst", "64kb")
        _do("tc", "-n", self.name(what), "qdisc", "add", "dev", device, "parent", "1:1", "bfifo", "limit", QUEUE)

    def iperf_mbit(self, seconds):
        """The goodput of one iperf3 stream from rank 0 to rank 1, in Mbit/s; its first second is left out."""
        iperf = build.program("iperf3", "iperf3")
        server = subprocess.Popen(self.inside(1, iperf, "-s", "-1"), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            for _ in range(50):     # the server does not say when it listens
                result = self._iperf_client(iperf, seconds)
                if "sum_received" in result.get("end", {}):
                    return result["end"]["sum_received"]["bits_per_second"] / 1e6
                time.sleep(0.1)
        finally:
            server.kill()
            server.wait()
        raise Problem(f"iperf3 over the shaped link failed: {result.get('error', result)}")

    def _iperf_client(self, iperf, seconds):
        argv = self.inside(0, iperf, "-c", self.address(1), "-t", str(seconds), "-O", "1", "-J")
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"error": (done.stderr or done.stdout)[-300:]}
