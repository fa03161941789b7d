"""Holds the namespaces of hosts.py while its standard input is open; then ends all processes in
them and exits, and they vanish. Its parent may be killed in any way: the kernel closes the pipe.

    hosts_keeper.py DIRECTORY NAME...     prints {name: {kind: path of the namespace}} as one line of JSON"""

import ctypes
import json
import os
import shutil
import signal
import sys
import time

NEW_NAMESPACES = 0x00020000 | 0x04000000 | 0x40000000   # mount, UTS, network
MNT_DETACH = 2
MS_BIND, MS_REC, MS_SLAVE = 4096, 16384, 1 << 19
GRACE_S = 2.0

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *args):
    """A system call without a Python wrapper; bytes and integers are passed unchanged."""
    if getattr(libc, name)(*args):
        err = ctypes.get_errno()
        raise OSError(err, f"{name}: {os.strerror(err)}")


def make_host(name, names_file):
    """Moves this process to new namespaces; returns {kind: descriptor} of them. /sys shows the
    devices of the new host; /etc/hosts is a file common to all hosts."""
    call("unshare", NEW_NAMESPACES)
    word = name.encode()
    call("sethostname", word, len(word))
    call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_SLAVE), None)
    for place in (b"/sys", b"/etc/hosts"):      # mounts of the previously created host
        libc.umount2(place, MNT_DETACH)
    call("mount", b"sysfs", b"/sys", b"sysfs", ctypes.c_ulong(0), None)
    call("mount", names_file.encode(), b"/etc/hosts", None, ctypes.c_ulong(MS_BIND), None)
    return {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("net", "uts", "mnt")}


def inhabitants(networks):
    """Pids of all processes in the network namespaces with these identities, except this one."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                if os.readlink(f"/proc/{entry}/ns/net") in networks:
                    found.append(int(entry))
            except OSError:
                pass
    return found


def end_inhabitants(networks):
    """Sends SIGTERM, and later SIGKILL to the remaining processes."""
    began = time.monotonic()
    sig = signal.SIGTERM
    while pids := inhabitants(networks):
        for pid in pids:
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        if time.monotonic() > began + GRACE_S:
            sig = signal.SIGKILL
        time.sleep(0.02)


def main(directory, *names):
    names_file = os.path.join(directory, "hosts")
    try:
        try:
            held = {name: make_host(name, names_file) for name in names}
        except OSError as why:
            print(json.dumps({"error": str(why)}), flush=True)
            return 1
        paths = {name: {kind: f"/proc/{os.getpid()}/fd/{fd}" for kind, fd in of.items()}
                 for name, of in held.items()}
        print(json.dumps(paths), flush=True)
        sys.stdin.buffer.read()
        end_inhabitants({f"net:[{os.fstat(of['net']).st_ino}]" for of in held.values()})
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
