#!/usr/bin/env bash
# The main job on real ranks: 4 ranks, every collective from 8 B to 16 MiB over shared memory and
# then over TCP; every byte is checked, out of place and in place. Then training in an elastic run,
# in which one member is killed and another one joins.
#
#   scripts/demo.sh [build directory]
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/release}
begun=${DEMO_BEGUN:-$EPOCHREALTIME}     # start of the caller, if it has built the tools before
tutti=$build/tutti
kept=$(mktemp)
trap 'rm -f "$kept"' EXIT

# Prints the column names once per transport, and one line per collective.
fewer_headers()
{
    awk '/^#$/ { next }
         /^# .*out-of-place/ { if (seen++) { print "# " $2; next } }
         /^# +(size|\(B\)) / && seen > 1 { next }
         { print; fflush() }'
}

for wire in shm tcp; do
    echo
    echo "== 4 ranks over $wire =="
    "$tutti" perf all --ranks 4 --wire "$wire" --min 8 --max 16M --factor 8 --warmup 1 --check | tee -a "$kept" | fewer_headers
done
echo
awk '/^# Checked +:/ { n += $4 } END { print "All " n " checks over shared memory and TCP passed: every byte was right on every rank." }' "$kept"
echo
echo "== asynchronous DiLoCo in an elastic run: one of 3 members is killed, another one joins =="
scripts/demo-training.sh "$build"

# The demo takes three minutes; longer on a busy machine, or if everything must be built.
awk -v begun="${begun/,/.}" -v now="${EPOCHREALTIME/,/.}" -v built="${DEMO_BEGUN:+, with what had to be built}" \
    'BEGIN { printf "\nThe demo took %.0f s in all%s.\n", now - begun, built }'
