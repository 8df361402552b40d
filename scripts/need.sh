#!/usr/bin/env bash
# need.sh SET...: installs the packages in the named sets of scripts/need.tsv. It prints each missing package with its purpose, then
# installs them if it runs as root or sudo needs no password; otherwise it prints the command to run. INSTALL=no: print
# and fail. NEED_TABLE replaces the table, for the test.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin
table=${NEED_TABLE:-scripts/need.tsv}

present() {
  case $1 in
    /*) compgen -G "$1" >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# Prints "package<TAB>purpose" for each probe of the sets that fails, each package once.
missing() {
  local set probe package purpose wanted=" $* "
  while IFS=$'\t' read -r set probe package purpose; do
    [[ $wanted == *" $set "* ]] || continue
    present "$probe" || printf '%s\t%s\n' "$package" "$purpose"
  done < <(grep -v '^#' "$table") | sort -u -t $'\t' -k 1,1
}

# Runs apt-get as root. Services do not start meanwhile: the tests start their own.
install_packages() {
  local policy=/usr/sbin/policy-rc.d
  # shellcheck disable=SC2016 # the inner shell expands these
  "${as_root[@]}" sh -eu -c '
    policy=$1; shift
    restore() { rm -f "$policy"; [ ! -e "$policy.granary" ] || mv "$policy.granary" "$policy"; }
    [ ! -e "$policy" ] || mv "$policy" "$policy.granary"
    trap restore EXIT
    printf "#!/bin/sh\nexit 101\n" >"$policy"
    chmod 755 "$policy"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
  ' sh "$policy" "$@" >&2
}

lines=$(missing "$@")
[ -n "$lines" ] || exit 0
mapfile -t packages < <(cut -f 1 <<<"$lines")
printf -v command ' %q' "${packages[@]}"
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi

verb=installing
[ "${INSTALL:-yes}" != no ] || verb=missing
command -v apt-get >/dev/null && "${as_root[@]}" true 2>/dev/null || verb=missing
while IFS=$'\t' read -r package purpose; do
  printf 'need.sh: %s %s: %s\n' "$verb" "$package" "$purpose" >&2
done <<<"$lines"
if [ "$verb" = missing ]; then
  echo "need.sh: run as root: apt-get install$command" >&2
  exit 1
fi
install_packages "${packages[@]}"
lines=$(missing "$@")
if [ -n "$lines" ]; then
  echo "need.sh: still missing after apt-get: $(cut -f 1 <<<"$lines" | paste -sd ' '); install by hand" >&2
  exit 1
fi
