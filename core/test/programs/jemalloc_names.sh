#!/bin/sh
# Distribution binaries that need libjemalloc.so.2 find Granary under that name: redis-server, whose
# memory commands then report Granary's heap, and varnishd. Programs build against the header with
# the flags of jemalloc-config and pkg-config. A program on RocksDB runs.
set -eu
. "$(dirname "$0")/lib.inc"
need cc pkg-config

names=$work/names
mkdir -p "$names/lib/pkgconfig" "$names/bin"
for name in libgranary.so.1 libjemalloc.so libjemalloc.so.2 libtcmalloc.so libtcmalloc.so.4; do
  ln -s "$lib" "$names/lib/$name"
done
ln -s "$root/core/include" "$names/include"
cp "$root/integrations/packages/jemalloc-config" "$names/bin/"
cp "$root"/integrations/packages/*.pc "$names/lib/pkgconfig/"

within() { [ "$1" -le "$2" ] && [ "$2" -le "$3" ]; }
says() { printf '%s\n' "$2" | grep -q -e "$1" || fail "expected to read \"$1\" in: $2"; }

# Built with the commands that build systems use.
cat >"$work/client.c" <<'END'
#include <jemalloc/jemalloc.h>
#include <stdio.h>
int main(void) {
  const char* version;
  size_t size = sizeof version;
  void* p = mallocx(100, MALLOCX_ALIGN(64) | MALLOCX_ZERO);
  if (p == NULL || mallctl("version", &version, &size, NULL, 0) != 0) return 1;
  puts(version);
  sdallocx(p, 100, MALLOCX_ALIGN(64));
  je_free(je_malloc(10));
  return 0;
}
END
config=$names/bin/jemalloc-config
# shellcheck disable=SC2046  # several words each
cc -fno-builtin "$work/client.c" -o "$work/client" $("$config" --cflags) $("$config" --ldflags) \
  -Wl,-rpath,"$("$config" --libdir)" $("$config" --libs)
says Granary "$("$work/client")"
# shellcheck disable=SC2046
PKG_CONFIG_PATH=$names/lib/pkgconfig cc -fno-builtin "$work/client.c" -o "$work/client2" \
  $(PKG_CONFIG_PATH=$names/lib/pkgconfig pkg-config --cflags --libs jemalloc)
says Granary "$(LD_LIBRARY_PATH=$names/lib "$work/client2")"

if [ -e /usr/include/rocksdb/db.h ]; then
  cat >"$work/rocks.cc" <<'END'
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/memory_allocator.h>
#include <cstdio>
#include <string>
using namespace rocksdb;
int main(int, char** argv) {
  std::shared_ptr<MemoryAllocator> nodump;
  JemallocAllocatorOptions how;
  const Status s = NewJemallocNodumpAllocator(how, &nodump);
  std::printf("nodump: %s\n", s.ToString().c_str());
  Options options;
  options.create_if_missing = true;
  options.dump_malloc_stats = true;
  options.stats_dump_period_sec = 1;
  DB* db = nullptr;
  if (!DB::Open(options, argv[1], &db).ok()) return 1;
  const std::string value(500, 'v');
  for (int i = 0; i < 100000; ++i) {
    if (!db->Put(WriteOptions(), "key" + std::to_string(i * 7919 % 100003), value).ok()) return 2;
  }
  std::string stats, read;
  db->GetProperty("rocksdb.dbstats", &stats);
  for (int i = 0; i < 100000; i += 97) {
    if (!db->Get(ReadOptions(), "key" + std::to_string(i * 7919 % 100003), &read).ok() || read != value) return 3;
  }
  return delete db, 0;
}
END
  c++ -O1 "$work/rocks.cc" -o "$work/rocks" -lrocksdb
  under timeout 600 "$work/rocks" "$work/db" >"$work/rocks.log" || fail 'the program on RocksDB failed.'
  says '^nodump: ' "$(cat "$work/rocks.log")"
else
  echo 'not tried: RocksDB, whose headers are not installed.'
fi

# A running varnishd caches its backend's responses, with Granary under the name of jemalloc's
# library.
serve_by_varnish() {
  need curl python3
  mkdir "$work/site"
  seq 1 50000 >"$work/site/numbers"
  backend=$(free_port)
  python3 -m http.server -d "$work/site" -b 127.0.0.1 "$backend" >"$work/backend.log" 2>&1 &
  server=$!
  children="$children $server"
  probe 20 curl -sf -o /dev/null "http://127.0.0.1:$backend/numbers"
  port=$(free_port)
  LD_LIBRARY_PATH=$names/lib varnishd -F -j none -a "127.0.0.1:$port" -b "127.0.0.1:$backend" -n "$work/varnish" \
    -s malloc,64m >"$work/varnish.log" 2>&1 &
  server=$!
  children="$children $server"
  probe 60 curl -sf -o "$work/first" "http://127.0.0.1:$port/numbers"
  tr ' ' '\n' <"/proc/$server/task/$server/children" | sed '/^$/d' >"$work/workers"
  while read -r worker; do
    expect_preloaded "$worker"
    if grep -q 'libjemalloc\.so\.2\.' "/proc/$worker/maps"; then fail 'varnishd maps the real jemalloc.'; fi
  done <"$work/workers"
  i=0
  while [ "$i" -lt 200 ]; do
    curl -sf -o "$work/again" "http://127.0.0.1:$port/numbers" || fail 'varnishd stopped answering.'
    cmp -s "$work/site/numbers" "$work/again" || fail 'varnishd changed a body.'
    i=$((i + 1))
  done
  alive
  stop_children
}

if command -v varnishd >/dev/null 2>&1; then
  readelf -d "$(command -v varnishd)" | grep -q 'NEEDED.*libjemalloc.so.2' || fail 'varnishd does not need jemalloc.'
  LD_LIBRARY_PATH=$names/lib timeout 600 varnishd -V >/dev/null 2>&1 || fail 'varnishd does not start.'
  serve_by_varnish
else
  echo 'not tried: varnishd is not installed.'
fi

need redis-server redis-cli
readelf -d "$(command -v redis-server)" | grep -q 'NEEDED.*libjemalloc.so.2' || skip 'redis-server does not need jemalloc.'
port=$(free_port)
mkdir "$work/data"
LD_LIBRARY_PATH=$names/lib redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work/data" \
  --enable-debug-command yes >"$work/redis.log" 2>&1 &
server=$!
children="$children $server"
cli() { redis-cli -h 127.0.0.1 -p "$port" "$@"; }
probe 20 cli ping
expect_preloaded "$server"
grep -q 'libjemalloc\.so\.2\.' "/proc/$server/maps" && fail 'redis-server maps the real jemalloc.'

cli debug populate 200000 key 200 >/dev/null
info() { cli info memory | tr -d '\r' | sed -n "s/^$1://p"; }
used=$(info used_memory)
allocated=$(info allocator_allocated)
active=$(info allocator_active)
resident=$(info allocator_resident)
rss=$(info used_memory_rss)
says jemalloc-5 "$(info mem_allocator)"
[ "$used" -gt 40000000 ] || fail "only $used bytes are used."
within $((used * 9 / 10)) "$allocated" $((used * 13 / 10)) ||
  fail "allocator_allocated $allocated is far from used_memory $used."
within "$allocated" "$active" "$resident" ||
  fail "allocated $allocated, active $active and resident $resident are out of order."
within $((rss * 7 / 10)) "$resident" $((rss * 13 / 10)) ||
  fail "allocator_resident $resident is far from the RSS $rss."
expect_equal OK "$(cli memory purge)" 'MEMORY PURGE'
says '^--- End jemalloc statistics ---' "$(cli memory malloc-stats)"
says Granary "$(cli memory malloc-stats)"
says 'allocator.allocated' "$(cli memory stats)"
says 'Sam\|memory' "$(cli memory doctor)"
expect_equal 4096 "$(cli debug mallctl arenas.page)" 'DEBUG MALLCTL arenas.page'
says Granary "$(cli debug mallctl-str version)"
cli flushall >/dev/null
expect_equal OK "$(cli memory purge)" 'MEMORY PURGE after FLUSHALL'
# Redis reads the figures ten times a second, and INFO reports the last reading.
for _ in $(seq 50); do
  after=$(info allocator_allocated)
  [ "$after" -ge $((allocated / 4)) ] || break
  sleep 0.1
done
[ "$after" -lt $((allocated / 4)) ] || fail "after FLUSHALL $after bytes are still allocated, of $allocated."
