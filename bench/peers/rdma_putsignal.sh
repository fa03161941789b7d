#!/usr/bin/env bash
# Puts with signals over verbs on one soft-RoCE device, in each mode of the proxy, over numbers of lanes and policies, for bench/run rdma: runs in the machine
# of scripts/rdma-vm.
#
#   bench/peers/rdma_putsignal.sh TUTTI LANES POLICIES ARGUMENT...
#
# LANES and POLICIES with commas between them. Prints "LANES POLICY" and behind it what `tutti perf putsignal --json ARGUMENT...` says, line by line.
set -euo pipefail
tutti=$1
IFS=, read -ra lanes <<<"$2"
IFS=, read -ra policies <<<"$3"
shift 3
export TUTTI_RDMA_DEVICES==rxe0     # with two rails there are two lanes at least

for n in "${lanes[@]}"; do
    for policy in "${policies[@]}"; do
        TUTTI_LANES=$n "$tutti" perf putsignal --wire verbs --lanes "$policy" --json --check "$@" 2>/dev/null | sed "s/^/$n $policy /"
    done
done
