#!/bin/sh
# Runs tikv-jemalloc-ctl's own tests over tikv-jemalloc-sys, with Granary's archive in place of the
# jemalloc that it would build. Cargo fetches both from its registry.
set -eu
GRANARY_LIB=${GRANARY_LIB:-${GRANARY_BUILD:?set GRANARY_BUILD to the folder of the build}/lib/libgranary.so}
programs=$(dirname "$0")/../programs
# shellcheck source=../programs/lib.inc
. "$programs/lib.inc"
need cargo cc

mkdir -p "$work/fetch/src"
cat >"$work/fetch/Cargo.toml" <<'END'
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[dependencies]
tikv-jemalloc-ctl = "0.6"
tikv-jemallocator = "0.6"
END
: >"$work/fetch/src/lib.rs"
cd "$work/fetch"
timeout 200 cargo vendor "$work/vendor" >"$work/config.toml" 2>"$work/fetch.log" || skip 'cargo cannot fetch tikv-jemalloc-ctl: no network?'
# Its tests need only the crates that are already fetched.
cp -r "$work/vendor/tikv-jemalloc-ctl" "$work/ctl"
cd "$work/ctl"
mkdir .cargo
cp "$work/config.toml" .cargo/config.toml
rm -f Cargo.lock
export JEMALLOC_OVERRIDE="$GRANARY_BUILD/lib/libgranary.a" CARGO_TARGET_DIR="$work/target"
timeout 900 cargo test --offline --features stats --tests -- --test-threads=1 >"$work/tests.log" 2>&1 || fail 'its tests fail on Granary.'
grep -h 'test result' "$work/tests.log"
! grep -q 'test result: FAILED' "$work/tests.log" || fail 'its tests fail on Granary.'
grep -Eq 'test result: ok\. [1-9]' "$work/tests.log" || fail 'no test ran.'
