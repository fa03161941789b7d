#!/usr/bin/env bash
# Alternating measurements of Tutti and of perftest on one soft-RoCE device, for bench/run rdma.
# Runs in the machine of scripts/rdma-vm.
#
#   bench/peers/rdma_turns.sh TUTTI ROUNDS
#
# Prints "bandwidth tutti|perftest BYTES MB_PER_S" (both directions together, of 1000000 bytes) and
# "latency tutti|perftest BYTES US" (one way, of ping-pongs in sequence: single ones would include a
# barrier and clock readings, which are system calls in this machine).
set -euo pipefail
tutti=$1
rounds=$2
device=rxe0
port=18600
export TUTTI_RDMA_DEVICES==$device

# Runs both ends of a perftest program on the device; prints the client's output.
perftest()
{
    local program=$1 server

    shift
    "$program" -d "$device" -p "$port" "$@" >/dev/null 2>&1 &
    server=$!
    until ss -Hltn "sport = :$port" | grep -q .; do
        kill -0 "$server" || return 1
        sleep 0.05
    done
    "$program" -d "$device" -p "$port" "$@" 127.0.0.1 2>/dev/null
    wait "$server"
    port=$((port + 1))
}

# Runs tutti perf with these arguments; prints the value of a key of its JSON object.
perf()
{
    "$tutti" perf "${@:2}" --ranks 2 --wire verbs --json 2>/dev/null | sed -n "s/.*\"$1\": *\([0-9.]*\).*/\1/p"
}

for ((round = 0; round < rounds; round++)); do
    for bytes in 1048576 4194304; do
        times=$((33554432 / bytes))
        mib=$(perftest ib_write_bw -b -s "$bytes" -n "$times" --output=bandwidth)
        echo "bandwidth perftest $bytes $(awk -v mib="$mib" 'BEGIN { print mib * 1.048576 }')"
        gbs=$(perf algbw_gbs sendrecv --min "$bytes" --max "$bytes" --iters "$times")
        echo "bandwidth tutti $bytes $(awk -v gbs="$gbs" 'BEGIN { print 2000 * gbs }')"
    done
    echo "latency perftest 8 $(perftest ib_write_lat -s 8 -n 500 --output=latency)"
    echo "latency tutti 8 $(perf time_us_loop pingpong --min 8 --max 8 --iters 500)"
done
