#!/usr/bin/env bash
# Puts with signals over verbs on one soft-RoCE device, in each mode of the proxy, for several
# numbers of lanes and policies, for bench/run rdma. Runs in the machine of scripts/rdma-vm.
#
#   bench/peers/rdma_putsignal.sh TUTTI LANES POLICIES ARGUMENT...
#
# LANES and POLICIES are comma-separated. Prints "LANES POLICY", followed by the output of `tutti
# perf putsignal --json ARGUMENT...`, line by line.
set -euo pipefail
tutti=$1
IFS=, read -ra lanes <<<"$2"
IFS=, read -ra policies <<<"$3"
shift 3
export TUTTI_RDMA_DEVICES==rxe0     # with two rails there are at least two lanes

for n in "${lanes[@]}"; do
    for policy in "${policies[@]}"; do
        TUTTI_LANES=$n "$tutti" perf putsignal --wire verbs --lanes "$policy" --json --check "$@" 2>/dev/null | sed "s/^/$n $policy /"
    done
done
