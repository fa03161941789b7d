"""Hosts as network namespaces, for tests and benchmarks. Each has its own network devices, name,
/sys and /etc/hosts, and shares the processes and files of this machine.

Namespaces have no names outside: a small process (hosts_keeper.py) holds them open, and ends when
its pipe is closed, with everything that runs in them. So hosts vanish with their owner, even after
SIGKILL, and several runs can coexist. Only a temporary directory can remain, if a keeper itself was
killed; the next run removes it, because its lock is free (scratch.py)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import scratch

PREFIX = "tutti-hosts."
GONE_S = 10
ON = """#!/bin/sh
# {path} HOST COMMAND...: runs the command on a host, as a remote shell would.
[ $# -ge 2 ] || {{ echo "usage: on HOST COMMAND...; hosts are {names}" >&2; exit 2; }}
host=$1
shift
case $host in
{cases}
*) echo "on: there is no $host; hosts are {names}" >&2; exit 255 ;;
esac
"""


class HostsError(Exception):
    """Hosts could not be created or configured; the message has the cause."""


def why_not(*programs):
    """Returns why hosts cannot be created here, or None. programs: (name, Debian package) of
    additional requirements."""
    if os.geteuid():
        return "network namespaces need root"
    for name, package in (("ip", "iproute2"), ("nsenter", "util-linux"), *programs):
        if not shutil.which(name):
            return f"{name} is not installed (Debian: apt-get install {package})"
    return None


def remove_leftovers():
    """Removes the directories of keepers that were killed."""
    scratch.remove_leftovers(PREFIX)


class Hosts:
    """A context manager: hosts with these names, not connected.

    .on is the path of a script that runs a command on a host (on HOST COMMAND...), usable as a
    remote shell for launchers."""

    def __init__(self, *names):
        self.names = names
        self._keeper = None

    def __enter__(self):
        remove_leftovers()
        self.directory, lock = scratch.make(PREFIX)
        try:
            (self.directory / "hosts").write_text("127.0.0.1 localhost\n")
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", Path(__file__).with_name("hosts_keeper.py"), self.directory,
                 *self.names],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
                cwd="/", pass_fds=[lock])
        finally:
            os.close(lock)      # now only the keeper holds it
        try:
            self._paths = json.loads(self._keeper.stdout.readline()
                                     or '{"error": "the keeper of namespaces did not start"}')
            if "error" in self._paths:
                raise HostsError(self._paths["error"])
            self._write_on()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        """The same as after a kill: closes the pipe."""
        if self._keeper:
            self._keeper.stdin.close()
            self._keeper.stdout.close()
            try:
                self._keeper.wait(GONE_S)
            except subprocess.TimeoutExpired:
                self._keeper.kill()
                self._keeper.wait()
            shutil.rmtree(self.directory, ignore_errors=True)
        self._keeper = None

    def _write_on(self):
        cases = "\n".join(f'{name}) exec {" ".join(self._enter(name))} --wdns="$PWD" -- sh -c '
                          f'"$*" ;;' for name in self.names)
        self.on = self.directory / "on"
        self.on.write_text(ON.format(path=self.on, names=" ".join(self.names), cases=cases))
        self.on.chmod(0o700)

    def _enter(self, name):
        of = self._paths[name]
        return ["nsenter", f"--net={of['net']}", f"--uts={of['uts']}", f"--mount={of['mnt']}"]

    def inside(self, name, *argv):
        """Returns argv for a host: in the current directory, with the current environment, and with
        the pid of the process that starts it."""
        return [*self._enter(name), f"--wdns={os.getcwd()}", "--", *map(str, argv)]

    def network_of(self, name):
        """The path of a host's network namespace, for `ip link add ... netns PATH`."""
        return self._paths[name]["net"]

    def run(self, name, *argv, stdin=None):
        """Runs a command on a host; returns its output, raises HostsError if it fails."""
        done = subprocess.run(self.inside(name, *argv), input=stdin, capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise HostsError(f"{name}: {' '.join(map(str, argv))}: "
                             f"{(done.stderr or done.stdout).strip()}")
        return done.stdout

    def batch(self, name, program, lines):
        """Runs lines of ip or tc on a host, in one process. The error contains the failed line."""
        try:
            self.run(name, program, "-batch", "-", stdin="\n".join(lines) + "\n")
        except HostsError as why:
            raise HostsError(f"{why} (the lines were: {'; '.join(lines)})") from None

    def add_names(self, addresses):
        """addresses: {host: address}; adds them to every host's /etc/hosts."""
        text = "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n"
                                                 for name, address in addresses.items())
        # the same file, because it is mounted
        with open(self.directory / "hosts", "r+", encoding="ascii") as f:
            f.truncate()
            f.write(text)
