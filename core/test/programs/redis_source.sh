#!/bin/sh
# Redis built from source for jemalloc, with Granary's header and archive in place of its own copy.
# Its memory commands report exact figures, and active defragmentation frees the memory of sparse
# slabs after deletions. The source is the file REDIS_SOURCE, or Debian's. core/test/consumers has
# the longer tests.
set -eu
. "$(dirname "$0")/lib.inc"
. "$(dirname "$0")/source.inc"
need cc make redis-cli tar

debian_source redis "${REDIS_SOURCE:-}"
unpack "$archive" "$work/redis"
vendor_granary "$work/redis" libgranary_je.a
BUILD_SECONDS=280 build_server "$work/redis" redis-server MALLOC=jemalloc

serve "$work/redis/src/redis-server"
expect_equal 'granary(jemalloc-5.3.1)' "$(info mem_allocator)" 'mem_allocator of INFO'
says Granary "$(cli debug mallctl-str version)"
expect_equal 4096 "$(cli debug mallctl arenas.page)" 'DEBUG MALLCTL arenas.page'
cli debug populate 600000 key 150 >/dev/null
check_memory_commands
check_defragmentation 600000
