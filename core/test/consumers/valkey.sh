#!/bin/sh
# The newest Valkey in Debian, built for jemalloc on Granary with jemalloc's size classes. It checks
# the size classes when it starts, and calls batch_query to decide which objects to move.
set -eu
GRANARY_LIB=${GRANARY_LIB:-${GRANARY_BUILD:?set GRANARY_BUILD to the folder of the build}/lib/libgranary.so}
programs=$(dirname "$0")/../programs
# shellcheck source=../programs/lib.inc
. "$programs/lib.inc"
# shellcheck source=../programs/source.inc
. "$programs/source.inc"
need cc make redis-cli tar cmake

cmake --build "$GRANARY_BUILD" --target granary_je_q3 -j2 >"$work/archive.log" 2>&1 || fail 'the archive could not be built.'
debian_source valkey "${VALKEY_SOURCE:-}" sid
unpack "$archive" "$work/valkey"
vendor_granary "$work/valkey" libgranary_je_q3.a
build_server "$work/valkey" valkey-server MALLOC=jemalloc CFLAGS=-DVALKEY_VENDORED_JEMALLOC
serve "$work/valkey/src/valkey-server"
cli info server | grep -a valkey_version
expect_equal 8 "$(cli debug mallctl arenas.quantum)" 'DEBUG MALLCTL arenas.quantum'
expect_equal 24 "$(cli debug mallctl arenas.bin.2.size)" 'DEBUG MALLCTL arenas.bin.2.size'
cli debug populate 600000 key 150 >/dev/null
check_memory_commands
check_defragmentation 600000
