#!/usr/bin/env bash
# Puts from and to memory of a GPU by libfabric: managed memory, which any provider carries, and then memory that only the GPU and CUDA's copies reach. Skipped where there is no GPU or no nvcc,
# or where libfabric has no provider that knows such memory and that the wire can use: of those without RDMA devices that is psm3, of a libfabric that was built with CUDA.
set -euo pipefail
[[ -e /dev/nvidiactl ]] || { echo "there is no GPU here"; exit 77; }
source "$TUTTI_SOURCE_DIR/tests/cluster/cuda.sh"

# play OPTION...: the program, in a job over ofi alone.
play() {
    local status=0
    "$TUTTI_BUILD_DIR/tutti" run -n 2 --timeout 100 --wires ofi -- "$made/device_memory" "$@" || status=$?
    [[ $status == 0 ]] || exit $status
}

build_program device_memory
export TUTTI_LOG=info     # which provider it is
play managed

LD_LIBRARY_PATH=$(dirname "$(dirname "$nvcc")")/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}     # libfabric looks for libcudart.so
export LD_LIBRARY_PATH
export PSM3_CUDA=1      # else psm3 says that it does not know it
export TUTTI_OFI_HMEM=1
play
