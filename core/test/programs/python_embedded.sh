#!/bin/sh
# The Python example: statistics, purging, and a capped heap, all from within the program.
set -eu
. "$(dirname "$0")/lib.inc"
need python3
cp "$root"/integrations/python/*.py "$work/"
cd "$work"
if python3 example.py >"$work/plain.log" 2>&1; then fail 'the example runs without the library.'; fi
grep -q 'does not run on Granary: start it with LD_PRELOAD' "$work/plain.log" || fail 'it does not say what is missing.'
under python3 example.py >"$work/example.log" 2>&1 || fail 'the example fails.'
grep -q '^granary ' "$work/example.log" || fail 'it does not say its version.'
grep -Eq '^full: 1[0-9]{2}\.[0-9] MiB live' "$work/example.log" || fail 'the table of 100 MB is not counted.'
grep -Eq '^given back: [0-9]{2,3}\.[0-9] MiB' "$work/example.log" || fail 'nothing was given back.'
grep -q '^16 frames, then: 1048576 bytes are more' "$work/example.log" || fail 'the cap does not hold.'
grep -q "'objects': 16" "$work/example.log" || fail 'the heap does not count its objects.'
