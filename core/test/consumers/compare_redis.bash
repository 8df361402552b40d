#!/usr/bin/env bash
# compare_redis.bash [FLAG...]: Redis from Debian's source, once with the jemalloc that it carries and once with
# Granary in its place, through the phases of `granary bench redis` (which gets the flags: --quick, --out DIR),
# then deletion of nine tenths and active defragmentation. REDIS_SOURCE names an archive of the source,
# BUILDS a folder that keeps both builds for the next time.
set -euo pipefail
: "${GRANARY_BUILD:?set GRANARY_BUILD to the folder of the build}"
export GRANARY_LIB=${GRANARY_LIB:-$GRANARY_BUILD/lib/libgranary.so}
# shellcheck source=../programs/lib.inc
. "$(dirname "$0")/../programs/lib.inc"
# shellcheck source=../programs/source.inc
. "$(dirname "$0")/../programs/source.inc"
need cc make redis-cli redis-benchmark tar

builds=${BUILDS:-$work/builds}
mkdir -p "$builds"
for name in jemalloc granary; do
  [ ! -x "$builds/$name/src/redis-server" ] || continue
  [ -n "${archive:-}" ] || debian_source redis "${REDIS_SOURCE:-}"
  unpack "$archive" "$builds/$name"
  [ "$name" = jemalloc ] || vendor_granary "$builds/$name" libgranary_je.a
  timeout 3000 make -s -C "$builds/$name/src" -j2 MALLOC=jemalloc redis-server >"$work/make.log" 2>&1 ||
    fail "redis-server could not be built with $name."
done
cp "$GRANARY_BUILD/lib/libgranary_je.a" "$builds/granary/deps/jemalloc/lib/libjemalloc.a"
rm -f "$builds/granary/src/redis-server"
make -s -C "$builds/granary/src" MALLOC=jemalloc redis-server >"$work/make.log" 2>&1 || fail 'the link failed.'

# The columns of the table differ by a variable, which chooses the build; malloc is the C library's in both.
mkdir "$work/bin"
# shellcheck disable=SC2016  # the script expands it
printf '#!/bin/sh\nexec "%s/${VENDORED:-jemalloc}/src/redis-server" "$@"\n' "$builds" >"$work/bin/redis-server"
chmod +x "$work/bin/redis-server"
PATH=$work/bin:$PATH "$GRANARY_BUILD/bin/granary" bench redis \
  --allocators glibc:VENDORED=jemalloc,glibc:VENDORED=granary "$@"

for round in 1 2 3; do
  for name in jemalloc granary; do
    serve "$builds/$name/src/redis-server"
    cli debug populate 600000 key 150 >/dev/null
    cli eval "for i = 0, 599999 do if i % 10 ~= 0 then redis.call('del', 'key:' .. i) end end" 0 >/dev/null
    before=$(info used_memory_rss)
    cli config set activedefrag yes active-defrag-ignore-bytes 1mb active-defrag-threshold-lower 10 \
      active-defrag-cycle-min 50 active-defrag-cycle-max 75 >/dev/null
    sleep 3 # it decides to begin once a second
    tries=0
    while [ "$(info active_defrag_running)" != 0 ] && [ "$tries" -lt 60 ]; do
      tries=$((tries + 1))
      sleep 1
    done
    sleep 2 # until the freed memory is purged
    echo "active defragmentation, round $round, $name: RSS $before -> $(info used_memory_rss) bytes," \
      "used $(info used_memory), running still: $(info active_defrag_running)"
    stop_children
  done
done
