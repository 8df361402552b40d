#!/usr/bin/env bash
# Builds the RPM packages, checks them with rpmlint, installs them into an empty root, runs the command
# there, and removes them. Needs root, as rpm does; exit code 77: something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
NAME=test_rpm.sh
# shellcheck source=test_packages.inc
. scripts/test_packages.inc
need rpmbuild rpmlint
scripts/package_rpm.sh
packages=(build/packages/*.rpm)
[ ${#packages[@]} = 3 ]
rpmlint --rpmlintrc integrations/packages/granary.rpmlintrc "${packages[@]}"

# There is no system below the root, so dependencies are not checked and scripts do not run.
into() { rpm --root "$root" --nodeps --noscripts "$@"; }
into -i "${packages[@]}"
use_command
into -e granary granary-libs granary-devel
nothing_left -true
