#!/bin/sh
# The Rust crate's own tests and its example, with the shared library and with the archive, offline.
set -eu
. "$(dirname "$0")/lib.inc"
need cargo
cp -r "$root/integrations/rust/granary" "$work/crate"
cp "$root/LICENSE" "$work/"
sed -i 's|^license-file.*||' "$work/crate/Cargo.toml"
cd "$work/crate"
export GRANARY_LIB_DIR="${GRANARY_BUILD:?}/lib" LD_LIBRARY_PATH="$GRANARY_BUILD/lib" CARGO_TARGET_DIR="$work/target"
cargo build --offline >"$work/build.log" 2>&1 || skip 'cargo cannot build here, see its toolchain.'
cargo test --offline >"$work/shared.log" 2>&1 || fail 'the tests fail with the shared library.'
cargo test --offline --features static --test global >"$work/static.log" 2>&1 || fail 'the tests fail with the archive.'
grep -q 'test result: ok. 7 passed' "$work/shared.log" || fail 'not all tests ran.'
