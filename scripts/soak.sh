#!/usr/bin/env bash
# soak.sh BUILD SECONDS: shares the time among the storms and runs each under the library.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd)
storms=()
for storm in "$build"/test/storm/*; do
  case $storm in
    *.static) ;;
    *) storms+=("$storm") ;;
  esac
done
share=$(($2 / ${#storms[@]} + 1))
for storm in "${storms[@]}"; do
  echo "== $(basename "$storm") for $share s"
  env LD_PRELOAD="$build/lib/libgranary.so" "$storm" --long "$share"
done
