#!/usr/bin/env bash
# Builds the image of integrations/docker/bench.Dockerfile with buildah, on a bare Debian that debootstrap makes, and
# measures Redis inside it under every allocator, without a daemon. Takes the packages in build/packages (make deb).
# PEERS is a folder with lib/*.so from `granary peers install`; without it they are built, which takes half an hour.
# Exit code 77: something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
NAME=test_image.sh
# shellcheck source=test_packages.inc
. scripts/test_packages.inc
# shellcheck source=bare_debian.inc
. scripts/bare_debian.inc
need buildah debootstrap unshare
compgen -G 'build/packages/granary_*.deb' >/dev/null || skip "there are no packages: run make deb"
make_base

store=$work/store
image() { buildah --root "$store" --runroot "$work/run" --storage-driver vfs "$@"; }

# from_files NAME PATH: an image of an archive or a folder.
from_files() {
  local container
  container=$(image from scratch)
  image add --quiet "$container" "$2" / >/dev/null
  image commit --quiet --rm "$container" "localhost/$1" >/dev/null
}
from_files debian "$base"
arguments=(--build-arg DEBIAN=localhost/debian)
if [ -n "${PEERS:-}" ]; then
  mkdir -p "$work/given/peers"
  cp -r "$PEERS/lib" "$work/given/peers/"
  from_files peers "$work/given"
  arguments+=(--build-arg PEERS=localhost/peers)
fi
image build --isolation chroot "${arguments[@]}" -f integrations/docker/bench.Dockerfile -t localhost/granary-bench . >"$work/build.log" 2>&1 || {
  tail -n 30 "$work/build.log"
  exit 1
}

# What the image says a container starts with, started in its root.
container=$(image from localhost/granary-bench)
rmdir "$root"
ln -s "$(image mount "$container")" "$root"
root=$(readlink "$root")
enter
mapfile -t settings < <(image inspect --type container --format '{{range .OCIv1.Config.Env}}{{println .}}{{end}}' "$container" | grep '^GRANARY_')
started() { inside "${settings[@]}" granary-entrypoint "$@"; }
mkdir -p "$root/results"
started peers list
for program in redis-server mariadbd nginx memcached sysbench wrk; do inside which "$program" >/dev/null; done
inside sh -c 'ls /usr/lib/postgresql/*/bin/pgbench' >/dev/null
started bench redis --quick --rounds 1 --parts fall --values 1000
[ -s "$root/results/report.html" ]
for allocator in glibc jemalloc new-jemalloc tcmalloc new-tcmalloc mimalloc mimalloc3 snmalloc rpmalloc granary; do
  grep -q "\"name\": *\"$allocator\"" "$root/results/results.json" || {
    echo "$NAME: the results have no $allocator"
    exit 1
  }
done
echo "$NAME: ok"
