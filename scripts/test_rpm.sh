#!/usr/bin/env bash
# Builds the RPM packages, checks them with rpmlint, installs them into an empty root, runs the command
# there, and removes them. Needs root, as rpm does; exit code 77 says that something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in rpmbuild rpmlint; do
  command -v "$program" >/dev/null || {
    echo "test_rpm.sh: $program is not installed"
    exit 77
  }
done
if [ "$(id -u)" != 0 ]; then
  echo "test_rpm.sh: rpm needs root"
  exit 77
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
scripts/package_rpm.sh
packages=(build/packages/*.rpm)
[ ${#packages[@]} = 3 ]
rpmlint --rpmlintrc integrations/packages/granary.rpmlintrc "${packages[@]}"

# There is no system below the root, so dependencies are not looked at and scripts do not run.
into() { rpm --root "$root" --nodeps --noscripts "$@"; }
into -i "${packages[@]}"
granary=$root/usr/bin/granary
[ "$("$granary" version)" = "granary $(cat VERSION)" ]
lib=$(dirname "$(find "$root/usr" -name libgranary.so)")
# shellcheck disable=SC2016 # the shell that is started expands these
"$granary" run -- sh -c 'grep -q "$1" /proc/$$/maps && "$2" stats $$' sh "$lib/libgranary.so.1" "$granary" | grep allocations >/dev/null
into -e granary granary-libs granary-devel
left=$(find "$root" -iname '*granary*')
if [ -n "$left" ]; then
  printf 'test_rpm.sh: left behind:\n%s\n' "$left"
  exit 1
fi
echo "test_rpm.sh: ok"
