#!/bin/sh
# Redis from Debian's source, built for jemalloc and for TCMalloc on Granary, and for libc with
# Granary preloaded, passes its own tests. Tests with latency limits are left out, because the
# limits assume an idle machine. SUITE names other units; FLAVOURS names some of jemalloc, tcmalloc
# and libc.
set -eu
GRANARY_LIB=${GRANARY_LIB:-${GRANARY_BUILD:?set GRANARY_BUILD to the folder of the build}/lib/libgranary.so}
programs=$(dirname "$0")/../programs
# shellcheck source=../programs/lib.inc
. "$programs/lib.inc"
# shellcheck source=../programs/source.inc
. "$programs/source.inc"
need cc make redis-cli tar tclsh

suite=${SUITE:-memefficiency type/string type/hash type/list type/set type/zset type/stream introspection info
  maxmemory lazyfree scripting querybuf replybufsize other}
debian_source redis "${REDIS_SOURCE:-}"
unpack "$archive" "$work/source"

# One of its tests sends 10 MB to a stopped replica, and expects most of it to stay in the server.
received=$(awk '{ print $3 }' /proc/sys/net/ipv4/tcp_rmem)
skipped=''
if [ "$received" -gt 8388608 ]; then
  skipped='slave buffer are counted correctly'
  echo "left out: \"$skipped\", because the kernel here takes up to $received bytes for a connection."
fi

# run_suite NAME CMD...: the tests start src/redis-server in their own folder.
run_suite() {
  name=$1
  shift
  words=''
  for unit in $suite; do words="$words --single unit/$unit"; done
  echo "== $name: $suite"
  # shellcheck disable=SC2086  # several words each
  (cd "$work/$name" && timeout 3000 "$@" ./runtest --clients 1 --no-latency --portcount 500 \
    --baseport "$(free_port)" ${skipped:+--skiptest "$skipped"} $words) >"$work/suite.log" 2>&1 || {
    grep -aE '\[(err|exception|TIMEOUT)|Expected|^defrag' "$work/suite.log" | sort -u | head -n 20 >&2
    fail "the suite fails: $name."
  }
  grep -a 'All tests passed' "$work/suite.log"
}

# build NAME SETTING...
build() {
  name=$1
  shift
  cp -r "$work/source" "$work/$name"
  [ "$name" != jemalloc ] || vendor_granary "$work/$name" libgranary_je.a
  build_server "$work/$name" 'redis-server redis-cli redis-benchmark' "$@"
}

wanted() { case " ${FLAVOURS:-jemalloc tcmalloc libc} " in *" $1 "*) ;; *) return 1 ;; esac }

if wanted jemalloc; then
  build jemalloc USE_JEMALLOC=yes MALLOC=jemalloc
  run_suite jemalloc env
fi

if wanted tcmalloc; then
  names=$GRANARY_BUILD/names/lib
  [ -e "$names/libtcmalloc.so" ] || fail "$names/libtcmalloc.so is missing: run make first."
  build tcmalloc USE_TCMALLOC=yes MALLOC=tcmalloc CFLAGS="-I$root/core/include" \
    LDFLAGS="-L$names -Wl,-rpath,$names"
  serve "$work/tcmalloc/src/redis-server"
  grep -q libgranary "/proc/$server/maps" || fail 'the build for TCMalloc does not run on Granary.'
  expect_equal 'granary(tcmalloc-2.18)' "$(info mem_allocator)" 'mem_allocator of INFO'
  expect_equal OK "$(cli memory purge)" 'MEMORY PURGE'
  stop_children
  run_suite tcmalloc env
fi

wanted libc || exit 0
build libc MALLOC=libc
# The suite must start its servers under the library, but run itself without it. A server checks its
# own name, so the script keeps the name redis-server for both.
mkdir "$work/libc/src/real"
mv "$work/libc/src/redis-server" "$work/libc/src/real/"
# shellcheck disable=SC2016  # the script expands them
printf '#!/bin/sh\nexec env LD_PRELOAD=%s "$(dirname "$0")/real/redis-server" "$@"\n' "$lib" >"$work/libc/src/redis-server"
chmod +x "$work/libc/src/redis-server"
run_suite libc env
