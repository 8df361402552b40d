#!/usr/bin/env bash
# soak.sh BUILD SECONDS: runs the programs that are built from source, then each storm on the library, for an equal
# share of the time.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd)
failed=()
for consumer in core/test/consumers/*.sh; do
  echo "== $(basename "$consumer")"
  status=0
  GRANARY_BUILD=$build sh "$consumer" || status=$?
  if [ "$status" != 0 ] && [ "$status" != 77 ]; then failed+=("$consumer"); fi
done

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
if [ ${#failed[@]} -gt 0 ]; then
  echo "soak.sh: failed: ${failed[*]}"
  exit 1
fi
