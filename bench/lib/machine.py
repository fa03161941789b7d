"""Description of the measured machine, and the versions of the contestants."""

import datetime
import os
import platform
import subprocess
import time
from pathlib import Path

_versions = {}


def remember(name, version):
    """Records a contestant's version, as reported by itself."""
    _versions[name] = version


def _cpu():
    """Name of the CPU, and on x86 its family, model and stepping, which the names in virtual
    machines often lack."""
    info = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    if "model name" not in info:
        return platform.machine()
    numbers = (f" (family {info['cpu family']}, model {info['model']})" if "cpu family" in info
               and "model" in info else "")
    return info["model name"] + numbers


def _memory_gib():
    kib = int(Path("/proc/meminfo").read_text().split()[1])
    return round(kib / (1 << 20), 1)


def _system():
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip('"')
    return platform.system()


def _sysctl(path):
    file = Path("/proc/sys") / path
    return file.read_text().strip() if file.exists() else "unknown"


def _commit():
    """The measured commit, with '+' if the tree had changes."""
    out = subprocess.run(["git", "-C", Path(__file__).parent, "describe", "--always", "--dirty=+"],
                         capture_output=True, text=True, check=False)
    return out.stdout.strip() or "unknown"


def cores():
    return len(os.sched_getaffinity(0))


def busy_seconds():
    """Total CPU time of all cores since boot."""
    user, nice, system, _idle, _iowait, irq, softirq = map(int,
                                                           Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def busy_cores(seconds=1.0):
    """Number of cores that are busy with other work before the benchmark starts."""
    before = busy_seconds()
    time.sleep(seconds)
    return (busy_seconds() - before) / seconds


def describe(busy):
    return {
        "busy_cores_before": round(busy, 2),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "cpu": _cpu(),
        "cores": cores(),
        "memory_gib": _memory_gib(),
        "system": _system(),
        "kernel": platform.release(),
        "congestion_control": _sysctl("net/ipv4/tcp_congestion_control"),
        "versions": dict(sorted(_versions.items())),
    }
