#!/usr/bin/env bash
# Builds the Debian packages, checks them with lintian, installs them into an empty root, uses all three
# there, and removes them. Needs root, as dpkg does; exit code 77: something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
NAME=test_deb.sh
# shellcheck source=test_packages.inc
. scripts/test_packages.inc
need dh dpkg-buildpackage lintian pkg-config cmake
scripts/package_deb.sh
packages=(build/packages/*.deb)
[ ${#packages[@]} = 3 ]
lintian --allow-root --fail-on error,warning "${packages[@]}"

# Without a base system below the root, scripts run outside it and dependencies are not checked.
mkdir -p "$root"/var/lib/dpkg/{info,updates} "$root/usr/lib/systemd/system"
: >"$root/var/lib/dpkg/status"
into() { dpkg --root="$root" --force-script-chrootless --force-depends --log=/dev/null "$@" >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log"; exit 1; }; }
into --install "${packages[@]}"
use_command

# Programs link by pkg-config and by CMake.
export PKG_CONFIG_PATH=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
read -ra flags < <(pkg-config --cflags --libs granary)
cc -O2 -fno-builtin -DEXPECT_GRANARY core/test/smoke/smoke.c -o "$work/pkg" "${flags[@]}"
LD_LIBRARY_PATH=$lib "$work/pkg" | grep -qF "$(cat VERSION)"
mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(consumer C)
find_package(Granary REQUIRED)
foreach(kind granary static)
  add_executable(uses_\${kind} $PWD/core/test/smoke/smoke.c)
  target_compile_options(uses_\${kind} PRIVATE -fno-builtin -DEXPECT_GRANARY)
  target_link_libraries(uses_\${kind} Granary::\${kind})
endforeach()
END
cmake -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_LIBRARY_ARCHITECTURE="$(basename "$lib")" -DGranary_DIR="$lib/cmake/Granary" >/dev/null
cmake --build "$work/cmake/build" >/dev/null
"$work/cmake/build/uses_granary" | grep -qF "$(cat VERSION)"
"$work/cmake/build/uses_static" | grep -qF "$(cat VERSION)"

# A service is enabled in that root; removing the package disables it.
cp "$(command -v sleep)" "$root/usr/bin/sleep"
printf '[Service]\nExecStart=/usr/bin/sleep 1\n' >"$root/usr/lib/systemd/system/nap.service"
"$granary" enable nap --root "$root"
grep -q "/usr/lib/$(basename "$lib")/libgranary.so.1" "$root/etc/systemd/system/nap.service.d/granary.conf"
into --remove granary libgranary1 libgranary-dev
nothing_left -not -path '*/dpkg/*'
