#!/bin/sh
# Cold memory of redis-server goes to swap and returns. `granary cold` names the data set that no client reads; `granary ctl
# pageout` moves about as much out of memory, and nothing of what clients read; then all data is as before. Memory that
# returns lowers the rate. Last the scenario `bench cold`, with two allocators.
set -eu
. "$(dirname "$0")/lib.inc"
need redis-server redis-cli
need_swap
need_granary

port=$(free_port)
export GRANARY_CONF=huge_pages:never # a huge page has one age
start redis redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work" --enable-debug-command yes
unset GRANARY_CONF
cli() { redis-cli -h 127.0.0.1 -p "$port" "$@"; }
probe 20 cli ping
expect_preloaded "$server"
redis=$server

kib() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$redis/status"; }
major_faults() { cut -d ' ' -f 12 "/proc/$redis/stat"; }
number() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$2" | head -n 1; }
within() {
  if ! { [ "$2" -ge "$1" ] && [ "$2" -le "$3" ]; }; then fail "$4: $2, which is not between $1 and $3."; fi
}

cold=30000 hot=3000 # keys of 1000 bytes: KiB, nearly
cli debug populate $cold cold 1000 >"$work/populate.log"
cli -n 1 debug populate $hot hot 1000 >>"$work/populate.log"
digest=$(cli debug digest)
read_hot() {
  cli -n 1 eval "local n = 0; for i = 0, $hot - 1 do n = n + #redis.call('get', 'hot:' .. i) end; return n" 0
}
expect_equal ${hot}000 "$(read_hot)" 'bytes of the hot values'
while read_hot >"$work/hot.log" 2>&1; do :; done &
children="$children $!"

"$granary" cold "$redis" --seconds 8 --json >"$work/cold.log" 2>&1 || fail 'granary cold failed.'
named=$(($(number cold_pages_bytes "$work/cold.log") / 1024))
within $cold $named $(($(kib VmRSS) - hot)) 'KiB that granary cold names'

# Out of memory goes what was named, by the command's figures and by the kernel's.
rss=$(kib VmRSS)
"$granary" ctl "$redis" pageout --older 4s --json >"$work/out.log" 2>&1 || fail 'granary ctl pageout failed.'
low=$((named * 9 / 10)) high=$((named * 11 / 10))
out=$((($(number paged_out_bytes "$work/out.log") - $(number returned_bytes "$work/out.log")) / 1024))
within $low $out $high "KiB paged out of $named"
within $low "$(kib VmSwap)" $high "KiB in swap of $named"
within $low $((rss - $(kib VmRSS))) $high "KiB less in memory of $named"
faults=$(major_faults)
echo "$named KiB named, $out paged out, $(kib VmSwap) in swap, RSS $rss before, $(kib VmRSS) after"
expect_equal ${hot}000 "$(read_hot)" 'bytes of the hot values after the page out'
within "$faults" "$(major_faults)" $((faults + 16)) 'major faults after hot values were read'

# All of it returns, page by page or a few pages at a time, and is as before.
swapped=$(kib VmSwap) faults=$(major_faults)
expect_equal "$digest" "$(cli debug digest)" 'digest after the page out'
echo "$(kib VmSwap) KiB in swap after the data was read, $(($(major_faults) - faults)) major faults"
within 0 "$(kib VmSwap)" $((swapped / 20)) "KiB in swap of $swapped after the data was read"
within $((faults + swapped / 4 / 16)) "$(major_faults)" $((faults + swapped)) 'major faults after the data was read'

# What returns is counted, and lowers the rate.
"$granary" ctl "$redis" pageout --older 4s --keep >"$work/keep.log" 2>&1 &
children="$children $!"
is_out() { [ "$(kib VmSwap)" -gt $low ]; }
probe 120 is_out
cli debug digest >"$work/digest.log"
lowered() { grep 'returned [1-9][0-9.]* MiB' "$work/keep.log" | grep -qv 'at most 64 MiB/s'; }
probe 60 lowered
alive
cat "$work/keep.log"
stop_children

"$granary" bench cold --quick --rounds 1 --allocators glibc,granary --lib "$lib" --keys 10000 --size 1000 --rate 100 --connections 2 \
  --time 12s --budget 1h --json "$work/results.json" >"$work/bench.log" 2>&1 || fail 'granary bench cold failed.'
value() { # ALLOCATOR PHASE METRIC
  tr -d '\n' <"$work/results.json" | tr '{' '\n' | grep "\"allocator\": \"$1\"" | grep "\"phase\": \"$2\"" | grep "\"metric\": \"$3\"" |
    sed -n 's/.*"value": \([0-9]*\).*/\1/p'
}
for allocator in glibc granary; do
  both=$(value $allocator 'two data sets' RSS)
  one=$(value $allocator 'the other one goes out' RSS)
  again=$(value $allocator 'the other one comes back' RSS)
  echo "$allocator: RSS $both bytes, $one with one data set out, $again when it is back"
  within 9000000 "$(value $allocator 'the other one goes out' 'paged out')" 100000000 "bytes paged out under $allocator"
  within 8000000 $((both - one)) 100000000 "bytes less in memory under $allocator"
  within 8000000 $((again - one)) 100000000 "bytes back in memory under $allocator"
  within 150 "$(value $allocator 'the other one comes back' 'major faults')" 100000 "major faults under $allocator"
done
