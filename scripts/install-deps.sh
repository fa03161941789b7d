#!/usr/bin/env bash
# Installs missing Debian packages, and prints each with its purpose. Does nothing if all are
# installed.
#
#   scripts/install-deps.sh [build] [test] [ci] [rdma] [bench]     groups; default: build and test
set -euo pipefail

table='
make            | build | the front door
cmake           | build | configures the build
ninja-build     | build | runs the build
gcc             | build | compiles C17
libc6-dev       | build | the headers of the C library
pkg-config      | build | finds libraries
libssl-dev      | build | HMAC-SHA256 of start-up (libcrypto), TLS 1.3 (libssl)
libsqlite3-dev  | build | the journal of the coordinator
libmicrohttpd-dev | build | the status page and the metrics of the coordinator
libcurl4-openssl-dev | build | the journal of coordinators that share one, in etcd (optional)
libjson-c-dev   | build | descriptions of machines, algorithms read as data, and the --json output of the tutti command
libhwloc-dev    | build | which socket a NIC, a GPU and a core belong to
libibverbs-dev  | build | RDMA devices: InfiniBand and RoCE (optional)
libfabric-dev   | build | EFA, Slingshot, Omni-Path and other networks (optional)
libpmix-dev     | build | start-up under the mpirun of Open MPI, and srun (optional; its headers only)
python3         | test  | tests that are scripts
libcmocka-dev   | test  | runs the unit tests
openssl         | test  | makes certificates, as docs/security.md tells users to
openmpi-bin     | test  | starts ranks under a real mpirun
mpich           | test  | starts ranks under the other real mpirun
iproute2        | test  | test hosts, as network namespaces
chromium-headless-shell | ci | shows the status page of the coordinator to its test (98 MB with what it needs)
etcd-server     | ci    | a real etcd that coordinators share a journal in
slurmctld       | ci    | starts ranks under a real srun (with all it needs 3 MB)
slurmd          | ci    | runs the ranks that srun starts
slurm-client    | ci    | srun itself
python3-venv    | ci    | makes the environments of scripts/install-launchers.sh and scripts/install-python.sh
python3-dev     | ci    | the headers that the Python package is built with
g++             | ci    | the Python package is C++
python3-prometheus-client | ci | reads the metrics of the coordinator as Prometheus does
qemu-system-x86 | rdma  | the virtual machine that has soft-RoCE devices (scripts/rdma-vm)
busybox-static  | rdma  | what that machine starts with
ibverbs-providers | rdma | the part of libibverbs that drives soft-RoCE
perftest        | bench | what the verbs wire is measured beside on soft-RoCE
clang           | ci    | the second compiler, and the fuzzers
libclang-rt-dev | ci    | the sanitizers and libFuzzer of clang
llvm            | ci    | names the lines of what these find
lld             | ci    | links what the sanitizers look at in a third of the time
clang-format    | ci    | checks how the sources are laid out
libopenmpi-dev  | bench | what the benchmarks compare with
libmpich-dev    | bench | what the benchmarks compare with
libgloo-dev     | bench | what the benchmarks compare with
g++             | bench | Gloo is C++
iperf3          | bench | what a shaped link carries
libopenblas0-pthread | bench | the products of bench/run gemm (without it: a plain loop)
libfabric-bin   | bench | fi_pingpong, which the ofi wire is compared with
iputils-ping    | bench | the round trip of a shaped link
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
    echo "This is not a Debian system: please see to these yourself (package | for | why), if they are missing:"
    echo "$table"
    exit 0
fi

missing=$(missing_lines)
[[ -n $missing ]] || exit 0
packages=$(cut -d'|' -f1 <<<"$missing" | xargs)

echo "Missing here, and installed now with apt-get:"
while IFS='|' read -r package group reason; do
    printf '  %-16s %s (%s)\n' "$package" "${reason# }" "$group"
done <<<"$missing"
if [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; then
    echo "This needs root, and there is no sudo. As root: apt-get install $packages" >&2
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
