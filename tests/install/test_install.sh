#!/usr/bin/env bash
# The installed files are usable: the outside program builds against the shared and the static
# library, by pkg-config and by find_package, and runs, also after the installed tree was moved. The
# libraries export only tutti_*, with versions.
set -euo pipefail

source_dir=${TUTTI_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
build_dir=${TUTTI_BUILD_DIR:-$source_dir/build/release}
cc=${CC:-cc}
read -ra cflags <<<"${CFLAGS:-}"    # the sanitizers with which the library was built
outside=$source_dir/tests/install/outside
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail()
{
    echo "FAILED: $*" >&2
    exit 1
}

# Runs a program, which must print the version and reduce, and must need libtutti.so exactly if it
# is a shared build.
check_program()
{
    local program=$1 kind=$2

    [[ $("$program") == "tutti $version: sum of f32 over 1 rank is 42" ]] || fail "$program does not run"
    if [[ $kind == shared ]]; then
        readelf -d "$program" | grep -q 'NEEDED.*libtutti\.so\.' || fail "$program is not linked to the shared library"
    else
        ! readelf -d "$program" | grep -q 'NEEDED.*libtutti' || fail "$program is not linked statically"
    fi
    echo "ok: $(basename "$program") ($kind)"
}

cmake --install "$build_dir" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"     # no file may contain its old location
pc=$(find "$work/prefix" -name tutti.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
version=$(pkg-config --modversion tutti)
read -ra see <<<"$(pkg-config --cflags tutti)"
read -ra use <<<"$(pkg-config --cflags --libs tutti)"
read -ra use_static <<<"$(pkg-config --cflags --static --libs tutti)"

# The header is self-contained, in C99 and, if a compiler is available, in C++.
"$cc" -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only "${see[@]}" "$outside/outside.c"
if c++ --version >/dev/null 2>&1; then
    echo '#include <tutti/tutti.h>' | c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only "${see[@]}" -x c++ -
fi

"$cc" "${cflags[@]}" "$outside/outside.c" -o "$work/pkgconfig_shared" "${use[@]}"
check_program "$work/pkgconfig_shared" shared

"$cc" "${cflags[@]}" "$outside/outside.c" -o "$work/pkgconfig_static" "${use_static[@]/#-ltutti/-l:libtutti.a}"
check_program "$work/pkgconfig_static" static

cmake -G Ninja -S "$outside" -B "$work/package" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/package" >/dev/null
check_program "$work/package/with_shared" shared
check_program "$work/package/with_static" static

# A plug-in is built outside the tree, against the installed headers, without libraries. The
# installed command loads it and checks every element; the same for the plan in its directory.
plugin=$source_dir/examples/plugin
"$cc" -std=c99 -Wall -Wextra -pedantic -Werror -shared -fPIC -o "$work/bothways.so" "$plugin/allgather_bothways.c" "${see[@]}"
if c++ --version >/dev/null 2>&1; then
    echo '#include <tutti/algorithm.h>' | c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only "${see[@]}" -x c++ -
fi
for algo in bothways sockets4; do
    TUTTI_ALGORITHMS=$work/bothways.so,$plugin/allgather_sockets4.json "$work/prefix/bin/tutti" perf -n 4 --check --algo $algo \
        --min 4K --max 64K --factor 16 allgather >"$work/perf" || fail "the plug-in's $algo does not run"
    grep -q "$algo" "$work/perf" || fail "perf does not tell that it used $algo"
    echo "ok: $algo gathers"
done

# An OpenSHMEM program is built by the compiler wrapper and by pkg-config; with the wrapper it needs
# no LD_LIBRARY_PATH.
shmem=$source_dir/tests/shmem/programs/atomics.c
OSHCC_COMPILER=$cc "$work/prefix/bin/tutti-oshcc" "${cflags[@]}" "$shmem" -o "$work/shmem_wrapper"
read -ra use <<<"$(pkg-config --cflags --libs tutti-shmem)"
"$cc" "${cflags[@]}" "$shmem" -o "$work/shmem_pkgconfig" "${use[@]}"
for program in shmem_wrapper shmem_pkgconfig; do
    readelf -d "$work/$program" | grep -q 'NEEDED.*libtutti-shmem\.so\.' || fail "$program is not linked to libtutti-shmem"
done
(unset LD_LIBRARY_PATH; SHMEM_SYMMETRIC_SIZE=1M "$work/prefix/bin/tutti" run -n 2 -- "$work/shmem_wrapper") ||
    fail "the OpenSHMEM program of the wrapper does not run"
SHMEM_SYMMETRIC_SIZE=1M "$work/prefix/bin/tutti" run -n 2 -- "$work/shmem_pkgconfig" ||
    fail "the OpenSHMEM program of pkg-config does not run"
echo "ok: an OpenSHMEM program, by the wrapper and by pkg-config"

# The exports of the shared library: only tutti_*, each with its version; and all functions that the
# header declares.
exported=$(nm -D --defined-only "$libdir/libtutti.so" | awk '$2 != "A" { print $3 }' | sort)
strangers=$(grep -v '^tutti_[a-z0-9_]*@@TUTTI_[0-9.]*$' <<<"$exported" || true)
[[ -z $strangers ]] || fail "exported, but not ours or without a version: $strangers"
declared=$(sed -n 's/^TUTTI_API [^(]*[ *]\(tutti_[a-z0-9_]*\)(.*/\1/p' "$work/prefix/include/tutti/tutti.h" | sort)
missing=$(comm -23 <(echo "$declared") <(sed 's/@@.*//' <<<"$exported"))
if [[ -n $missing ]]; then
    compgen -G "$source_dir/src/comm/*.c" >/dev/null && fail "declared, but not exported:" $missing
    echo "not there yet:" $missing
fi
echo "ok: $(wc -l <<<"$exported") functions exported, $(wc -l <<<"$declared") declared"
