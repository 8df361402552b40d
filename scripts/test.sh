#!/usr/bin/env bash
# Runs every test step, also after a failure, and ends with the summary lines of the test runners.
# Called by `make test`, which has built the library and the command.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
jobs=${JOBS:-2}
logs=build/test-logs
rm -rf "$logs" && mkdir -p "$logs"
failed=()
# Tests that call go themselves get the one that go.mod asks for.
PATH=$(scripts/go.sh env GOROOT)/bin:$PATH
valkey=$(scripts/fetch_valkey.sh)
PATH=$PATH${valkey:+:$valkey}
export PATH

# step NAME COMMAND...: runs the command, shows and keeps its output.
step() {
  local name=$1
  shift
  echo "== $name: $*"
  "$@" 2>&1 | tee "$logs/$name.log"
  if [ "${PIPESTATUS[0]}" != 0 ]; then failed+=("$name"); fi
}

run_ctest() { ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$jobs"; }

summaries() {
  local log
  for log in "$logs"/*.log; do
    grep -hE '^(ok|FAIL|---)[[:space:]:]|tests passed|: ok$' "$log" |
      sed "s/^/$(basename "$log" .log)	/"
  done
}

step build cmake --build build --target core/test/all bench/all -j "$jobs"
step layers scripts/check_layers.py
step documents scripts/check_doc_paths.py
step reference scripts/gen_reference.py --check
step vet scripts/go.sh vet ./...
# The limit is for a package that hangs.
step go scripts/go.sh test -timeout 30m ./...
step asan scripts/unit.sh asan
step tsan scripts/unit.sh tsan
step ctest run_ctest build

echo "== summary"
summaries
if [ ${#failed[@]} -gt 0 ]; then
  echo "make test: failed: ${failed[*]} (output in $logs)"
  exit 1
fi
echo "make test: every step passed"
