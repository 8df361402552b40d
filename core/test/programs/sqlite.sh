#!/bin/sh
# sqlite3: inserts, joins, sorts, JSON and a vacuum; its own integrity check and the same output.
set -eu
. "$(dirname "$0")/lib.inc"
need sqlite3
cat >"$work/load.sql" <<'SQL'
create table t(id integer primary key, k int, name text, body blob);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 120000)
  insert into t select i, (i * 7919) % 100003, printf('name-%08d', i * 31 % 99991),
    zeroblob(i % 400) from n;
create index by_k on t(k);
create index by_name on t(name, k);
select count(*), sum(k), max(name) from t;
select k / 10000, count(*), group_concat(substr(name, 10), '') from
  (select * from t where id % 997 = 0 order by name) group by 1 order by 1;
select count(*) from t a join t b on a.k = b.k where a.id < 40000;
select sum(length(hex(body))) from (select body from t order by length(body) desc, id limit 20000);
delete from t where id % 4 <> 0;
update t set name = name || name where id % 8 = 0;
select count(*), sum(length(name)) from t;
vacuum;
pragma integrity_check;
SQL
cat >"$work/run" <<'SH'
rm -f "$1/db"
sqlite3 "$1/db" <"$1/load.sql" && sqlite3 :memory: <"$1/load.sql"
SH
compare_runs sh "$work/run" "$work"
expect_equal ok "$(tail -n 1 "$work/under.out")" 'integrity check'
