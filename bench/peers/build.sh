#!/usr/bin/env bash
# Builds the peers of peers.toml as preload libraries: build.sh OUT [name ...] makes OUT/lib/<name>.so.
# The sources are those inside the crates, fetched by cargo; each peer is compiled as its own project
# would for a shared library, with the system's compiler. JOBS=n sets the parallelism (default 2).
# shellcheck disable=SC2317 # the recipes are called by name
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 1 ]; then
  echo "usage: build.sh OUT [name ...]; names are those with a crate in $here/peers.toml" >&2
  exit 2
fi
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
jobs=${JOBS:-2}
lib=$out/lib
work=$out/build
crates=$out/crates/vendor
mkdir -p "$lib" "$work" "$out/crates/src"

# Rows "crate version" of peers.toml, in file order.
crate_rows() {
  awk -F'"' '/^crate/ {c=$2} /^version/ {if (c != "") print c, $2; c=""}' "$here/peers.toml" | sort -u
}

# Names of the rows that have a crate.
crate_peers() {
  awk -F'"' '/^name/ {n=$2} /^crate/ {print n}' "$here/peers.toml"
}

fetch() {
  local manifest=$out/crates/Cargo.toml
  : > "$out/crates/src/lib.rs"
  {
    printf '[package]\nname = "peers"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n'
    crate_rows | while read -r crate version; do echo "$crate = \"=$version\""; done
  } > "$manifest.new"
  if [ -d "$crates" ] && cmp -s "$manifest.new" "$manifest"; then return; fi
  mv "$manifest.new" "$manifest"
  (cd "$out/crates" && cargo vendor --quiet vendor > /dev/null)
}

build_jemalloc() {
  rm -rf "$work/jemalloc"
  cp -r "$crates/tikv-jemalloc-sys/jemalloc" "$work/jemalloc"
  cp "$crates/tikv-jemalloc-sys/configure/configure" "$work/jemalloc/configure"
  chmod -R u+w "$work/jemalloc"
  cd "$work/jemalloc"
  bash ./configure --disable-doc --with-version=5.3.1-0-g0000000000000000000000000000000000000000
  make -j"$jobs" build_lib_shared
  cp lib/libjemalloc.so.2 "$lib/jemalloc.so"
}

mimalloc() {  # mimalloc v2|v3 NAME
  local source=$crates/libmimalloc-sys/c_src/mimalloc/$1
  gcc -O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT \
    -DMI_DEBUG=0 -std=gnu11 -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec \
    -fno-builtin-malloc -Wno-error=date-time -I"$source/include" -I"$source/src" \
    "$source/src/static.c" -o "$lib/$2.so" -pthread
}

build_mimalloc2() { mimalloc v2 mimalloc2; }
build_mimalloc3() { mimalloc v3 mimalloc3; }

build_snmalloc() {
  cmake -S "$crates/snmalloc-sys/upstream" -B "$work/snmalloc" -DCMAKE_BUILD_TYPE=Release \
    -DSNMALLOC_BUILD_TESTING=OFF
  cmake --build "$work/snmalloc" --target snmallocshim -j "$jobs"
  cp "$work/snmalloc/libsnmallocshim.so" "$lib/snmalloc.so"
}

build_rpmalloc() {
  local source=$crates/rpmalloc-sys/rpmalloc/rpmalloc
  gcc -O3 -DNDEBUG -D_GNU_SOURCE=1 -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1 -std=gnu11 -fPIC -shared \
    -ftls-model=initial-exec -fno-builtin-malloc -I"$source" "$source/rpmalloc.c" \
    -o "$lib/rpmalloc.so" -pthread -ldl
}

