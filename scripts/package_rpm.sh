#!/usr/bin/env bash
# package_rpm.sh: builds the RPM packages of this machine's architecture into build/packages, from the
# contents of build/. Called by `make rpm`.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/build/packages/rpm
rm -rf "$work"
mkdir -p "$work"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH
rpmbuild -bb --define "_topdir $work" --define "granary_source $PWD" --define "granary_version $(cat VERSION)" \
  --define "_build_id_links none" integrations/packages/granary.spec >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  exit 1
}
rm -f build/packages/*.rpm
mv "$work"/RPMS/*/*.rpm build/packages/
ls -l build/packages/*.rpm
