#!/usr/bin/env bash
# What kernels call compiles as CUDA, in kernels that run on the CPU in test_device.c; every warning is an error. Skipped where there is no nvcc, and in
# builds for sanitizers, which have no part in it.
set -euo pipefail

[[ ${CFLAGS:-} != *-fsanitize* ]] || exit 77

nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
[[ -x $nvcc ]] || { echo "there is no nvcc here"; exit 77; }

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
here=$TUTTI_SOURCE_DIR
"$nvcc" -arch=sm_80 -I "$here/include" --Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-unused-parameter \
    --keep --keep-dir "$made" -c "$here/tests/cluster/device_kernels.cu" -o "$made/kernels.o"

# It is GPU code: the kernels are there, and words are loaded and stored for the whole system.
for what in '\.entry .*exchange' '\.entry .*crowd' '\.entry .*fences' '\.entry .*route' '\.entry .*flag_kernel' st.release.sys ld.acquire.sys atom.add.acq_rel.sys; do
    grep -q -- "$what" "$made"/*.ptx || { echo "no $what in the kernels"; exit 1; }
done
