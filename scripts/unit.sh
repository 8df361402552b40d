#!/usr/bin/env bash
# unit.sh PRESET [CTEST ARGUMENTS...]: builds the unit tests and fuzzers of a preset of CMakePresets.json and runs them.
# CC and CXX choose the compiler of a fresh build folder; CMAKE_ARGS adds flags.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
jobs=${JOBS:-2}
run=()
# GCC 12's thread sanitizer stops at some address layouts, so address randomisation is off where the system allows it.
if [ "$preset" = tsan ] && setarch -R true 2>/dev/null; then run=(setarch -R); fi
read -ra flags <<<"${CMAKE_ARGS:-}"
cmake --preset "$preset" "${flags[@]}"
cmake --build "build/$preset" -j "$jobs"
"${run[@]}" ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs" "$@"
