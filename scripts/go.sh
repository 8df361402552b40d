#!/usr/bin/env bash
# go.sh ARGS...: runs the go command at the version that go.mod asks for. An older go fetches that
# version through its own module proxy setting: from 1.21 by itself, before that as a module.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

wanted_version() {
  local version
  version=$(awk '$1 == "toolchain" { sub("go", "", $2); print $2; exit }' "$root/go.mod")
  [ -n "$version" ] || version=$(awk '$1 == "go" { print $2; exit }' "$root/go.mod")
  case $version in
    *.*.*) echo "$version" ;;
    *) echo "$version.0" ;;
  esac
}

at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# Prints the newest go found; a version manager may have put an old one first.
find_go() {
  local go version best=
  for go in "$(command -v go || true)" /usr/local/go/bin/go /usr/lib/go-*/bin/go; do
    [ -x "$go" ] || continue
    version=$(cd / && GOTOOLCHAIN=local "$go" env GOVERSION)
    if [ -z "$best" ] || ! at_least "${version#go}" "$best_version"; then
      best=$go best_version=${version#go}
    fi
  done
  if [ -z "$best" ]; then
    echo "go.sh: no go command found; run scripts/need.sh build" >&2
    return 1
  fi
  echo "$best $best_version"
}

# Prints the GOROOT of a toolchain fetched as a module. Only a go that knows toolchains makes
# their programs executable, so that is done here.
fetch_toolchain() {
  local go=$1 version=$2 module dir
  module=golang.org/toolchain@v0.0.1-go$version.$("$go" env GOOS)-$("$go" env GOARCH)
  dir=$("$go" env GOMODCACHE)/$module
  if [ ! -x "$dir/bin/go" ]; then
    echo "go.sh: fetching go $version" >&2
    (cd / && GOFLAGS=-mod=mod "$go" mod download "$module") >&2 || {
      echo "go.sh: cannot fetch go $version: check the network, GOPROXY and the certificates, or put go $version first in PATH" >&2
      return 1
    }
    chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*
  fi
  echo "$dir"
}

wanted=$(wanted_version)
found=$(find_go)
read -r go version <<<"$found"
if at_least "$wanted" "$version"; then
  exec "$go" "$@"
elif at_least 1.21.0 "$version"; then
  GOTOOLCHAIN=go$wanted exec "$go" "$@"
fi
GOROOT=$(fetch_toolchain "$go" "$wanted") || exit
export GOROOT
GOTOOLCHAIN=local exec "$GOROOT/bin/go" "$@"
