#!/usr/bin/env bash
# Puts from and to GPU memory by libfabric: managed memory, which any provider supports, and then
# memory that only the GPU and CUDA's copies can access. Skipped without a GPU or nvcc, or if
# libfabric has no usable provider for such memory. Without RDMA devices, only psm3 in a libfabric
# built with CUDA qualifies.
set -euo pipefail
[[ -e /dev/nvidiactl ]] || { echo "there is no GPU here"; exit 77; }
source "$TUTTI_SOURCE_DIR/tests/cluster/cuda.sh"

# play OPTION...: runs the program in a job that uses only ofi.
play() {
    local status=0
    "$TUTTI_BUILD_DIR/tutti" run -n 2 --timeout 100 --wires ofi -- "$made/device_memory" "$@" || status=$?
    [[ $status == 0 ]] || exit $status
}

build_program device_memory
export TUTTI_LOG=info     # prints the provider
play managed

# libfabric looks for libcudart.so
LD_LIBRARY_PATH=$(dirname "$(dirname "$nvcc")")/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
export PSM3_CUDA=1      # otherwise psm3 does not report support
export TUTTI_OFI_HMEM=1
play
