#!/usr/bin/env bash
# Installs the build into an empty folder, then builds and runs a C program against it by
# pkg-config and by find_package, shared and static.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=${GRANARY_BUILD:-$root/build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -x "$build/bin/granary" ]; then
  echo "test_install.sh: $build/bin/granary is missing; run make first" >&2
  exit 1
fi

# Under DESTDIR the files have the paths of a package; the tree is then used from there.
DESTDIR=$work/staged cmake --install "$build" --prefix /opt/granary >/dev/null
prefix=$work/staged/opt/granary
for file in lib/libgranary.so lib/libgranary.a lib/granary.o lib/libgranary_je.a lib/libgranary-record.so include/granary/granary.h bin/granary \
  share/doc/granary/LICENSE share/man/man1/granary-why.1 libexec/granary/bench/pair share/granary/suites/full.toml \
  share/doc/granary/reference/options.md share/bash-completion/completions/granary \
  share/zsh/site-functions/_granary share/fish/vendor_completions.d/granary.fish; do
  [ -s "$prefix/$file" ] || {
    echo "test_install.sh: $file was not installed" >&2
    exit 1
  }
done

# expect_granary PROGRAM: the program runs and prints the version it was built against.
expect_granary() { LD_LIBRARY_PATH=$prefix/lib "$1" | grep -F "$(cat VERSION)"; }

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
read -ra flags < <(pkg-config --cflags --libs granary)
cc -O2 -fno-builtin -DEXPECT_GRANARY core/test/smoke/smoke.c -o "$work/pkg" "${flags[@]}"
expect_granary "$work/pkg"

# Under the name of jemalloc, by what its own tools say.
read -ra flags < <(PKG_CONFIG_PATH=$prefix/lib/granary/lib/pkgconfig pkg-config --cflags --libs jemalloc)
printf '#include <jemalloc/jemalloc.h>\nint main(void) { dallocx(mallocx(1, 0), 0); return 0; }\n' >"$work/names.c"
cc -O2 -fno-builtin "$work/names.c" -o "$work/names" "${flags[@]}"
LD_LIBRARY_PATH=$prefix/lib/granary/lib "$work/names"
[ "$("$prefix/lib/granary/bin/jemalloc-config" --libdir)" = "$(realpath "$prefix")/lib/granary/lib" ]

mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(Granary REQUIRED)
foreach(kind granary static)
  add_executable(uses_\${kind} $root/core/test/smoke/smoke.c)
  target_compile_options(uses_\${kind} PRIVATE -fno-builtin -DEXPECT_GRANARY)
  target_link_libraries(uses_\${kind} Granary::\${kind})
endforeach()
END
cmake -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/cmake/build" >/dev/null
expect_granary "$work/cmake/build/uses_granary"
expect_granary "$work/cmake/build/uses_static"
scripts/uninstall.sh "$prefix"
left=$(find "$prefix" -not -type d)
if [ -n "$left" ]; then
  printf 'test_install.sh: uninstall left behind:\n%s\n' "$left" >&2
  exit 1
fi
echo "test_install.sh: ok"
