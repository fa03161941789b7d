#!/usr/bin/env bash
# Code called by kernels compiles as CUDA: the kernels that run on the CPU in test_device.c and in
# examples/moe, and the programs that run them with the library (test_device_gpu.sh,
# test_device_memory.sh, test_moe_gpu.sh). Every warning is an error. No GPU is needed. Skipped
# without nvcc.
set -euo pipefail
source "$TUTTI_SOURCE_DIR/tests/cluster/cuda.sh"

# compile NAME PATTERN...: compiles tests/cluster/NAME.cu; its code must contain all patterns.
compile() {
    local name=$1
    shift
    mkdir "$made/$name"
    build "$name" --keep --keep-dir "$made/$name" -c -o "$made/$name/kernels.o"
    for what in "$@"; do
        grep -q -- "$what" "$made/$name"/*.ptx || { echo "no $what in $name"; exit 1; }
    done
    ! grep ld.global.nc "$made/$name"/*.ptx || { echo "$name reads what others write as if it were constant"; exit 1; }
}

# Checks the GPU code: the kernels exist, and words are loaded and stored with system scope.
compile device_kernels '\.entry .*exchange' '\.entry .*crowd' '\.entry .*fences' '\.entry .*route' '\.entry .*flag_kernel' \
    '\.entry .*hashing' '\.entry .*hash_kernel' shfl.sync.bfly fence.acq_rel.sys st.release.sys ld.acquire.sys
compile moe_kernels '\.entry .*megakernel' fence.acq_rel.sys ld.acquire.sys
build_program device_run
build_program device_state
build_program device_memory
build ../../bench/gpu -o "$made/gpu" -L "$TUTTI_BUILD_DIR" -ltutti
build_moe_run
