"""PCCL, from its package on PyPI (pypccl), set up to run on Debian 12.

Its library needs a newer C library than Debian 12 has (glibc 2.38). Therefore the C library,
libstdc++ and libgcc of the next Debian release are unpacked below build/bench/pccl, and the peer is
started by that C library's loader; nothing is installed. The library is linked with the CUDA
driver, which it does not need for host memory: without a driver, an empty library of that name
replaces it."""

import glob
import os
import platform
import socket
import subprocess
import sys
import zipfile

from . import build
from .say import Problem, progress

VERSION = "1.0.0"
OUT = build.OUT / "pccl"
NEWER = "trixie"
PACKAGES = ("libc6", "libstdc++6", "libgcc-s1")
GLIBC_WANTED = (2, 38)


def _run(argv, what, **more):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False,
                          **more)
    if done.returncode:
        raise Problem(f"{what} failed: {(done.stderr or done.stdout).strip()[-600:]}")


def _library():
    """Its shared library, from a wheel for any Python version, because only the library is used."""
    path = OUT / "wheel" / "pccl" / "libpccl.so"
    if path.exists():
        return path
    progress(f"fetching pypccl {VERSION} from PyPI")
    OUT.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "pip", "download", f"pypccl=={VERSION}", "--no-deps",
          "--only-binary=:all:", "--python-version", "3.12",
          "--platform", "manylinux_2_17_x86_64", "-d", OUT], "pip download pypccl")
    with zipfile.ZipFile(glob.glob(str(OUT / "pypccl-*.whl"))[0]) as wheel:
        wheel.extractall(OUT / "wheel")
    return path


def _newer_root():
    """The directory of the newer C library; None if the system's version is sufficient."""
    if tuple(int(n) for n in platform.libc_ver()[1].split(".")[:2]) >= GLIBC_WANTED:
        return None
    root, apt = OUT / "root", OUT / "apt"
    if (root / "ready").exists():
        return root
    progress(f"fetching the C library of Debian {NEWER}")
    (apt / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (apt / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    mirror = _mirror()
    (apt / "sources.list").write_text(f"deb "
                                      f"[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
                                      f"{mirror} {NEWER} main\n")
    settings = [word for setting in (f"Dir::Etc::sourcelist={apt}/sources.list",
                                     "Dir::Etc::sourceparts=-", f"Dir::State::lists={apt}/lists",
                                     f"Dir::Cache={apt}/cache") for word in ("-o", setting)]
    _run(["apt-get", *settings, "update"], "apt-get update")
    _run(["apt-get", *settings, "download", *PACKAGES], "apt-get download", cwd=apt)
    for package in sorted(apt.glob("*.deb")):
        _run(["dpkg-deb", "-x", package, root], "dpkg-deb")
    (root / "ready").touch()
    return root


def _mirror():
    """The Debian mirror of this machine."""
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)",
                           "Created-By: Packages"], capture_output=True, text=True, check=False)
    for line in done.stdout.split():
        if line.startswith("http") and line.rstrip("/").endswith("/debian"):
            return line
    raise Problem("this machine's Debian mirror is not known: apt-get indextargets names none")


def _driver():
    """A directory with an empty libcuda.so.1; None if the system has one."""
    if "libcuda.so.1" in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True,
                                        check=False).stdout:
        return None
    folder = OUT / "driver"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "libcuda.so.1").exists():
        (folder / "empty.c").write_text("")
        _run([build.program("gcc", "gcc"), "-shared", "-Wl,-soname,libcuda.so.1", "-o",
              folder / "libcuda.so.1", folder / "empty.c"], "gcc")
    return folder


def command():
    """The command that starts a peer, without its arguments; and its library."""
    library, root, driver = _library(), _newer_root(), _driver()
    peer = build.compiled("pccl_peer", "gcc", "gcc", build.C_FLAGS,
                          ["pccl_peer.c", "meeting.c", *build.PEER], ["-ldl"])
    folders = [str(driver)] if driver else []
    start = ["env", "LD_LIBRARY_PATH=" + ":".join(folders), peer]
    if root:
        loader = root / "usr" / "lib64" / "ld-linux-x86-64.so.2"
        system = sorted({os.path.dirname(path)
                         for path in glob.glob("/usr/lib/*-linux-gnu/libgomp.so.1")})
        start = [loader, "--library-path", ":".join([str(root / "usr/lib/x86_64-linux-gnu"),
                                                     *folders, *system]), peer]
    return start, library


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
