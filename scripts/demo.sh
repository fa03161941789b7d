#!/usr/bin/env bash
# The main job on real ranks: 4 of them, every collective from 8 B to 16 MiB over shared memory and then over TCP, every
# byte checked, out of place and in place. Then training in an elastic run, of which one member is killed and another one joins.
#
#   scripts/demo.sh [build directory]
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/release}
begun=${DEMO_BEGUN:-$EPOCHREALTIME}     # when whoever called this began, where that has built it first
tutti=$build/tutti
kept=$(mktemp)
trap 'rm -f "$kept"' EXIT

# The names of the columns once for each wire, and one line for each collective.
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

# A newcomer's first three minutes; on a machine that is busy, or has to build all of it, they are longer.
awk -v begun="${begun/,/.}" -v now="${EPOCHREALTIME/,/.}" -v built="${DEMO_BEGUN:+, with what had to be built}" \
    'BEGIN { printf "\nThe demo took %.0f s in all%s.\n", now - begun, built }'
