#!/bin/sh
# redis-server: loads every type, then finds the same data after a reload, a background save and a
# mass deletion, while a forked child of the server writes the file.
set -eu
. "$(dirname "$0")/lib.inc"
need redis-server redis-cli redis-benchmark redis-check-rdb

port=$(free_port)
mkdir "$work/data"
start redis redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work/data" \
  --enable-debug-command yes --io-threads 2
cli() { redis-cli -h 127.0.0.1 -p "$port" "$@"; }
probe 20 cli ping
expect_preloaded "$server"

load() { timeout 600 redis-benchmark -h 127.0.0.1 -p "$port" -q -c 50 -P 16 "$@"; }
for size in 3 100 1000 5000; do
  load -n 30000 -r 20000 -d "$size" -t set,get >"$work/load.log"
done
load -n 40000 -r 10000 -d 64 -t lpush,rpush,sadd,hset,zadd,incr,mset,spop >"$work/load.log"
alive

digest=$(cli debug digest)
keys=$(cli dbsize)
[ "$keys" -gt 10000 ] || fail "the load left only $keys keys."
expect_equal OK "$(cli debug reload)" 'DEBUG RELOAD'
expect_equal "$digest" "$(cli debug digest)" 'digest after a reload'

saved() { cli info persistence | grep -q '^rdb_bgsave_in_progress:0'; }
cli bgsave >/dev/null
load -n 20000 -r 20000 -d 900 -t set >"$work/load.log"
probe 60 saved
cli info persistence | grep -q '^rdb_last_bgsave_status:ok' || fail 'the background save failed.'
redis-check-rdb "$work/data/dump.rdb" >"$work/rdb.log" || fail 'the saved file is damaged.'

rewritten() { cli info persistence | grep -q '^aof_rewrite_in_progress:0'; }
cli config set appendonly yes >/dev/null
cli bgrewriteaof >/dev/null || true # refused while the one that appendonly began still runs
probe 60 rewritten
expect_equal OK "$(cli memory purge)" 'MEMORY PURGE'

# Known pattern values, checked after the values around them are deleted.
i=0
while [ "$i" -lt 2000 ]; do
  echo "SET check:$i $(printf '%0500d' "$i")"
  i=$((i + 1))
done | cli --pipe >"$work/pipe.log"
cli eval "for _, k in ipairs(redis.call('keys', 'key:*')) do redis.call('unlink', k) end" 0 >/dev/null
load -n 20000 -r 20000 -d 3000 -t set >"$work/load.log"
for i in 0 7 999 1999; do
  expect_equal "$(printf '%0500d' "$i")" "$(cli get "check:$i")" "value of check:$i"
done
cli flushall >/dev/null
expect_equal PONG "$(cli ping)" 'PING after FLUSHALL'
