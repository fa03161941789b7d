#!/usr/bin/env bash
# Installs missing Debian packages, and prints each with its purpose. Does nothing if all are
# installed.
#
#   scripts/install-deps.sh [build] [test] [docs] [package] [ci] [rdma] [bench]
#                                                           groups; default: build and test
set -euo pipefail

table='
make            | build | runs the commands of the README
cmake           | build | configures the build
ninja-build     | build | runs the build
gcc             | build | C17 compiler
libc6-dev       | build | headers of the C library
pkg-config      | build | finds libraries
libssl-dev      | build | HMAC-SHA256 at start-up (libcrypto), TLS 1.3 (libssl)
libsqlite3-dev  | build | journal of the coordinator
libmicrohttpd-dev | build | status page and metrics of the coordinator
libcurl4-openssl-dev | build | journal of the coordinator, and rendezvous, in etcd (optional)
libjson-c-dev   | build | machine descriptions, plans, JSON output of the tutti command
libhwloc-dev    | build | location of cores, NICs and GPUs
libibverbs-dev  | build | InfiniBand and RoCE devices (optional)
libfabric-dev   | build | EFA, Slingshot, Omni-Path and other networks (optional)
libpmix-dev     | build | headers for start-up by Open MPI and srun (optional)
python3         | test  | test scripts; generates the manual pages
python3-venv    | test  | environments of scripts/install-python.sh and scripts/install-launchers.sh
python3-dev     | test  | headers for the Python package
g++             | test  | C++ compiler for the Python package
man-db          | test  | displays the installed manual pages
groff-base      | test  | checks the manual pages
libcmocka-dev   | test  | unit tests
openssl         | test  | certificates, as in docs/security.md
openmpi-bin     | test  | Open MPI as a launcher
mpich           | test  | MPICH as a launcher
iproute2        | test  | network namespaces as test hosts
chromium-headless-shell | ci | browser for the status page of the coordinator (98 MB with dependencies)
etcd-server     | ci    | etcd, for a journal that coordinators share, and for rendezvous
slurmctld       | ci    | controller of Slurm (3 MB with dependencies)
slurmd          | ci    | node daemon of Slurm
slurm-client    | ci    | srun as a launcher
python3-prometheus-client | ci | parser of Prometheus metrics
qemu-system-x86 | rdma  | virtual machine with soft-RoCE devices (scripts/rdma-vm)
busybox-static  | rdma  | user space of this virtual machine
ibverbs-providers | rdma | libibverbs driver for soft-RoCE
perftest        | bench | RDMA benchmarks, for comparison
python3-sphinx  | docs  | HTML guide and reference with a search
python3-myst-parser | docs | parser of the guides (Markdown)
dpkg-dev        | package | dpkg-buildpackage
debhelper       | package | rules of Debian packages
lintian         | package | checks of Debian packages
clang           | ci    | second compiler, and the fuzzers
libclang-rt-dev | ci    | sanitizers and libFuzzer
llvm            | ci    | symbolizer for sanitizer reports
lld             | ci    | fast linker for builds with sanitizers
clang-format    | ci    | source format
libopenmpi-dev  | bench | Open MPI, for comparison
libmpich-dev    | bench | MPICH, for comparison
libgloo-dev     | bench | Gloo, for comparison
g++             | bench | C++ compiler for Gloo
iperf3          | bench | throughput of a shaped link
libopenblas0-pthread | bench | matrix products of bench/run gemm (without it: a plain loop)
libfabric-bin   | bench | fi_pingpong, for comparison with the ofi transport
iputils-ping    | bench | round-trip time of a shaped link
valgrind        | bench | counting the files of a call (scripts/count-files-of-a-call.py)
'

wanted=${*:-build test}

# The lines of the table for the selected groups whose package is not installed.
missing_lines()
{
    local package group reason

    while IFS='|' read -r package group reason; do
        read -r package <<<"$package"
        read -r group <<<"$group"
        [[ -n $package && " $wanted " == *" $group "* ]] || continue
        dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q ' installed$' || echo "$package|$group|$reason"
    done <<<"$table"
}

# Runs apt-get, as root or through sudo.
apt()
{
    local as_root=()

    [[ $(id -u) == 0 ]] || as_root=(sudo)
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@"
}

if ! command -v dpkg-query >/dev/null; then
    echo "This is not a Debian system: install the missing ones of these packages (name | group | purpose):"
    echo "$table"
    exit 0
fi

missing=$(missing_lines)
[[ -n $missing ]] || exit 0
packages=$(cut -d'|' -f1 <<<"$missing" | xargs)

echo "Installing these missing packages with apt-get:"
while IFS='|' read -r package group reason; do
    printf '  %-16s %s (%s)\n' "$package" "${reason# }" "$group"
done <<<"$missing"
if [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; then
    echo "Installation requires root, and sudo is not installed. Run as root: apt-get install $packages" >&2
    exit 1
fi

# Package lists may be missing or outdated: update them and try once more.
if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
    apt update
fi
apt install --no-install-recommends $packages || {
    apt update
    apt install --no-install-recommends $packages
}
