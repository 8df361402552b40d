#!/bin/sh
# nginx: files and gzip under load while it reloads its workers; compares bodies byte by byte.
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

timeout 600 wrk -t2 -c64 -d4s -H 'Accept-Encoding: gzip' "$url/numbers.txt" >"$work/wrk.log" &
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

# Sixteen idle workers, forked from one master: each may add at most a tenth and 200 KiB more memory
# than on the C library's malloc.
kill -TERM "$server"
wait "$server" || true # of no concern: it was told to end
sed 's/^worker_processes 2;/worker_processes 16;/' "$work/nginx.conf" >"$work/sixteen.conf"
workers_of() { tr ' ' '\n' <"/proc/$1/task/$1/children" | sed '/^$/d'; }
sixteen() { [ "$(workers_of "$server" | wc -l)" -eq 16 ] && curl -sf -o /dev/null "$url/numbers.txt"; }
# private_kib: the private memory of all workers.
private_kib() {
  for worker in $(workers_of "$server"); do cat "/proc/$worker/smaps_rollup"; done |
    awk '/^Private_(Clean|Dirty):/ { sum += $2 } END { print sum }'
}
nginx -c "$work/sixteen.conf" -e "$work/error.log" >"$work/plain.log" 2>&1 &
server=$!
children="$children $server"
probe 20 sixteen
plain=$(private_kib)
kill -TERM "$server"
wait "$server" || true # as before
start sixteen nginx -c "$work/sixteen.conf" -e "$work/error.log"
probe 20 sixteen
granary=$(private_kib)
echo "16 workers: private memory $plain KiB on the C library's malloc, $granary KiB on Granary"
[ "$granary" -le $((plain * 11 / 10 + 16 * 200)) ] || fail 'the workers cost too much memory.'
