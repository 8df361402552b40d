#!/bin/sh
# A profile of a Python that generates functions for perf (3.12 and later) names every Python
# function of a chain.
set -eu
. "$(dirname "$0")/lib.inc"
tool=${GRANARY_BUILD:-$root/build}/bin/granary
[ -x "$tool" ] || skip "the command is not built"
python=''
for candidate in python3 python3.14 python3.13 python3.12; do
  if "$candidate" -X perf -c 'import sys; sys.activate_stack_trampoline("perf")' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || skip "there is no Python 3.12 or later that works with perf"
cat >"$work/rows.py" <<'PY'
import sys
import time

kept = []
def innermost(n):
    return [b"x" * n for _ in range(2000)]
def between(n):
    kept.append(innermost(n))
def outermost():
    between(5000)
    between(4000)
outermost()
print("ready", flush=True)
sys.stdin.read()
PY
mkfifo "$work/in"
LD_PRELOAD=$lib GRANARY_CONF=prof:true,prof_sample:16384 "$python" -X perf "$work/rows.py" <"$work/in" >"$work/out.log" &
pid=$!
children="$children $pid"
exec 3>"$work/in"
tries=0
until grep -q ready "$work/out.log"; do
  tries=$((tries + 1))
  [ "$tries" -lt 200 ] || fail "Python did not get ready"
  sleep 0.1
done
"$tool" profile "$pid" --collapsed >"$work/stacks.log"
grep -q 'outermost;.*between;.*innermost;' "$work/stacks.log" || fail "no stack names the three functions"
exec 3>&-
rm -f "/tmp/perf-$pid.map"
