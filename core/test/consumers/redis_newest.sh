#!/bin/sh
# The newest Redis in Debian, built for jemalloc on Granary.
set -eu
GRANARY_LIB=${GRANARY_LIB:-${GRANARY_BUILD:?set GRANARY_BUILD to the folder of the build}/lib/libgranary.so}
programs=$(dirname "$0")/../programs
# shellcheck source=../programs/lib.inc
. "$programs/lib.inc"
# shellcheck source=../programs/source.inc
. "$programs/source.inc"
need cc make redis-cli tar

debian_source redis "${REDIS_NEW_SOURCE:-}" sid
unpack "$archive" "$work/redis"
vendor_granary "$work/redis" libgranary_je.a
build_server "$work/redis" redis-server MALLOC=jemalloc
serve "$work/redis/src/redis-server"
cli info server | grep -a redis_version
expect_equal 'granary(jemalloc-5.3.1)' "$(info mem_allocator)" 'mem_allocator of INFO'
cli debug populate 600000 key 150 >/dev/null
check_memory_commands
check_defragmentation 600000
