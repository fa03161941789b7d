#!/usr/bin/env python3
"""Runs a command with a file system that does not respond:

    hung_disk.py DIRECTORY COMMAND...

The file system is mounted at DIRECTORY in a mount namespace of the command. Its server (FUSE)
accepts all requests and replies to none, so that a process that opens a file waits in the kernel,
and not even SIGKILL ends it. The server ends with the command; then all requests fail. The exit
status is that of the command, or 77 if such a file system cannot be mounted here."""

import ctypes
import os
import struct
import subprocess
import sys

NEW_NS, MS_REC, MS_PRIVATE, PDEATHSIG = 0x00020000, 16384, 1 << 18, 1
FUSE_INIT, REQUEST_BYTES = 26, 1 << 20
HEAD = struct.Struct("<IIQQIIII")       # length, opcode, unique, node, uid, gid, pid, padding
REPLY = struct.Struct("<IiQ")           # length, error, unique
# major, minor, readahead, flags, background, threshold, write
INIT = struct.Struct("<IIIIHHI32x")

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *args):
    if getattr(libc, name)(*args):
        err = ctypes.get_errno()
        raise OSError(err, f"{name}: {os.strerror(err)}")


def mount(directory):
    """Returns the device of the mounted file system."""
    call("unshare", NEW_NS)
    call("mount", b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None)
    device = os.open("/dev/fuse", os.O_RDWR)
    call("mount", b"hung", os.fsencode(directory), b"fuse", ctypes.c_ulong(0),
         f"fd={device},rootmode=40000,user_id=0,group_id=0".encode())
    return device


def serve(device):
    """Replies to the first request, which the kernel needs for the mount, and to no other. Ends
    with its parent."""
    libc.prctl(PDEATHSIG, 9)
    while True:
        request = os.read(device, REQUEST_BYTES)
        _, opcode, unique, *_ = HEAD.unpack_from(request)
        if opcode == FUSE_INIT:
            init = INIT.pack(7, 19, 0, 0, 8, 6, 4096)
            os.write(device, REPLY.pack(REPLY.size + len(init), 0, unique) + init)


def main(directory, *command):
    try:
        device = mount(directory)
    except OSError as why:
        print(f"a file system cannot be mounted here: {why}")
        return 77
    server = os.fork()
    if server == 0:
        try:
            serve(device)
        finally:
            os._exit(0)
    os.close(device)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        os.kill(server, 9)
        os.waitpid(server, 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
