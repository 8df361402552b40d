#!/usr/bin/env bash
# coverage.sh OUT: runs the unit tests of the library and the tests of the command, and writes which lines they reach:
# OUT/core.html and OUT/tool.html, and a line with the total of each.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
mkdir -p "$out"
find build/coverage -name '*.gcda' -delete 2>/dev/null || true
scripts/unit.sh coverage
# Counts of functions that a signal handler interrupts can be damaged; gcovr skips such lines.
gcovr --root . --object-directory build/coverage --filter 'core/src/' --exclude '.*_(test|fuzz)\.cc' --exclude '.*/fake_' --gcov-ignore-parse-errors \
  --html-details "$out/core.html" --print-summary >"$out/core.txt"
scripts/go.sh test -coverpkg=./tool/... -coverprofile="$out/tool.out" ./tool/...
scripts/go.sh tool cover -html "$out/tool.out" -o "$out/tool.html"
grep '^lines' "$out/core.txt" | sed 's/^/core: /'
scripts/go.sh tool cover -func "$out/tool.out" | awk '/^total/ { print "tool: statements: " $NF }'
