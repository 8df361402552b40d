#!/usr/bin/env bash
# fast_path.sh [--update]: counts the instructions of a warm malloc(40), free and the operators in
# the built library, and of the same calls of a scoped heap, and compares them with
# core/test/golden/fast_path.x86_64.txt. A count above that
# of the golden file fails; under another compiler than that of the golden file, a count above the limit.
# Each function must begin on a cache line of its own: otherwise the same instructions took a third
# longer. And the addresses of the thread's words must not be in the last line of a page (core/apart.ld).
set -euo pipefail
cd "$(dirname "$0")/.."
golden=core/test/golden/fast_path.x86_64.txt
limit=30
heap_limit=140
build=${GRANARY_BUILD:-build}
library=${GRANARY_LIB:-$build/lib/libgranary.so}
if [ "$(uname -m)" != x86_64 ]; then
  echo "fast_path.sh: the golden counts are those of x86_64 only"
  exit 77
fi

counter=$build/test/fast_path_count
mkdir -p "$build/test"
cc -O2 -D_GNU_SOURCE -fno-builtin -Wall -Wextra -o "$counter" core/test/fast_path/count.c -ldl
compiler=$(readelf -p .comment "$library" 2>/dev/null | sed -n 's/.*GCC: ([^)]*) \([0-9]*\).*/\1/p' | head -n 1)
counts=$(env LD_PRELOAD="$(realpath "$library")" "$counter")

if [ "${1:-}" = --update ]; then
  mkdir -p "$(dirname "$golden")"
  printf '# call\tinstructions, as compiled by GCC %s\n%s\n' "$compiler" "$counts" >"$golden"
fi
echo "$counts"
[ -e "$golden" ] || {
  echo "fast_path.sh: $golden is missing; write it with scripts/fast_path.sh --update" >&2
  exit 1
}
awk -F '\t' -v compiler="$compiler" -v limit="$limit" -v heap_limit="$heap_limit" '
  FNR == NR {
    if (/^#/) same = ($0 ~ ("GCC " compiler "$")); else golden[$1] = $2
    next
  }
  {
    allowed = same ? golden[$1] : $1 ~ /^heap_/ ? heap_limit : limit
    if ($2 > allowed) {
      printf "fast_path.sh: %s takes %d instructions, %d are allowed; make it shorter, or accept it with scripts/fast_path.sh --update\n", $1, $2, allowed
      bad = 1
    }
  }
  END { exit bad }
' "$golden" - <<<"$counts"
nm -D --defined-only "$library" | awk '
  $3 ~ /^(malloc|free|_Znwm|_Znam|_ZdlPv|_ZdaPv|_ZdlPvm|_ZdaPvm)$/ {
    ++seen
    if ($1 !~ /[048c]0$/) {
      printf "fast_path.sh: %s begins at %s, inside a cache line; mark it GRANARY_HOT\n", $3, $1
      bad = 1
    }
  }
  END { exit bad || seen != 8 }
'
readelf -rW "$library" | awk '
  $3 == "R_X86_64_TPOFF64" {
    ++seen
    if ($1 ~ /f[cdef].$/) {
      printf "fast_path.sh: the offset of a thread variable is at %s, on the last line of a page: correct the gap in core/apart.ld\n", $1
      bad = 1
    }
  }
  END { exit bad || seen == 0 }
'
echo "fast_path.sh: ok"
