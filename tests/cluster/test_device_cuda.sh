#!/usr/bin/env bash
# What kernels call compiles as CUDA, in kernels that run on the CPU in test_device.c and in examples/moe, and so do a program that runs the former against the library
# (test_device_gpu.sh) and one that puts from and to a GPU's memory (test_device_memory.sh); every warning is an error. No GPU is needed. Skipped where there is no nvcc.
set -euo pipefail
source "$TUTTI_SOURCE_DIR/tests/cluster/cuda.sh"

# compile NAME PATTERN...: tests/cluster/NAME.cu, in whose code all patterns are found.
compile() {
    local name=$1
    shift
    mkdir "$made/$name"
    build "$name" --keep --keep-dir "$made/$name" -c -o "$made/$name/kernels.o"
    for what in "$@"; do
        grep -q -- "$what" "$made/$name"/*.ptx || { echo "no $what in $name"; exit 1; }
    done
}

# It is GPU code: the kernels are there, and words are loaded and stored for the whole system.
compile device_kernels '\.entry .*exchange' '\.entry .*crowd' '\.entry .*fences' '\.entry .*route' '\.entry .*flag_kernel' \
    '\.entry .*hashing' '\.entry .*hash_kernel' shfl.sync.bfly st.release.sys ld.acquire.sys atom.add.acq_rel.sys
compile moe_kernels '\.entry .*megakernel' st.release.sys ld.acquire.sys atom.add.acq_rel.sys
build_program device_run
build_program device_memory
