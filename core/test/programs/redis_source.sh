#!/bin/sh
# Redis built from source for jemalloc, with Granary's header and archive in the place of its own copy:
# its memory commands tell the truth, and active defragmentation gives back what deletions left sparse.
# The source is the file named by REDIS_SOURCE, or Debian's, if apt knows where sources are.
set -eu
. "$(dirname "$0")/lib.inc"
need cc make redis-cli tar

source=${REDIS_SOURCE:-}
if [ -z "$source" ]; then
  need apt-get
  (cd "$work" && timeout 120 apt-get source --download-only redis >"$work/apt.log" 2>&1) ||
    skip "apt has no source of redis here; name the archive in REDIS_SOURCE."
  for source in "$work"/redis_*.orig.tar.gz; do :; done
fi
[ -f "$source" ] || skip "$source is not there."
mkdir "$work/redis" "$work/data"
tar -xf "$source" -C "$work/redis" --strip-components=1

# What Redis's makefiles call of jemalloc's: nothing is left to build.
jemalloc=$work/redis/deps/jemalloc
rm -rf "$jemalloc"
mkdir -p "$jemalloc/lib"
cp -r "$root/core/include" "$jemalloc/include"
cp "${GRANARY_BUILD:?}/lib/libgranary.a" "$jemalloc/lib/libjemalloc.a"
printf '#!/bin/sh\nexit 0\n' >"$jemalloc/configure"
chmod +x "$jemalloc/configure"
printf 'lib/libjemalloc.a:\n\t@true\n' >"$jemalloc/Makefile"
timeout 280 make -s -C "$work/redis/src" -j2 MALLOC=jemalloc OPTIMIZATION=-O1 DEBUG= redis-server \
  >"$work/make.log" 2>&1 || fail 'redis-server could not be built.'

port=$(free_port)
"$work/redis/src/redis-server" --port "$port" --bind 127.0.0.1 --save '' --dir "$work/data" \
  --enable-debug-command yes >"$work/redis.log" 2>&1 &
server=$!
children="$children $server"
cli() { redis-cli -h 127.0.0.1 -p "$port" "$@"; }
probe 20 cli ping
info() { cli info memory | tr -d '\r' | sed -n "s/^$1://p"; }
within() { [ "$1" -le "$2" ] && [ "$2" -le "$3" ]; }
says() { printf '%s\n' "$2" | grep -q -e "$1" || fail "expected to read \"$1\" in: $2"; }

says jemalloc-5 "$(info mem_allocator)"
says Granary "$(cli debug mallctl-str version)"
cli debug populate 600000 key 150 >/dev/null
allocated=$(info allocator_allocated)
active=$(info allocator_active)
resident=$(info allocator_resident)
within "$allocated" "$active" "$resident" ||
  fail "allocated $allocated, active $active and resident $resident are out of order."
expect_equal OK "$(cli memory purge)" 'MEMORY PURGE'
says '^--- End jemalloc statistics ---' "$(cli memory malloc-stats)"
says 'allocator.allocated' "$(cli memory stats)"
[ -n "$(cli memory doctor)" ] || fail 'MEMORY DOCTOR says nothing.'

# Nine of ten keys go; what is left lies all over the slabs until it is moved.
cli eval "for i = 0, 599999 do if i % 10 ~= 0 then redis.call('del', 'key:' .. i) end end" 0 >/dev/null
cli memory purge >/dev/null
before=$(info used_memory_rss)
expect_equal OK "$(cli config set activedefrag yes active-defrag-ignore-bytes 1mb \
  active-defrag-threshold-lower 10 active-defrag-cycle-min 60 active-defrag-cycle-max 75)" 'activedefrag'
shrunk() { [ "$(info used_memory_rss)" -lt $((before / 2)) ]; }
probe 90 shrunk
echo "active defragmentation: RSS $before -> $(info used_memory_rss) bytes"
keys=$(cli dbsize)
expect_equal 60000 "$keys" 'keys that are left'
cli debug digest >/dev/null
expect_equal OK "$(cli debug reload)" 'DEBUG RELOAD'
