#!/usr/bin/env bash
# Creates the Python environment build/nccl4py, in which the tests run NVIDIA's nccl4py over
# libnccl.so.2 of Tutti (tests/nccl/test_nccl4py.py). The versions are defined only here. NCCL
# itself is not installed. Does nothing if the environment exists.
set -euo pipefail
cd "$(dirname "$0")/.."

wheels=(nccl4py==0.6.0 cuda-core==1.2.2 cuda-bindings==13.5.0 numpy==2.4.6)

folder=build/nccl4py
mkdir -p build
exec 9>build/nccl4py.lock
flock 9
[[ $(cat "$folder/wheels" 2>/dev/null || true) != "${wheels[*]}" ]] || exit 0
rm -rf "$folder"
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 --timeout 20 \
    --only-binary :all: "${wheels[@]}"
echo "${wheels[*]}" >"$folder/wheels"
echo "installed ${wheels[*]} in $folder"
