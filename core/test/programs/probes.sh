#!/bin/sh
# The static probes of samples are in the library's file as tools expect them: provider, names,
# numbers of arguments, and addresses in its code.
set -eu
. "$(dirname "$0")/lib.inc"
need readelf objdump

readelf -n "$lib" >"$work/notes"
probe() { # probe NAME ARGUMENTS
  awk -v name="$1" '
    /Provider:/ { provider = $2 }
    /Name:/ { found = ($2 == name && provider == "otel_memory") }
    /Location:/ && found { print $2 }
    /Arguments:/ && found { print NF - 1 }' "$work/notes" | tr -d ',' >"$work/$1"
  expect_equal "$2" "$(sed -n 2p "$work/$1")" "arguments of probe $1"
  at=$(sed -n 1p "$work/$1")
  objdump -d --start-address="$at" --stop-address="$((at + 1))" "$lib" >"$work/code"
  grep -q nop "$work/code" || fail "probe $1 is at $at, where there is no nop"
}
probe alloc 3
probe free 2
