#!/usr/bin/env bash
# Creates the Python environment in which the Python package is built and tested, below
# build/python. Its contents and their versions are defined only here. Does nothing if it exists.
set -euo pipefail
cd "$(dirname "$0")/.."

# nanobind and scikit-build-core build the package; its tests use numpy and ml_dtypes.
wheels=(nanobind==3.1.0 scikit-build-core==1.1.2 numpy==2.4.6 ml_dtypes==0.6.0)

folder=build/python
mkdir -p build
exec 9>build/python.lock
flock 9
[[ $(cat "$folder/wheels" 2>/dev/null || true) != "${wheels[*]}" ]] || exit 0
rm -rf "$folder"
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 --timeout 20 --only-binary :all: "${wheels[@]}"
echo "${wheels[*]}" >"$folder/wheels"
echo "installed ${wheels[*]} in $folder"
