#!/usr/bin/env bash
# The verbs transport between two hosts, and networks between them that delay, lose and reorder
# packets, fail, and recover:
#
#   scripts/rdma-vm --hosts 2 -- tests/cluster/two_hosts.sh [build/release [step...]]
#
#   host 0   eth0 rxe0  ----  eth0 rxe0   host 1        two rails for all data;
#            eth1 rxe1  ----  eth1 rxe1                 eth2 is undisturbed, like a management
#            eth2       ----  eth2                      network, and has the rendezvous
#
# Each host runs this script, with its ranks of each job.
set -uo pipefail

build=${1:-build/release}
host=${RDMA_VM_HOST:?"runs in the machines of scripts/rdma-vm --hosts 2"}
rounds=$build/tests/cluster/prog_hosts
port=4000
rails='eth0 eth1'
export TUTTI_TOKEN=two-hosts TUTTI_INTERFACES='=eth2' TUTTI_WIRES=verbs TUTTI_TIMEOUT_MS=120000

# Runs the command as so many ranks on this host, and the same number on the other. Fails if one of
# them fails.
job()
{
    local per_host=$1 i pids=() status=0

    shift
    port=$((port + 1))
    for ((i = 0; i < per_host; i++)); do
        TUTTI_RANK=$((host * per_host + i)) TUTTI_SIZE=$((2 * per_host)) TUTTI_RENDEZVOUS=tcp://10.77.2.1:$port "$@" &
        pids+=("$!")
    done
    for i in "${pids[@]}"; do
        wait "$i" || status=$?
    done
    return "$status"
}

# Number of packets that netem has dropped on this host's rails.
dropped()
{
    local rail

    for rail in $rails; do
        tc -s qdisc show dev "$rail"
    done | sed -n 's/.*(dropped \([0-9]*\),.*/\1/p' | awk '{ n += $1 } END { print n + 0 }'
}

each_rail()
{
    local rail

    for rail in $rails; do
        tc qdisc "$1" dev "$rail" root "${@:2}" || return
    done
}

# ---- steps, in this order ----

collectives()
{
    job 1 "$build/tutti" perf all --wire verbs --min 8 --max 256K --factor 64 --iters 2 --warmup 1 --check
}

# Two ranks on each host, which share memory.
four_ranks()
{
    TUTTI_WIRES=shm,verbs job 2 "$rounds" 10
}

# One packet in 200 is lost, and one in 100 is delayed by 2 ms, so that others overtake it: netem
# delays those that it does not reorder.
loss_and_delay()
{
    local status=0 lost

    each_rail add netem delay 2ms reorder 99% loss 0.5% || return
    job 1 "$rounds" 10 || status=$?
    lost=$(dropped)
    each_rail del || return
    echo "of the packets of host $host, $lost were lost"
    [[ $status == 0 && $lost -gt 0 ]]
}

# Number of packets that this host's devices received out of sequence.
out_of_sequence()
{
    cat /sys/class/infiniband/*/ports/1/hw_counters/rcvd_seq_err | awk '{ n += $1 } END { print n + 0 }'
}

# Varying delays; one rail is more than twice as slow. Packets of a rail keep their order, because
# netem has a rate, and the order across rails changes. A device that retransmits everything behind
# a gap has no gap to fill.
jitter()
{
    local status=0 before

    before=$(out_of_sequence) || return
    tc qdisc add dev eth0 root netem delay 2ms 1ms rate 1gbit limit 100000 || return
    tc qdisc add dev eth1 root netem delay 5ms 2ms rate 1gbit limit 100000 || return
    job 1 "$rounds" 10 || status=$?
    each_rail del || return
    echo "of the packets that came to host $host, $(($(out_of_sequence) - before)) were out of sequence"
    return "$status"
}

# Host 0 sees that its port is down; host 1 does not.
port_down()
{
    TUTTI_LOG=info job 1 "$rounds" 10 rxe0 'ip link set eth0 down' 'ip link set eth0 up'
}

# No port is down.
all_lost()
{
    TUTTI_LOG=info job 1 "$rounds" 10 rxe1 'tc qdisc add dev eth1 root netem loss 100%' 'tc qdisc del dev eth1 root'
}

steps=("${@:2}")
[[ ${#steps[@]} != 0 ]] || steps=(collectives four_ranks jitter loss_and_delay port_down all_lost)
for step in "${steps[@]}"; do
    begin_s=$SECONDS
    "$step" || { echo "$step: FAILED"; exit 1; }
    echo "$step: right, in $((SECONDS - begin_s)) s"
done
