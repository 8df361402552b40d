#!/bin/sh
# RocksDB with its jemalloc code. That code is compiled from Debian's source with JEMALLOC=1 into a
# program over the installed librocksdb, where it replaces the library's code. RocksDB then caches
# blocks in an arena with hooks of its own and writes the allocator's statistics into its log, both
# preloaded and linked. On the C library's malloc it reports that jemalloc is missing.
set -eu
GRANARY_LIB=${GRANARY_LIB:-${GRANARY_BUILD:?set GRANARY_BUILD to the folder of the build}/lib/libgranary.so}
programs=$(dirname "$0")/../programs
# shellcheck source=../programs/lib.inc
. "$programs/lib.inc"
# shellcheck source=../programs/source.inc
. "$programs/source.inc"
need c++ tar
[ -e /usr/include/rocksdb/db.h ] || skip 'the headers of RocksDB (librocksdb-dev) are not installed.'
names=$GRANARY_BUILD/names/lib
[ -e "$names/libjemalloc.so" ] || fail "$names/libjemalloc.so is missing: run make first."

debian_source rocksdb "${ROCKSDB_SOURCE:-}"
unpack "$archive" "$work/rocksdb"
build() {
  output=$1
  shift
  c++ -std=c++17 -O1 -rdynamic -DROCKSDB_JEMALLOC -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX -DOS_LINUX \
    -I"$work/rocksdb/include" -I"$work/rocksdb" -I"$root/core/include" "$root/core/test/consumers/rocksdb.cc" \
    "$work/rocksdb/memory/jemalloc_nodump_allocator.cc" "$work/rocksdb/db/malloc_stats.cc" \
    -o "$work/$output" -lrocksdb "$@" >"$work/$output.log" 2>&1 || fail "the program on RocksDB could not be built."
}

# run NAME CMD...: shows the output of the program.
run() {
  name=$1
  shift
  timeout 200 "$@" "$work/$name.db" >"$work/$name.out" 2>"$work/$name.log" || fail "RocksDB fails: $name."
  sed "s/^/$name: /" "$work/$name.out"
}
expect_granary() {
  grep -q '^NewJemallocNodumpAllocator: OK' "$work/$1.out" || fail "RocksDB does not see jemalloc's interface: $1."
  grep -q 'Begin jemalloc statistics' "$work/$1.db/LOG" || fail "RocksDB's log has no statistics: $1."
  grep -q 'Version: .*Granary' "$work/$1.db/LOG" || fail "the statistics in RocksDB's log are not Granary's: $1."
}

build rocks
run alone "$work/rocks"
grep -q '^NewJemallocNodumpAllocator: Not implemented' "$work/alone.out" || fail 'RocksDB sees a jemalloc that is not there.'
if grep -q 'Begin jemalloc' "$work/alone.db/LOG"; then fail 'there are statistics without jemalloc.'; fi
run preload env LD_PRELOAD="$lib" "$work/rocks"
expect_granary preload
build linked -L"$names" -Wl,-rpath,"$names" -Wl,--no-as-needed -ljemalloc
run link "$work/linked"
expect_granary link
