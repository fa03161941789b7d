"""Finds programs, and compiles the peers into build/bench if their sources are newer."""

import os
import shutil
import subprocess
from pathlib import Path

from .say import Problem, progress

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
OUT = ROOT / "build" / "bench"
WHEELS = ROOT / "build" / "launchers"       # of scripts/install-launchers.sh

C_FLAGS = ["-std=c17", "-O2", "-Wall", "-Wextra", "-I", ROOT]
# Gloo's reductions are templates compiled here: -O3 vectorizes them.
CXX_FLAGS = ["-std=c++17", "-O3", "-Wall", "-Wextra"]
# Common to all peers: the implementation of the protocol.
PEER = ["peer.c", *(ROOT / "tools" / "perf" / name for name in ("perf_start.c", "perf_work.c"))]


def program(name, package):
    """Returns the path of an installed program; otherwise the error names its Debian package."""
    path = shutil.which(name)
    if not path:
        raise Problem(f"{name} is not installed (Debian: apt-get install {package})")
    return path


def _is_fresh(target, sources):
    return target.exists() and all(target.stat().st_mtime >= s.stat().st_mtime for s in sources)


def compiled(target, compiler, package, flags, sources, libs=()):
    """Compiles sources (in bench/peers) into build/bench/target unless that is up to date."""
    target = OUT / target
    sources = [BENCH / "peers" / source for source in sources]
    objects = [lib for lib in libs if isinstance(lib, Path)]
    if _is_fresh(target, [*sources, *objects, BENCH / "peers" / "peer.h"]):
        return target
    OUT.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    argv = [program(compiler, package), *flags, "-o", part, *sources, *libs]
    progress(f"compiling {target.relative_to(ROOT)}")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"{target.name} does not compile (is {package} "
                      f"installed?):\n{done.stderr[:2000]}")
    os.replace(part, target)
    return target


def mpi_peer(flavour, package):
    """The peer of an MPI library of Debian."""
    return compiled(f"{flavour}_debian_peer", f"mpicc.{flavour}", package, C_FLAGS,
                    ["mpi_peer.c", *PEER])


def wheel(name):
    """The folder of an MPI library that was installed as a wheel."""
    folder = WHEELS / name
    if not (folder / "wheel").exists():
        raise Problem(f"{name} is not installed below {WHEELS.relative_to(ROOT)} "
                      f"(scripts/install-launchers.sh --bench)")
    return folder


def wheel_peer(name):
    folder = wheel(name)
    if (folder / "bin" / "mpicc").exists() and name != "impi-rt":
        return compiled(f"{name}_peer", str(folder / "bin" / "mpicc"), name, C_FLAGS,
                        ["mpi_peer.c", *PEER])
    # Intel's mpicc expects its usual folders.
    return compiled("intel_peer", "gcc", "gcc", [*C_FLAGS, "-I", folder / "include"],
                    ["mpi_peer.c", *PEER],
                    ["-L", folder / "lib", "-lmpi", f"-Wl,-rpath,{folder / 'lib'}"])


def gloo_peer():
    objects = [compiled(f"{Path(source).stem}.o", "gcc", "gcc", [*C_FLAGS, "-c"], [source])
               for source in PEER]
    return compiled("gloo_peer", "g++", "g++ libgloo-dev", CXX_FLAGS, ["gloo_peer.cc"],
                    [*objects, "-lgloo", "-lpthread"])


def tutti(path=None):
    """The tutti command: path, or that of the release build."""
    path = Path(path) if path else ROOT / "build" / "release" / "tutti"
    if not path.exists():
        raise Problem(f"{path} does not exist: build it (cmake --preset release && cmake --build "
                      f"--preset "
                      "release), name another with --tutti PATH, or measure the peers alone with "
                      "--without-tutti")
    return path.resolve()


def elastic(name, sources):
    """A program of the public interface, with the library of the release build."""
    folder = ROOT / "build" / "release"
    if not (folder / "libtutti.so").exists():
        raise Problem(f"{folder / 'libtutti.so'} does not exist: build it (cmake --preset release "
                      f"&& cmake --build --preset release)")
    return compiled(name, "gcc", "gcc", [*C_FLAGS, "-I", ROOT / "include"], sources,
                    ["-L", folder, "-ltutti", f"-Wl,-rpath,{folder}", "-lpthread"])
