#!/usr/bin/env bash
# What kernels call compiles as CUDA, in kernels that run on the CPU in test_device.c and in examples/moe, and so does a program that runs the former against the library; every
# warning is an error. Where there is a GPU the program runs. Skipped where there is no nvcc or no GPU, and in builds for sanitizers, which have no part in it.
set -euo pipefail

[[ ${CFLAGS:-} != *-fsanitize* ]] || exit 77

nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
[[ -x $nvcc ]] || { echo "there is no nvcc here"; exit 77; }

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
here=$TUTTI_SOURCE_DIR

# build NAME OPTION...: tests/cluster/NAME.cu.
build() {
    local name=$1
    shift
    "$nvcc" -arch=sm_80 -I "$here/include" -I "$here/examples/moe" --Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-unused-parameter \
        "$here/tests/cluster/$name.cu" "$@"
}

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

# By plain connections, and by what processes of one host read of each other.
build device_run -o "$made/device_run" -L "$TUTTI_BUILD_DIR" -ltutti -Xlinker -rpath,"$TUTTI_BUILD_DIR"
for wires in tcp shm; do
    status=0
    "$TUTTI_BUILD_DIR/tutti" run -n 3 --timeout 100 --wires $wires -- "$made/device_run" || status=$?
    [[ $status == 0 ]] || exit $status
done
