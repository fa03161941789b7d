# TUTTI_SECURITY as used by a user. With the commands of docs/security.md, which create
# certificates, two ranks connect over TCP; without them they do not.
set -euo pipefail

command -v openssl >/dev/null || { echo "there is no openssl to make certificates with"; exit 77; }
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
cd "$dir"
unset TUTTI_RANK TUTTI_SIZE TUTTI_RENDEZVOUS TUTTI_TOKEN

# Extracts the first block of commands that starts with openssl, and the settings that follow it.
awk '/^```sh/ { block = ""; inside = 1; next } /^```/ { if (block ~ /^openssl/) { print block; exit } inside = 0 } inside { block = block $0 "\n" }' \
    "$TUTTI_SOURCE_DIR/docs/security.md" >make.sh
[ "$(grep -c '^openssl' make.sh)" = 4 ] || { echo "docs/security.md has not four commands for certificates"; exit 1; }
bash -e make.sh >make.out 2>&1 || { cat make.out; exit 1; }
grep -q "member.pem: OK" make.out
settings=$(grep '^export TUTTI_SECURITY=certificate' "$TUTTI_SOURCE_DIR/docs/security.md")
eval "$settings"

perf() { timeout 100 "$TUTTI_BUILD_DIR/tutti" perf allreduce -n 2 --wire=tcp --min=1M --max=1M --iters=5 --check --out-of-place; }
perf >perf.out 2>&1 || { cat perf.out; exit 1; }
grep -q "Out of bounds values : 0 OK" perf.out

# A certificate of another authority is refused by its owner already, because all ranks use our
# authority.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj "/CN=stranger" -keyout stranger.key \
    -out stranger.pem 2>/dev/null
if TUTTI_CERTIFICATE=stranger.pem TUTTI_KEY=stranger.key perf >perf.out 2>&1; then
    echo "a stranger's certificate was taken"
    exit 1
fi
grep -q "certificate stranger.pem failed verification with authority authority.pem" perf.out || { cat perf.out; exit 1; }

# Ranks with different settings fail, with the settings of each in the message.
cat >differ.sh <<'END'
[ "$TUTTI_LOCAL_RANK" = 1 ] && export TUTTI_SECURITY=plain
exec "$TUTTI_BUILD_DIR/tutti" perf barrier --iters=1
END
if timeout 100 "$TUTTI_BUILD_DIR/tutti" run -n 2 -- bash differ.sh >differ.out 2>&1; then
    echo "ranks with different security came together"
    exit 1
fi
grep -q 'rank 0 has TUTTI_SECURITY=certificate; rank 1 has none' differ.out || {
    cat differ.out
    exit 1
}

# A token that is too short is refused, by name.
if TUTTI_SECURITY=token TUTTI_TOKEN=short TUTTI_RANK=0 TUTTI_SIZE=1 TUTTI_RENDEZVOUS="file://$dir/meet" \
    timeout 100 "$TUTTI_BUILD_DIR/tutti" perf barrier --iters=1 >short.out 2>&1; then
    echo "a short token was taken"
    exit 1
fi
grep -q "5 characters, at least 16 needed" short.out || { cat short.out; exit 1; }

# An elastic run with the same settings: its coordinator and members connect, and a member without a
# certificate is refused.
members="$TUTTI_BUILD_DIR/tests/cluster/prog_member"
coproc "$TUTTI_BUILD_DIR/tutti" coordinator --journal none --listen 127.0.0.1:0 2>coordinator.err
coordinator=$COPROC_PID
trap 'kill "$coordinator" 2>/dev/null || true; rm -r "$dir"' EXIT
read -r -t 100 _ _ at <&"${COPROC[0]}" || { cat coordinator.err; exit 1; }
timeout 100 "$members" "$at" 1000 2 >one.out 2>&1 & one=$!
timeout 100 "$members" "$at" 1000 2 >two.out 2>&1 & two=$!
for out in one.out two.out; do
    for _ in $(seq 1000); do grep -q "members 2 ms" $out && break; sleep 0.1; done
    grep -q "members 2 ms" $out || { cat one.out two.out coordinator.err; exit 1; }
done
if TUTTI_SECURITY=plain timeout 100 "$members" "$at" 1000 1 >plain.out 2>&1; then
    echo "a member without a certificate was taken"
    exit 1
fi
if TUTTI_KEY= timeout 100 "$members" "$at" 1000 1 >keyless.out 2>&1; then
    echo "a member without a key was taken"
    exit 1
fi
grep -q "TUTTI_KEY is not set" keyless.out || { cat keyless.out; exit 1; }
kill -TERM $one $two
wait $one
wait $two
