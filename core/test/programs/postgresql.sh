#!/bin/sh
# PostgreSQL with pgbench: forked backends under the library; at the end the four sums that every
# transaction keeps equal must be equal.
set -eu
. "$(dirname "$0")/lib.inc"
for folder in /usr/lib/postgresql/*/bin; do PATH=$folder:$PATH; done
need postgres initdb pgbench psql setpriv

# PostgreSQL refuses to run as root.
if [ "$(id -u)" -eq 0 ]; then
  account=postgres
  id "$account" >/dev/null 2>&1 || account=nobody
  chown "$account" "$work"
  set -- setpriv "--reuid=$account" "--regid=$(id -g "$account")" --clear-groups
else
  set --
fi
port=$(free_port)
data=$work/data
cd "$work"
under "$@" initdb -D "$data" -A trust -U granary --no-sync >"$work/initdb.log" 2>&1 ||
  fail 'initdb failed.'
start postgres "$@" postgres -D "$data" -p "$port" -k "$work" -c listen_addresses=127.0.0.1 \
  -c max_connections=100 -c fsync=off
probe 40 pg_isready -h 127.0.0.1 -p "$port"
expect_preloaded "$server"

export PGHOST=127.0.0.1 PGPORT="$port" PGUSER=granary PGDATABASE=postgres
under pgbench -i -s 3 -q >"$work/pgbench.log" 2>&1 || fail 'pgbench -i failed.'
under timeout 600 pgbench -c 24 -j 2 -T 6 -M prepared >"$work/pgbench.log" 2>&1 ||
  fail 'pgbench failed.'
under timeout 600 pgbench -n -c 8 -j 2 -T 2 -C >"$work/pgbench.log" 2>&1 ||
  fail 'pgbench with a connection per transaction failed.'
alive

sum() { psql -XAt -c "select sum($1) from $2"; }
total=$(sum abalance pgbench_accounts)
expect_equal "$total" "$(sum tbalance pgbench_tellers)" 'sum of the tellers'
expect_equal "$total" "$(sum bbalance pgbench_branches)" 'sum of the branches'
expect_equal "$total" "$(sum delta pgbench_history)" 'sum of the history'
sorted=$(psql -XAt -c "set work_mem = '64MB'; select md5(string_agg(v::text, ',' order by v desc))
  from (select (g::bigint * 7919) % 300007 v from generate_series(1, 300000) g) t" | tail -n 1)
[ "${#sorted}" -eq 32 ] || fail 'a large sort gave no result.'
psql -XAt -c 'vacuum analyze' >/dev/null
