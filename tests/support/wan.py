#!/usr/bin/env python3
"""Hosts at large distances: each has one network device, and a relay in user space forwards its
packets to the destination host with the latency, rate and loss of a matrix. For kernels without
netem; see docs/wan-testbed.md.

      paris          london         tokyo           each a network namespace
       wan0           wan0           wan0           10.79.0.<host + 1>/24, fd79::<host + 1>/64
        |              |              |             TUN devices
        +------[ prog_wan_relay ]-----+             one process, which ends with its parent

    wan.py [--congestion NAME] MATRIX [COMMAND...]

runs the command, or a shell, on the first host of such a network."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from hosts import Hosts, HostsError, why_not as why_no_hosts     # noqa: E402

TUN = "/dev/net/tun"
DEVICE = "wan0"
SUBNET_4, SUBNET_6 = "10.79.0.0/24", "fd79::/64"
MTU = 1500
DEVICE_PACKETS = 20000      # queue length of a device while the relay does not read it
CONGESTION = "cubic"
ROOT = Path(__file__).resolve().parents[2]
DEPLOYMENTS = Path(__file__).resolve().parent / "wan"


def relay_program():
    """The path of the relay: of the build in TUTTI_BUILD_DIR, or else of the release build."""
    return Path(os.environ.get("TUTTI_BUILD_DIR",
                               ROOT / "build" / "release")).resolve() / "tests" / "wan" / "prog_wan_relay"


def why_not(*programs):
    """Returns why such networks cannot be created here, or None. programs: as in hosts.why_not."""
    why = why_no_hosts(*programs)
    if why:
        return why
    try:
        os.close(os.open(TUN, os.O_RDWR))
    except OSError as error:
        return f"{TUN} cannot be opened: {error.strerror}"
    if not relay_program().exists():
        return f"{relay_program()} does not exist: build the tests"
    return None


def deployment(name):
    """The matrix of that name in tests/support/wan, or the file of that name."""
    known = sorted(path.stem for path in DEPLOYMENTS.glob("*.json"))
    if name in known:
        return DEPLOYMENTS / f"{name}.json"
    if not Path(name).exists():
        raise HostsError(f"there is no file {name}, and it is none of {', '.join(known)}")
    return Path(name)


def whole_matrix(matrix):
    """Converts a matrix (a path, or file contents) to the relay's format, with all pairs and
    without defaults. {"seed", "hosts": [{"name", "up_mbit", "up_queue_bytes", "down_mbit",
    "down_queue_bytes"}], "pairs": [from][to]: {"delay_ms", "loss", "loss_burst", "queue",
    "rate_mbit", "queue_bytes"}}; a rate of None is no limit. Raises HostsError with the error in
    the matrix."""
    path, text = ("-", json.dumps(matrix)) if isinstance(matrix, dict) else (matrix, None)
    done = subprocess.run([relay_program(), "--show", path], input=text, capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise HostsError(done.stderr.strip().removeprefix("tutti error: "))
    return json.loads(done.stdout)


class Wan:
    """A context manager: the hosts of a matrix (a path, or file contents), with a TCP congestion
    control. sysctls: {"net/ipv4/tcp_rmem": value}, set on each host; cuts: the kernel segments long
    packets before the relay gets them. .names, .matrix: as in whole_matrix; .hosts: as in hosts.py;
    .on: a remote shell."""

    def __init__(self, matrix, congestion=CONGESTION, sysctls=None, cuts=False):
        self.matrix = whole_matrix(matrix)
        self.names = [host["name"] for host in self.matrix["hosts"]]
        self.hosts = Hosts(*self.names)
        self.congestion, self.sysctls, self.cuts = congestion, sysctls or {}, cuts
        self._source, self._relay, self._said = matrix, None, ""

    @staticmethod
    def address(host):
        return f"10.79.0.{host + 1}"

    @staticmethod
    def address6(host):
        return f"fd79::{host + 1:x}"

    @property
    def on(self):
        return self.hosts.on

    @property
    def nhosts(self):
        return len(self.names)

    def inside(self, host, *argv):
        """Returns argv for host number `host`."""
        return self.hosts.inside(self.names[host], *argv)

    def run(self, host, *argv, stdin=None):
        """Runs a command on a host; returns its output, raises HostsError if it fails."""
        return self.hosts.run(self.names[host], *argv, stdin=stdin)

    def __enter__(self):
        self.hosts.__enter__()
        try:
            self._start_relay()
            for host in range(self.nhosts):
                self._attach(host)
            self.hosts.add_names({name: self.address(host) for host, name in enumerate(self.names)})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *trouble):
        relay, self._relay = self._relay, None
        if relay:
            for end in (relay.stdin, relay.stdout):
                try:
                    end.close()
                except BrokenPipeError:
                    pass            # it was killed during a command
            said = self._last_words(relay)
            relay.stderr.close()
            relay.wait()
        self.hosts.__exit__()
        if relay and relay.returncode > 0 and not any(trouble):
            raise HostsError(f"the relay ended with status {relay.returncode}: {said}")

    def _last_words(self, relay):
        """Its remaining standard error, until it ends."""
        self._said += relay.stderr.read()
        return self._said.strip() or "it said nothing"

    def _start_relay(self):
        path = self.hosts.directory / "matrix.json"
        path.write_text(json.dumps(self._source) if isinstance(self._source, dict)
                        else Path(self._source).read_text())
        argv = [relay_program(), *(["--cut"] if self.cuts else []), path,
                *map(self.hosts.network_of, self.names)]
        self._relay = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        if self._relay.stdout.readline().strip() != "ready":
            raise HostsError(f"the relay did not start: {self._last_words(self._relay)}")

    def _attach(self, host):
        name = self.names[host]
        self.hosts.batch(name, "ip", [
            "link set lo up",
            f"link set {DEVICE} mtu {MTU} txqueuelen {DEVICE_PACKETS} addrgenmode none up",
            f"address add {self.address(host)}/24 dev {DEVICE}",
            f"address add {self.address6(host)}/64 dev {DEVICE} nodad",
            f"route change {SUBNET_4} dev {DEVICE} src {self.address(host)} congctl "
            f"{self.congestion}",
            f"route replace {SUBNET_6} dev {DEVICE} proto kernel metric 256 congctl "
            f"{self.congestion}"])
        if self.sysctls:
            self.run(host, "sh", "-c", "\n".join(f"echo '{value}' >/proc/sys/{key} || exit 1"
                                                 for key, value in self.sysctls.items()))

    def _command(self, line):
        try:
            self._relay.stdin.write(line + "\n")
            self._relay.stdin.flush()
            said = self._relay.stdout.readline().strip()
        except BrokenPipeError:
            said = ""
        if not said:
            raise HostsError(f"the relay has ended: {self._last_words(self._relay)}")
        return said

    def stats(self):
        """The relay's counters, as listed in docs/wan-testbed.md."""
        return json.loads(self._command("stats"))

    def change(self, source, target, **values):
        """Changes delay_ms, rate_mbit, loss or loss_burst of packets from one host to another from
        now on; the queue keeps its size."""
        for key, value in values.items():
            said = self._command(f"change {source} {target} {key} {value!r}")
            if said != "changed":
                raise HostsError(f"change {self.names[source]} to {self.names[target]}, {key} "
                                 f"{value}: {said}")

    def unread(self):
        """Packets dropped by devices because the relay did not read them in time. If not 0, this
        machine is too slow."""
        return sum(int(self.run(host, "cat", f"/sys/class/net/{DEVICE}/statistics/tx_dropped"))
                   for host in range(self.nhosts))


