#!/usr/bin/env bash
# Runs a command with emulated RDMA devices (docs/emulation.md). DIRECTORY has their libibverbs.so.1.
#
#   with_rdma.sh DIRECTORY command [argument...]
#
# Two devices, on the interfaces dummy0 (10.77.0.1) and dummy1 (10.77.1.1) of a network namespace
# that ends with the command, which may take them down. Without permission to create a namespace,
# there is one device, on the loopback interface. A receiver that is not ready ends its process.
set -euo pipefail

library=$1
shift

add_interfaces()
{
    local i

    for i in 0 1; do
        # the kernel may lack one of both kinds; the name is what counts
        ip link add "dummy$i" type dummy 2>/dev/null ||
            ip link add "dummy$i" type veth peer name "other$i" 2>/dev/null || return 1
        ip link set "other$i" up 2>/dev/null || true
        ip addr add "10.77.$i.1/24" dev "dummy$i" || return 1
        ip link set "dummy$i" up || return 1
    done
    ip link set lo up
}

if [[ -z ${TUTTI_TEST_RDMA_INSIDE:-} ]]; then
    export TUTTI_TEST_RDMA_INSIDE=1
    for rights in -n -rn; do
        if unshare $rights true 2>/dev/null; then
            exec unshare $rights bash "$0" "$library" "$@"
        fi
    done
    interfaces=rxe0=lo
elif add_interfaces; then
    interfaces=rxe0=dummy0,rxe1=dummy1       # the names of the devices in scripts/rdma-vm
else
    ip link set lo up
    interfaces=rxe0=lo
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
TUTTI_EMU_RDMA_DIR=$scratch/rdma TUTTI_EMU_RDMA_INTERFACES=$interfaces TUTTI_EMU_RDMA_STRICT=1 \
    LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
