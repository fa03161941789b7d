#!/usr/bin/env bash
# The megakernel of examples/moe runs on a GPU, in each mode of the proxy: every bit of its results
# equals the dense reference, and an invalid routing is refused on all ranks. Few tokens and rounds,
# because ranks that share a GPU run in time slices. Skipped without a GPU or nvcc.
set -euo pipefail
[[ -e /dev/nvidiactl ]] || { echo "there is no GPU here"; exit 77; }
source "$TUTTI_SOURCE_DIR/tests/cluster/cuda.sh"

# moe N WIRES OPTION...: runs a job of N ranks.
moe() {
    local n=$1 wires=$2 status=0
    shift 2
    "$TUTTI_BUILD_DIR/tutti" run -n "$n" --timeout 100 --wires "$wires" -- "$made/moe_run" --tokens 16 --rounds 1 --wrong "$@" || status=$?
    [[ $status == 0 ]] || exit $status
}

build_moe_run
for wires in tcp shm; do
    moe 2 $wires --there fp8 --skew 1
done
moe 3 tcp --scale 16 --tile 3 --group 8 --processors 7
moe 2 shm --scale 16 --there f32 --back f32 --processors 0
