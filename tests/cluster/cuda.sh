# What tests of CUDA code share. Where there is no nvcc, and in builds for sanitizers, which have no part in it, the test that reads this is skipped.
# shellcheck shell=bash

[[ ${CFLAGS:-} != *-fsanitize* ]] || exit 77

nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
[[ -x $nvcc ]] || { echo "there is no nvcc here"; exit 77; }

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
here=$TUTTI_SOURCE_DIR

# build NAME OPTION...: tests/cluster/NAME.cu. Every warning is an error.
build() {
    local name=$1
    shift
    "$nvcc" -arch=sm_80 -I "$here/include" -I "$here/examples/moe" --Werror all-warnings -Xcompiler -Wall,-Wextra,-Wno-unused-parameter \
        "$here/tests/cluster/$name.cu" "$@"
}

# build_program NAME OPTION...: the same as $made/NAME, with the library.
build_program() {
    build "$@" -o "$made/$1" -L "$TUTTI_BUILD_DIR" -ltutti -Xlinker -rpath,"$TUTTI_BUILD_DIR"
}

# moe_run, whose bits must be those of a host: nothing is fused.
build_moe_run() {
    build_program moe_run -O2 --fmad=false -Xcompiler -ffp-contract=off "$here"/examples/moe/{model,options,rank,report,rounds}.c
}