# The crate's build script has the default configuration in a file of its own. GCC 12 lacks the
# keywords of C23.
build_hardened_malloc() {
  local crate=$crates/hardened-malloc-sys object file
  local source=$crate/vendor/hardened-malloc objects=$work/hardened_malloc
  local flags="-O3 -fPIC -fvisibility=hidden -fno-plt -D_GNU_SOURCE -I$source -I$source/include"
  flags+=" -I$source/third_party "
  flags+="$(sed -n 's/^[^#].*=.*/-D&/p' "$crate/config-default.conf" | tr '\n' ' ')"
  rm -rf "$objects"
  mkdir -p "$objects"
  for file in chacha h_malloc memory pages random util; do
    object=$objects/$file.o
    # shellcheck disable=SC2086 # several flags
    gcc -std=gnu2x -include stdalign.h -include stdbool.h $flags -c "$source/$file.c" -o "$object"
  done
  # shellcheck disable=SC2086
  g++ -std=c++17 $flags -c "$source/new.cc" -o "$objects/new.o"
  g++ -shared -o "$lib/hardened_malloc.so" "$objects/"*.o -pthread -Wl,-z,now
}

# The crate's build script names the files; the bridge for Rust is replaced by the real malloc.
build_tcmalloc() {
  local crate=$crates/libtcmalloc-sys
  rm -rf "$work/tcmalloc"
  mkdir -p "$work/tcmalloc/o"
  cd "$crate"
  { sed -n 's/^ *"\(c_src\/[^"]*\.\(cc\|S\)\)",$/\1/p' build.rs | grep -v malloc_bridge
    echo c_src/tcmalloc/tcmalloc/tcmalloc.cc; } > "$work/tcmalloc/files"
  local flags="-O2 -DNDEBUG -DNOMINMAX -DTCMALLOC_INTERNAL_8K_PAGES -std=c++17 -fPIC -w"
  flags+=" -ftls-model=initial-exec -fno-omit-frame-pointer -Ic_src/abseil-cpp -Ic_src/tcmalloc"
  # shellcheck disable=SC2016 # the inner shell expands
  FLAGS=$flags OBJ=$work/tcmalloc/o xargs -P "$jobs" -I{} bash -c \
    'g++ $FLAGS -c "$1" -o "$OBJ/$(echo "$1" | tr / _).o"' _ {} < "$work/tcmalloc/files"
  g++ -shared -o "$lib/tcmalloc.so" "$work/tcmalloc/o/"*.o -pthread -Wl,--gc-sections
}

# The variables that a process under the peer needs, as peers.toml says.
environment() {
  awk -F'"' -v want="$1" '/^name/ {n=$2} /^environment/ && n == want {print $2}' "$here/peers.toml"
}

# What the peer is called with its version, as peers.toml says.
title() {
  awk -F'"' -v want="$1" '/^name/ {n=$2} /^title/ && n == want {print $2}' "$here/peers.toml"
}

# A preloaded program must find malloc, malloc_usable_size and operator new in the library. What it
# needs beside the preload is left in NAME.env, where `granary bench` looks.
check() {
  local variables
  variables=$(environment "$1")
  [ -x "$work/resolves" ] || g++ -O1 -o "$work/resolves" "$here/check/resolves.cc" -ldl
  env ${variables:+"$variables"} LD_PRELOAD="$lib/$1.so" "$work/resolves" "$1.so"
  rm -f "$lib/$1.env"
  title "$1" > "$lib/$1.version"
  if [ -n "$variables" ]; then echo "$variables" > "$lib/$1.env"; fi
}

fetch
[ $# -gt 0 ] || mapfile -t names < <(crate_peers)
[ $# -eq 0 ] || names=("$@")
failed=0
for name in "${names[@]}"; do
  if ! declare -F "build_$name" > /dev/null; then
    echo "peers: no recipe for '$name'; known: $(crate_peers | tr '\n' ' ')" >&2
    failed=1
  elif bash -c "set -euo pipefail; $(declare -f); $(declare -p here out jobs lib work crates)
      build_$name" > "$work/$name.log" 2>&1 && check "$name"; then
    echo "peers: built $lib/$name.so"
  else
    echo "peers: $name failed; its log is $work/$name.log" >&2
    failed=1
  fi
done
exit $failed
