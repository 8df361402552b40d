#!/usr/bin/env bash
# Builds the image of integrations/docker/bench.Dockerfile with buildah, on a bare Debian that debootstrap makes, and
# measures inside it without a daemon: Redis under every allocator, each other server under two. The reports go to a
# mounted folder. Takes the packages in build/packages (make deb).
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

container=$(image from scratch)
image add --quiet "$container" "$base" / >/dev/null
image commit --quiet --rm "$container" localhost/debian >/dev/null
certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
arguments=(--build-arg DEBIAN=localhost/debian --volume "$certificates:/run/certificates.crt:ro" --build-arg CARGO_HTTP_CAINFO=/run/certificates.crt)
if [ -n "${PEERS:-}" ]; then
  mkdir -p "$work/given/peers"
  cp -r "$PEERS/lib" "$work/given/peers/"
  arguments+=(--build-context "peers=$work/given")
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
mkdir -p "$root/results" "$work/results"
nsenter --mount="/proc/$init/ns/mnt" mount --bind "$work/results" "$root/results" # as `docker run -v results:/results`
started peers list
started bench redis --quick --rounds 1 --parts fall --values 1000
[ -s "$work/results/report.html" ]
for allocator in glibc jemalloc new-jemalloc tcmalloc new-tcmalloc mimalloc mimalloc3 snmalloc rpmalloc granary; do
  grep -q "\"name\": *\"$allocator\"" "$work/results/results.json" || {
    echo "$NAME: the results have no $allocator"
    exit 1
  }
done
# Each scenario finds its server and its load generator.
for scenario in mariadb nginx memcached postgres rocksdb python node kv rax; do
  started bench "$scenario" --quick --rounds 1 --allocators glibc,granary --out "/results/$scenario" >"$work/output" 2>&1 || {
    echo "$NAME: bench $scenario:"
    tail -n 20 "$work/output"
    exit 1
  }
  [ -s "$work/results/$scenario/report.html" ]
done
echo "$NAME: ok"
