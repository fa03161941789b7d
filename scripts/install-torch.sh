#!/usr/bin/env bash
# Creates an environment in which tutti.torch is tested: a fixed version of PyTorch, and the package
# tutti, built for it from this checkout. PyTorch comes from PyPI (5 GB with its dependencies, one or
# two minutes). It is installed again only if the versions below change.
#
#   scripts/install-torch.sh [--torch VERSION] [BUILD]      BUILD: the folder with libtutti.so and the
#                                                           tutti command (build/release)
#   scripts/install-torch.sh --environment      without the package
#   scripts/install-torch.sh --frameworks       what test_torch_frameworks.py needs, added to it
#
# The environment is build/torch, or build/torch-VERSION. TUTTI_TEST_TORCH=FOLDER selects it for the
# tests.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.15.0
# Accelerate, Lightning and Ray are examples of programs that use torch.distributed: examples/torch.
frameworks=(accelerate==1.15.0 pytorch-lightning==2.6.6 ray==2.60.0)
folder=build/torch
if [[ ${1:-} == --torch ]]; then
    version=${2:?--torch needs a version, for example 2.9.1}
    folder=build/torch-$version
    shift 2
fi
# expecttest: PyTorch's own tests import it. nanobind, scikit-build-core: they build the package.
wheels=(torch=="$version" numpy==2.4.6 expecttest==0.3.0 nanobind==3.1.0 scikit-build-core==1.1.2)

mkdir -p build
exec 9>"$folder.lock"
flock 9
pip=("$folder/bin/python" -m pip --disable-pip-version-check --quiet install)
if [[ $(cat "$folder/wheels" 2>/dev/null || true) != "${wheels[*]}" ]]; then
    rm -rf "$folder" "python/$folder-package"     # pip resolves build-dir in ./python
    python3 -m venv "$folder"
    "${pip[@]}" --retries 2 --timeout 20 --only-binary :all: "${wheels[@]}"
    echo "${wheels[*]}" >"$folder/wheels"
    echo "installed ${wheels[*]} in $folder"
fi
if [[ ${1:-} == --frameworks ]]; then
    if [[ $(cat "$folder/frameworks" 2>/dev/null || true) != "${frameworks[*]}" ]]; then
        "${pip[@]}" --retries 2 --timeout 20 --only-binary :all: "${frameworks[@]}" "${wheels[@]}"
        echo "${frameworks[*]}" >"$folder/frameworks"
        echo "installed ${frameworks[*]} in $folder"
    fi
    exit 0
fi
[[ ${1:-} != --environment ]] || exit 0
library=$(realpath "${1:-build/release}")
PATH=$(realpath "$folder/bin"):$PATH "${pip[@]}" --force-reinstall --no-deps --no-build-isolation ./python \
    -C build-dir="$folder-package" -C cmake.define.TUTTI_BUILD="$library"
echo "installed tutti in $folder"
