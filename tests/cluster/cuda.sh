# Shared by tests of CUDA code. The test that sources this file is skipped without nvcc, and in
# builds with sanitizers, which do not cover CUDA code.
# shellcheck shell=bash

[[ ${CFLAGS:-} != *-fsanitize* ]] || exit 77

nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
[[ -x $nvcc ]] || { echo "there is no nvcc here"; exit 77; }

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
here=$TUTTI_SOURCE_DIR

# build NAME OPTION...: compiles tests/cluster/NAME.cu. Every warning is an error.
build() {
    local name=$1
    shift
    "$nvcc" -arch=sm_80 -I "$here/include" -I "$here/examples/moe" --Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-unused-parameter \
        "$here/tests/cluster/$name.cu" "$@"
}

# build_program NAME OPTION...: builds $made/NAME, with the library.
build_program() {
    build "$@" -o "$made/$1" -L "$TUTTI_BUILD_DIR" -ltutti -Xlinker -rpath,"$TUTTI_BUILD_DIR"
}

# Builds moe_run without fused operations, so that its bits equal those of the host.
build_moe_run() {
    build_program moe_run -O2 --fmad=false -Xcompiler -ffp-contract=off "$here"/examples/moe/{model,options,rank,report,rounds}.c
}
