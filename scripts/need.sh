#!/usr/bin/env bash
# need.sh SET...: makes sure that what the sets of scripts/need.tsv name is here. Missing packages
# are installed when we are root or sudo asks no password; otherwise the command to type is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin

present() {
  case $1 in
    /*) compgen -G "$1" >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing_packages() {
  local set probe package wanted=" $* "
  while IFS=$'\t' read -r set probe package; do
    [[ $wanted == *" $set "* ]] || continue
    present "$probe" || echo "$package"
  done < <(grep -v '^#' scripts/need.tsv) | sort -u
}

# Runs apt-get as root with services kept from starting: the tests start their own.
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

mapfile -t missing < <(missing_packages "$@")
[ ${#missing[@]} -gt 0 ] || exit 0
as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo -n); fi
if command -v apt-get >/dev/null && "${as_root[@]}" true 2>/dev/null; then
  echo "need.sh: installing ${missing[*]}" >&2
  install_packages "${missing[@]}"
else
  echo "need.sh: packages are missing; as root, run: apt-get install ${missing[*]}" >&2
  exit 1
fi
mapfile -t missing < <(missing_packages "$@")
if [ ${#missing[@]} -gt 0 ]; then
  echo "need.sh: still missing after apt-get: ${missing[*]}; install them by hand" >&2
  exit 1
fi
