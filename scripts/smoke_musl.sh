#!/usr/bin/env bash
# smoke_musl.sh LIBDIR: a C program built by musl-gcc runs with the library preloaded, linked and
# linked statically.
set -euo pipefail
lib=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in libgranary.so granary.o; do
  [ -e "$lib/$file" ] || {
    echo "smoke_musl.sh: $lib/$file is missing; build it with make musl" >&2
    exit 1
  }
done
compile=(musl-gcc -O2 -fno-builtin core/test/smoke/smoke.c)

"${compile[@]}" -o "$work/plain"
LD_PRELOAD=$lib/libgranary.so "$work/plain"
echo "musl: preloaded: ok"
"${compile[@]}" -o "$work/shared" -L"$lib" -Wl,--no-as-needed -lgranary -Wl,-rpath,"$lib"
"$work/shared"
echo "musl: linked: ok"
"${compile[@]}" -o "$work/static" -static "$lib/granary.o"
"$work/static"
echo "musl: static: ok"