def visit(options):
    """Runs a command, or an interactive shell, on the first host; returns its exit status. `on HOST
    COMMAND...` is in its path."""
    with Wan(deployment(options.matrix), options.congestion) as wan:
        env = {**os.environ,
               "PATH": f"{wan.hosts.directory}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"}
        command = options.command
        if not command:
            print(f"{wan.nhosts} hosts: {', '.join(wan.names)}; {wan.address(0)} and so on. This "
                  f"shell is on {wan.names[0]}.\n"
                  f"  on HOST COMMAND...   runs a command on another; works as --rsh of tutti run: "
                  f"{wan.on}\n"
                  "  exit                 ends the network and everything in it", file=sys.stderr)
            command = [os.environ.get("SHELL", "/bin/sh")]
        return subprocess.run(wan.inside(0, *command), env=env, check=False).returncode


def main(argv):
    parser = argparse.ArgumentParser(prog="wan.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--congestion", default=CONGESTION, metavar="NAME",
                        help=f"TCP's congestion control (default {CONGESTION})")
    parser.add_argument("matrix", metavar="MATRIX", help="a file, or one of "
                        + ", ".join(sorted(p.stem for p in DEPLOYMENTS.glob("*.json"))))
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND...",
                        help="instead of a shell")
    options = parser.parse_args(argv)
    why = why_not()
    try:
        if why:
            raise HostsError(why)
        return visit(options)
    except HostsError as error:
        print(f"wan.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
