#!/usr/bin/env bash
# Makes the Python environment that the Python package is built and tested in, below build/python. What is in it, and in
# which version, is here and nowhere else. Does nothing when it is there.
set -euo pipefail
cd "$(dirname "$0")/.."

# nanobind and scikit-build-core build the package; numpy and ml_dtypes are in its tests.
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
