#!/usr/bin/env bash
# fuzz.sh FOLDER RUNS: runs every fuzzer of the folder on its corpus and RUNS inputs of a new seed.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 runs=$2
seed=${FUZZ_SEED:-$(date +%s)}
for fuzzer in "$folder"/*_fuzz; do
  name=$(basename "$fuzzer")
  echo "== $name -runs=$runs -seed=$seed"
  "$fuzzer" "-runs=$runs" "-seed=$seed" "core/test/corpus/$name"
done
