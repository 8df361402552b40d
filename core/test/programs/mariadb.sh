#!/bin/sh
# mariadbd with sysbench: read-write transactions from 1,024 and from 4,096 concurrent connections;
# then the server checks the table.
set -eu
. "$(dirname "$0")/lib.inc"
need mariadbd mariadb mariadb-install-db mariadb-admin sysbench

# shellcheck disable=SC3045  # every sh of Linux knows ulimit -n
ulimit -n 10000 2>/dev/null || skip 'this shell may not open 10,000 files.'

port=$(free_port)
data=$work/data
socket=$work/s
mkdir "$data"
user=$(id -un)
if [ "$user" = root ]; then
  user=mysql
  id "$user" >/dev/null 2>&1 || skip 'there is no user mysql.'
  chown "$user" "$data" "$work"
fi
mariadb-install-db --no-defaults --datadir="$data" --user="$user" --skip-test-db \
  --auth-root-authentication-method=normal >"$work/install.log" 2>&1 ||
  fail 'mariadb-install-db failed.'
start mariadbd mariadbd --no-defaults --datadir="$data" --user="$user" --socket="$socket" \
  --port="$port" --bind-address=127.0.0.1 --max-connections=5000 --back-log=4500 \
  --max-prepared-stmt-count=1000000 --innodb-buffer-pool-size=64M --skip-log-bin \
  --innodb-flush-log-at-trx-commit=0 --pid-file="$work/pid"
probe 60 mariadb-admin --no-defaults -S "$socket" -u root ping
expect_preloaded "$server"

sql() { mariadb --no-defaults -S "$socket" -u root -N -B -e "$1"; }
sql 'create database sbtest'
sql 'select @@version_malloc_library' | grep -q Granary || fail 'the server does not name its allocator.'
# One table: the load generator prepares its statements for each table and thread, and stops if that
# takes longer than 30 seconds.
bench() {
  timeout 600 sysbench oltp_read_write --mysql-socket="$socket" --mysql-user=root --tables=1 \
    --table-size=100000 --rand-type=uniform \
    --mysql-ignore-errors=1213,1205,1020 "$@" >"$work/sysbench.log" 2>&1 || fail "sysbench $* failed."
  alive
}
bench prepare
bench --threads=1024 --time=6 run
grep -q 'transactions:' "$work/sysbench.log" || fail 'sysbench printed no result.'
bench --threads=4096 --time=6 run
grep -q 'transactions:' "$work/sysbench.log" || fail 'sysbench printed no result.'

expect_equal 100000 "$(sql 'select count(*) from sbtest.sbtest1')" 'rows of the table'
sql 'check table sbtest.sbtest1 extended' | grep -q 'OK$' || fail 'the table is damaged.'
mariadb-admin --no-defaults -S "$socket" -u root shutdown
wait "$server" || fail 'mariadbd did not shut down cleanly.'
