#!/usr/bin/env bash
# Unpacks the headers of the CUDA runtime below build/cuda, from a wheel (4 MB). The emulation of GPUs
# (emu) is compiled with them; nothing of the wheel is linked or installed. Its version is defined only
# here. Does nothing if they exist.
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=nvidia-cuda-runtime==13.2.86

folder=build/cuda
mkdir -p build
exec 9>"$folder.lock"
flock 9
[[ $(cat "$folder/wheel" 2>/dev/null || true) != "$wheel" ]] || exit 0
rm -rf "$folder"
python3 -m venv "$folder.pip"
"$folder.pip/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 --timeout 20 \
    --only-binary :all: --no-deps --target "$folder" "$wheel"
rm -rf "$folder.pip"
echo "$wheel" >"$folder/wheel"
echo "installed the headers of $wheel in $folder"
