#!/usr/bin/env bash
# Installs the Debian packages with apt in a bare Debian, and runs there every command that `granary help -a` lists, as
# scripts/installed_commands.tsv says. Nothing of the sources is reachable. Builds the packages unless KEEP=yes.
# With `--servers [SCENARIO...]` it also installs the packages that each scenario requires, and measures at short sizes.
# Exit code 77: something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
NAME=test_chroot.sh
# shellcheck source=test_packages.inc
. scripts/test_packages.inc
# shellcheck source=bare_debian.inc
. scripts/bare_debian.inc
need debootstrap unshare chroot
table=$PWD/scripts/installed_commands.tsv

# run_row ARGUMENTS CODE PATTERN: one line of the table.
run_row() {
  local code=0
  # shellcheck disable=SC2086 # several words
  inside timeout "$limit" granary $1 </dev/null >"$work/output" 2>&1 || code=$?
  [ -s "$work/output" ] || echo >"$work/output" # so that ^$ is in it
  if [[ ! $code =~ ^($2)$ ]] || ! grep -qE -e "$3" "$work/output"; then
    printf '%s: granary %s: exit code %s (expected %s), expected "%s" in\n' "$NAME" "$1" "$code" "$2" "$3"
    head -n 20 "$work/output"
    failed=1
  fi
  if grep -nE '/work/|bench/suites/|build/(bin|lib|bench)|scripts/|goroutine ' "$work/output"; then
    echo "$NAME: granary $1: the output names the source tree"
    failed=1
  fi
}

# Each row of the command table is run by some line.
all_commands_have_rows() {
  local command
  inside granary help -a | sed -nE 's/^  granary ([a-z ]*[a-z])  .*/\1/p' >"$work/commands"
  [ -s "$work/commands" ]
  while read -r command; do
    cut -f 1 "$table" | grep -qE "^$command( |\$)" || {
      echo "$NAME: no row of installed_commands.tsv runs granary $command"
      failed=1
    }
  done <"$work/commands"
}

# Root without the right to read other processes is told which right, and not to become root.
refused_root() {
  inside setpriv --reuid=65534 --regid=65534 --clear-groups granary run -- tail -f /dev/null &
  sleep 0.5
  for command in stats why; do
    inside setpriv --bounding-set=-sys_ptrace granary "$command" tail >"$work/output" 2>&1 && failed=1
    if ! grep -q CAP_SYS_PTRACE "$work/output" || grep -q 'as root' "$work/output"; then
      echo "$NAME: granary $command, refused to root, says: $(cat "$work/output")"
      failed=1
    fi
  done
}

run_commands() {
  local arguments code pattern
  # shellcheck disable=SC2016 # perl's own variables
  inside granary run -- perl -e 'for (;;) { my @list = map { "x" x 1000 } 1 .. 200; select undef, undef, undef, 0.01 }' &
  sleep 0.5
  all_commands_have_rows
  refused_root
  while IFS=$'\t' read -r arguments code pattern; do
    run_row "$arguments" "$code" "$pattern"
  done < <(grep -v '^#' "$table")
}

# measure SCENARIO: installs what its message names, and measures.
measure() {
  local packages
  # No allocator has that name, so that nothing is measured where all packages are installed already.
  inside granary bench "$1" --allocators none-of-this-name >"$work/output" 2>&1 || true
  packages=$(sed -n 's/.*: apt-get install //p' "$work/output")
  # shellcheck disable=SC2086 # several packages
  [ -z "$packages" ] || inside env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >"$work/apt.log" 2>&1 || {
    tail -n 5 "$work/apt.log"
    failed=1
  }
  # Cold memory needs swap, which belongs to the machine and not to the root.
  if [ "$1" = cold ] && [ -z "$(tail -n +2 /proc/swaps)" ]; then
    run_row "bench cold --quick --rounds 1 --allocators glibc,granary" 1 'this machine has no swap'
    return
  fi
  run_row "bench $1 --quick --rounds 1 --allocators glibc,granary --out /tmp/$1" 0 'under 2 allocators'
  [ -s "$root/tmp/$1/report.html" ] || failed=1
}

[ "${KEEP:-no}" = yes ] || scripts/package_deb.sh >/dev/null
make_base
tar -C "$root" -xf "$base"
enter
mkdir "$root/packages"
cp build/packages/*.deb "$root/packages"
inside sh -c 'apt-get update -qq; apt-get install -y -qq --no-install-recommends /packages/*.deb' >"$work/apt.log" 2>&1 || {
  grep -q 'Unable to fetch\|Temporary failure\|Failed to fetch' "$work/apt.log" && skip "Debian's mirror does not answer"
  cat "$work/apt.log"
  exit 1
}
failed=0
limit=400 # seconds of a command
if [ "${1:-}" = --servers ]; then
  shift
  limit=900 # a scenario
  [ $# -gt 0 ] || mapfile -t all < <(grep -oP '^bench \K\w+(?=\t1\tapt-get)' "$table")
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod 755 "$root/usr/sbin/policy-rc.d"
  for scenario in "${@:-${all[@]}}"; do measure "$scenario"; done
else
  run_commands
fi
[ "$failed" = 0 ]
echo "$NAME: ok"
