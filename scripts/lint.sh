#!/usr/bin/env bash
# Runs every static check, also after a failure, and names those that failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
failed=()

step() {
  local name=$1
  shift
  echo "== $name"
  if ! "$@"; then failed+=("$name"); fi
}

files() { git ls-files --cached --others --exclude-standard -- "$@"; }

check_format() { files '*.h' '*.cc' '*.c' | xargs -r clang-format --dry-run -Werror; }

# clang 14 does not see that the assembler of `asm goto` sets its outputs; the compiler's own warnings do.
check_tidy() {
  cmake --preset release >/dev/null || return 1
  files 'core/src/*.cc' | grep -Ev '_(test|fuzz)\.cc$' |
    xargs -r -n 4 -P 2 clang-tidy --quiet -p build --extra-arg=-Wno-sometimes-uninitialized --extra-arg=-fconstexpr-steps=100000000
}

check_shell() {
  { files '*.sh' '.ci/run'; files 'core/test/programs/*.inc' 'scripts/*.inc'; } | xargs -r shellcheck -x -P SCRIPTDIR
}

check_gofmt() {
  local unformatted
  unformatted=$("$(scripts/go.sh env GOROOT)/bin/gofmt" -l tool) || return 1
  [ -z "$unformatted" ] || {
    printf 'run gofmt -w on:\n%s\n' "$unformatted"
    return 1
  }
}

step clang-format check_format
step clang-tidy check_tidy
step shellcheck check_shell
step gofmt check_gofmt
step vet scripts/go.sh vet ./...
step golangci scripts/go.sh run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run ./...
step layers scripts/check_layers.py
step documents scripts/check_doc_paths.py
step version scripts/version.py --check

if [ ${#failed[@]} -gt 0 ]; then
  echo "make lint: failed: ${failed[*]}"
  exit 1
fi
echo "make lint: every check passed"
