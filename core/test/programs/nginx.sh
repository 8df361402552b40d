#!/bin/sh
# nginx: files and gzip under load while it reloads its workers, bodies compared byte by byte.
set -eu
. "$(dirname "$0")/lib.inc"
need nginx wrk curl

port=$(free_port)
mkdir "$work/site" "$work/tmp"
seq 1 20000 >"$work/site/numbers.txt"
head -c 300000 /dev/urandom >"$work/site/noise.bin"
cat >"$work/nginx.conf" <<CONF
daemon off;
master_process on;
worker_processes 2;
pid $work/nginx.pid;
error_log $work/error.log warn;
events { worker_connections 1024; }
http {
  access_log off;
  types { text/plain txt; }
  client_body_temp_path $work/tmp/body;
  proxy_temp_path $work/tmp/proxy;
  fastcgi_temp_path $work/tmp/fastcgi;
  uwsgi_temp_path $work/tmp/uwsgi;
  scgi_temp_path $work/tmp/scgi;
  gzip on;
  server {
    listen 127.0.0.1:$port;
    root $work/site;
    location /loop/ { proxy_pass http://127.0.0.1:$port/; }
  }
}
CONF
under nginx -t -c "$work/nginx.conf" -e "$work/error.log" >"$work/check.log" 2>&1 ||
  fail 'nginx -t refuses the configuration under the library.'
start nginx nginx -c "$work/nginx.conf" -e "$work/error.log"
url=http://127.0.0.1:$port
probe 20 curl -sf -o /dev/null "$url/numbers.txt"
expect_preloaded "$server"

timeout 30 wrk -t2 -c64 -d4s -H 'Accept-Encoding: gzip' "$url/numbers.txt" >"$work/wrk.log" &
load=$!
children="$children $load"
for reload in 1 2 3 4 5 6; do
  kill -HUP "$server"
  curl -sf "$url/loop/noise.bin" -o "$work/noise.$reload" || fail 'a request failed during a reload.'
  cmp "$work/site/noise.bin" "$work/noise.$reload" || fail 'a body changed on its way.'
done
wait "$load" || fail 'the load generator failed.'
grep -q 'Requests/sec' "$work/wrk.log" || fail 'the load generator printed no result.'
if grep -q 'Non-2xx' "$work/wrk.log"; then fail 'nginx answered with errors.'; fi
curl -sf --compressed "$url/numbers.txt" -o "$work/numbers.txt"
cmp "$work/site/numbers.txt" "$work/numbers.txt" || fail 'a compressed body changed.'
tr ' ' '\n' <"/proc/$server/task/$server/children" >"$work/workers"
while read -r worker; do [ -z "$worker" ] || expect_preloaded "$worker"; done <"$work/workers"
if grep -E 'signal (6|11)|alert' "$work/error.log"; then fail 'a worker died.'; fi
