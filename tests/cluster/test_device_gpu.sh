#!/usr/bin/env bash
# The kernels of test_device.c run on a GPU, with the library, over plain connections and over
# memory shared by processes of one host; and members of a run sync state in GPU memory. Skipped
# without a GPU or nvcc.
set -euo pipefail
[[ -e /dev/nvidiactl ]] || { echo "there is no GPU here"; exit 77; }
source "$TUTTI_SOURCE_DIR/tests/cluster/cuda.sh"

build_program device_run
for wires in tcp shm; do
    status=0
    "$TUTTI_BUILD_DIR/tutti" run -n 3 --timeout 100 --wires $wires -- "$made/device_run" || status=$?
    [[ $status == 0 ]] || exit $status
done

build_program device_state
coproc coordinator { exec "$TUTTI_BUILD_DIR/tutti" coordinator --journal none --listen localhost:0; }
members=()
trap 'kill ${coordinator_PID:-} "${members[@]}" 2>/dev/null || true; rm -rf "$made"' EXIT
read -r _ _ at _ <&"${coordinator[0]}"       # listening on ADDRESS
export TUTTI_COORDINATOR=${at%[,.;]}
for number in 0 1 2; do
    timeout 100 "$made/device_state" $number &
    members+=($!)
done
for member in "${members[@]}"; do
    wait "$member"
done
