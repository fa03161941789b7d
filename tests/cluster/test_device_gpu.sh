#!/usr/bin/env bash
# The kernels of test_device.c run on a GPU, against the library, by plain connections and by what processes of one host read of each other. Skipped where there is no GPU or no nvcc.
set -euo pipefail
[[ -e /dev/nvidiactl ]] || { echo "there is no GPU here"; exit 77; }
source "$TUTTI_SOURCE_DIR/tests/cluster/cuda.sh"

build_program device_run
for wires in tcp shm; do
    status=0
    "$TUTTI_BUILD_DIR/tutti" run -n 3 --timeout 100 --wires $wires -- "$made/device_run" || status=$?
    [[ $status == 0 ]] || exit $status
done
