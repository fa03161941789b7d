#!/usr/bin/env bash
# Live training with changing membership: a coordinator and three members of asynchronous DiLoCo
# (docs/training.md). One is killed, another one joins, and the loss keeps falling. At the end all
# members print their state.
#
#   scripts/demo-training.sh [build directory] [file]     file: receives every line, in the format of
#                                                         train_alone --replay
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/release}
curve=${2:-/dev/null}
steps=4800 shown=240 kill_at=1300 join_at=2300
member=("$build/examples/train_diloco_async" docs/algorithms.md --steps "$steps" --inner 20 --outer-rate 0.5 --outer-momentum 0.3)

dir=$(mktemp -d)
coordinator=
pids=()         # of the running members, in order of their start
started=0

finish()
{
    trap - EXIT
    kill -9 $coordinator "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null
    rm -rf "$dir"
}
trap finish EXIT

fail()
{
    echo "$1" >&2
    tail -n 5 "$dir"/*.err >&2
    exit 1
}

start_coordinator()
{
    "$build/tutti" coordinator --journal none --listen 127.0.0.1:0 >"$dir/coordinator.out" 2>"$dir/coordinator.err" &
    coordinator=$!
    until grep -q '^listening on' "$dir/coordinator.out"; do
        kill -0 "$coordinator" 2>/dev/null || fail "The coordinator did not start."
        sleep 0.05
    done
    TUTTI_COORDINATOR=$(awk '/^listening on/ { print $3 }' "$dir/coordinator.out")
    export TUTTI_COORDINATOR
}

# The output of the first member of the view comes through one pipe, whichever member that is.
start_member()
{
    "${member[@]}" "$@" 2>"$dir/member$started.err" >"$dir/lines" &
    pids[started++]=$!
}

# Kills member $1 of the run.
kill_member()
{
    local n

    for n in "${!pids[@]}"; do
        if grep -q "; member $1 " "$dir/member$n.err"; then
            kill -9 "${pids[n]}"
            wait "${pids[n]}" 2>/dev/null || true
            unset "pids[n]"
        fi
    done
}

event()
{
    echo "          -- $1"
    echo "# $step $1" >>"$curve"
}

# Prints some lines, and kills or starts members at certain steps.
watch()
{
    local step loss members before=

    echo "#   step    loss   members"
    while read -r step loss members; do
        echo "$step $loss $members" >>"$curve"
        first_loss=${first_loss:-$loss}
        last_loss=$loss
        last_members=$members
        if ((step % shown == 0)) || [[ $members != "$before" ]]; then
            printf '%8d  %.4f   %s\n' "$step" "$loss" "$members"
        fi
        before=$members
        if [[ -z $killed ]] && ((step >= kill_at)); then
            read -r _ killed _ <<<"$members"
            kill_member "$killed"
            event "member $killed is killed"
        fi
        if [[ -z $joined ]] && ((step >= join_at)); then
            joined=yes
            start_member
            event "another member joins"
        fi
    done <"$dir/lines"
}

# Checks that every remaining member exits with status 0 and the same state.
compare()
{
    local pid states

    for pid in "${pids[@]}"; do
        wait "$pid" || fail "A member failed."
    done
    pids=()
    states=$(sed -n "s/.* ended after step $steps with state //p" "$dir"/*.err)
    echo
    [[ $(wc -w <<<"$states") == 3 && $(wc -w <<<"$last_members") == 3 ]] || fail "Not all three members trained to the end."
    [[ $(sort -u <<<"$states" | wc -l) == 1 ]] || fail "The members ended with different states: "$states
    echo "The loss went from $first_loss to $last_loss while a member was killed and another one joined," \
         "and all three members ended with the same state (${states%%$'\n'*})."
}

killed='' joined='' first_loss='' last_loss='' last_members=''
[[ $curve == /dev/null ]] || : >"$curve"
mkfifo "$dir/lines"
start_coordinator
for _ in 1 2 3; do
    start_member --members 3
done
watch
compare
