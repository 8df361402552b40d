#!/bin/sh
# gcc compiles this project under the library. The object files are the same, byte for byte.
set -eu
. "$(dirname "$0")/lib.inc"
need g++ gcc

sources=$(find "$root/core/src" -name '*.cc' ! -name '*_test.cc' ! -name '*_fuzz.cc' \
  ! -name '*_bench.cc' | sort | head -n 12)
[ -n "$sources" ] || sources=$(find "$here/../conform" -name '*.cc' | sort | head -n 4)
compile() {
  timeout 600 env LD_PRELOAD="$1" g++ -std=c++20 -O2 -g -pipe -I "$root/core/src" \
    -I "$root/core/include" -DGRANARY_VERSION='"test"' -c "$2" -o "$3" 2>"$work/gcc.log"
}
compared=0
for source in $sources; do
  compile '' "$source" "$work/plain.o" || continue
  compile "$lib" "$source" "$work/under.o" || fail "g++ failed on $source under the library."
  cmp "$work/plain.o" "$work/under.o" || fail "g++ made another object of $source."
  compared=$((compared + 1))
done
[ "$compared" -gt 0 ] || fail 'no source could be compiled even without the library.'

under gcc -std=c11 -O2 -I "$here/.." "$here/../conform/from_c.c" -o "$work/from_c" ||
  fail 'gcc failed to link under the library.'
under "$work/from_c"
echo "$compared objects are the same"
