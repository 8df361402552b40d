#!/usr/bin/env bash
# package_deb.sh: builds the Debian packages of this machine's architecture into build/packages, from
# the contents of build/. Called by `make deb`.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
version=$(cat VERSION)
out=$root/build/packages
work=$out/deb
rm -rf "$work"
mkdir -p "$work/source"
cp -r integrations/packages/debian "$work/source/debian"

# The same source builds the same bytes: the date is that of the last commit, if there is one.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH GRANARY_SOURCE=$root
cat >"$work/source/debian/changelog" <<END
granary ($version) unstable; urgency=medium

  * Release $version. changelog.gz lists the changes for users.

 -- Granary developers <granary@granary.invalid>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
(cd "$work/source" && dpkg-buildpackage --build=binary --no-sign --no-check-builddeps >"$work/log" 2>&1) || {
  cat "$work/log" >&2
  exit 1
}
rm -f "$out"/*.deb
mv "$work"/*.deb "$out"
ls -l "$out"/*.deb
