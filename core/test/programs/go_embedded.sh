#!/bin/sh
# The Go package over cgo: its tests, and its example.
set -eu
. "$(dirname "$0")/lib.inc"
need go cc
cp -r "$root/integrations/go" "$work/embed"
cd "$work/embed"
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off CGO_ENABLED=1
export CGO_CFLAGS="-I$root/core/include" CGO_LDFLAGS="-L${GRANARY_BUILD:?}/lib -lgranary -Wl,-rpath,$GRANARY_BUILD/lib"
go vet -tags granary_flags . >"$work/vet.log" 2>&1 || {
  grep -q 'requires go' "$work/vet.log" && skip 'this Go is too old.'
  fail 'go vet complains.'
}
go test -tags granary_flags -count=1 -v . >"$work/test.log" 2>&1 || fail 'the tests fail.'
[ "$(grep -c '^--- PASS' "$work/test.log")" -eq 3 ] || fail 'not all tests ran.'
