#!/bin/sh
# Runs a job with a fault, and the tool that finds the fault (--help).
set -eu

usage() {
    cat <<'EOF'
usage: examples/triage/triage.sh STORY [OPTION...]

Starts real processes (triage.c), waits for their trace dumps, prints the diagnosis, and ends them.

  never-joins   16 ranks in tensor groups of 4; rank 2 never joins an all-reduce of its group
  nic-stops     4 hosts with a rank and a NIC each; the NIC of rank 2 stops
  rank-stops    8 ranks; the process of rank 5 is stopped (SIGSTOP)
  wrong-order   8 ranks; rank 3 calls the operations of two communicators in the wrong order
  late-rank     8 ranks; rank 5 computes longer than the others
  slow-nic      4 hosts; the NIC of rank 2 has half the rate of the others

The options are those of `tutti analyze`, or of `tutti profile` for the last two: --json,
--svg hang.svg, --rows N. The exit status is that of this tool: 3 if `tutti analyze` found a cause.

nic-stops and slow-nic need Linux network namespaces, as root or in user namespaces where these are
permitted, and the programs ip, tc (iproute2), unshare and nsenter (util-linux). Hosts are
namespaces that end with the script; nothing else on the machine is changed. The other stories need
nothing.

Environment:
  TUTTI_BUILD   folder of the build (default: build/release)
  TIMEOUT_S     timeout of the calls, and thus of a hang (default: 10)
EOF
}

story=${1-}
case $story in
-h | --help) usage; exit 0 ;;
never-joins | rank-stops | wrong-order | late-rank) hosts=0 ;;
nic-stops | slow-nic) hosts=4 ;;
*) usage >&2; exit 2 ;;
esac

# The hosts belong to a process namespace: all of their processes end with this script.
if [ "$hosts" != 0 ] && [ -z "${TRIAGE_INSIDE-}" ]; then
    user=
    [ "$(id -u)" = 0 ] || user='--user --map-root-user'
    export TRIAGE_INSIDE=1
    exec unshare $user --net --mount --pid --fork --kill-child --mount-proc sh "$0" "$@"
fi
shift

build=${TUTTI_BUILD:-build/release}
build=$(cd "$build" && pwd)
timeout=${TIMEOUT_S:-10}
folder=$(mktemp -d "${TMPDIR:-/tmp}/tutti-triage.XXXXXX")
traces=$folder/traces
output=$folder/output
mkdir "$traces"
job=

finish() {
    [ -z "$job" ] || kill "$job" 2>/dev/null || :
    [ -z "$job" ] || wait "$job" 2>/dev/null || :
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT TERM

# ---- hosts: namespaces, whose NICs are connected by a bridge ----

host_address() { echo "10.83.0.$(($1 + 1))"; }

# A process that sleeps holds the network and the name of host number $1.
host_begin() {
    unshare --net --uts sh -c 'hostname "$1"; : >"$2"; exec sleep 1000000' - "host$1" \
        "$folder/ready$1" &
    echo $! >"$folder/host$1"
    until [ -e "$folder/ready$1" ]; do sleep 0.1; done
    ip link add "port$1" type veth peer name eth0 netns "$(cat "$folder/host$1")"
    ip link set "port$1" master switch up
    "$folder/on" "host$1" ip link set lo up
    "$folder/on" "host$1" ip address add "$(host_address "$1")/24" dev eth0
    "$folder/on" "host$1" ip link set eth0 up
}

hosts_begin() {
    printf '#!/bin/sh\n# on HOST COMMAND...: a remote shell\nhost=$1\nshift\n%s\n' \
        'exec nsenter --net --uts --target "$(cat "${0%/*}/$host")" sh -c "$*"' >"$folder/on"
    chmod 700 "$folder/on"
    ip link add switch type bridge
    ip link set switch up
    for i in $(seq 0 $((hosts - 1))); do host_begin "$i"; done
}

# Limits the NIC of host $1 to $2 Mbit/s in both directions.
host_limit() {
    limit="root tbf rate $2mbit burst 8kb limit 500kb"
    "$folder/on" "host$1" tc qdisc replace dev eth0 $limit
    tc qdisc replace dev "port$1" $limit
}

# ---- the job ----

# Starts the job: ranks, then the options of the program.
start() {
    n=$1
    shift
    set -- -x "TUTTI_TRACE_DIR=$traces" -- "$build/examples/triage" --timeout "$timeout" "$@"
    if [ "$hosts" = 0 ]; then
        "$build/tutti" run -n "$n" --survive "$@" >"$output" 2>&1 &
    else
        "$folder/on" host0 "$build/tutti" run -n "$n" --survive --rsh "$folder/on" \
            --hosts host0:1,host1:1,host2:1,host3:1 "$@" >"$output" 2>&1 &
    fi
    job=$!
}

# await COMMAND...: until the command succeeds, while the job runs.
await() {
    until "$@"; do
        kill -0 "$job" 2>/dev/null || { cat "$output" >&2; exit 1; }
        sleep 0.2
    done
}

has_iterated() { grep -q 'iteration 20$' "$output"; }
has_dumps() { [ "$(find "$traces" -name '*.jsonl' | wc -l)" -ge "$1" ]; }

analyze() {
    await has_dumps "$dumps"
    "$build/tutti" analyze "$@" "$traces" || exit $?
}

profile() {
    wait "$job" || { cat "$output" >&2; exit 1; }
    job=
    "$build/tutti" profile "$@" "$traces"
}

[ "$hosts" = 0 ] || hosts_begin
case $story in
never-joins)
    start 16 --tensor 4 --fault never --rank 2
    dumps=16 analyze "$@"
    ;;
rank-stops)
    start 8 --tensor 2 --fault stop --rank 5
    dumps=7 analyze "$@"
    ;;
wrong-order)
    start 8 --tensor 4 --fault order --rank 3
    dumps=8 analyze "$@"
    ;;
nic-stops)
    start 4 --tensor 2
    await has_iterated
    ip link set port2 down
    dumps=4 analyze "$@"
    ;;
late-rank)
    start 8 --tensor 4 --fault late --rank 5 --iterations 500
    profile "$@"
    ;;
slow-nic)
    for i in 0 1 3; do host_limit $i 20; done
    host_limit 2 10
    start 4 --tensor 2 --count 16384 --iterations 150
    profile --window 3 "$@"
    ;;
esac
