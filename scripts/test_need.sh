#!/usr/bin/env bash
# Tests scripts/need.sh with a table of its own and an apt-get that only records its arguments.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf 'one\tsh\tdash\tpresent\none\t%s/tool\tfirst-package\tneeded by the first test\none\tno-such-command-1\tsecond-package\tneeded by the second test\ntwo\tno-such-command-2\tthird-package\tof another set\n' "$work" >"$work/table"
mkdir "$work/bin"
cat >"$work/bin/apt-get" <<SH
#!/bin/sh
echo "\$*" >>"$work/calls"
case \$1 in install) [ ! -e "$work/broken" ] || exit 0; touch "$work/tool" ;; esac
SH
# shellcheck disable=SC2016 # the script that is written expands these
printf '#!/bin/sh\n[ "$1" = -n ] && shift\n[ ! -e "%s/no-root" ] || exit 1\nexec "$@"\n' "$work" >"$work/bin/sudo"
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
# The policy file of the system stays as it is: this shell replaces the one that would write it.
cat >"$work/bin/sh" <<'SH'
#!/bin/bash
if [ "$1" = -eu ]; then shift 5; apt-get update; exec apt-get install "$@"; fi
exec /bin/sh "$@"
SH
chmod +x "$work"/bin/*
export PATH=$work/bin:$PATH NEED_TABLE=$work/table

fail() {
  printf 'test_need.sh: %s\n' "$*" >&2
  cat "$work/err" >&2
  exit 1
}
# run STATUS VARIABLE=VALUE... SET...: need.sh ends with this status; its stderr is in $work/err.
run() {
  local expected=$1 status=0
  shift
  : >"$work/calls"
  env "$@" 2>"$work/err" || status=$?
  [ "$status" = "$expected" ] || fail "status $status, not $expected, of: $*"
}
said() { grep -qFx -- "$1" "$work/err" || fail "not printed: $1"; }

# INSTALL=no: each package with its purpose, the command, no call of apt-get.
run 1 INSTALL=no scripts/need.sh one
said 'need.sh: missing first-package: needed by the first test'
said 'need.sh: missing second-package: needed by the second test'
said 'need.sh: run as root: apt-get install first-package second-package'
[ "$(wc -l <"$work/err")" = 3 ] || fail 'more than the packages of the set'
[ ! -s "$work/calls" ] || fail 'INSTALL=no called apt-get'

# Without root rights: the same.
touch "$work/no-root"
run 1 scripts/need.sh two
said 'need.sh: missing third-package: of another set'
[ ! -s "$work/calls" ] || fail 'it called apt-get without root rights'
rm "$work/no-root"

# Purposes come before the installation; a package that is still missing is an error.
run 1 scripts/need.sh one
said 'need.sh: installing first-package: needed by the first test'
said 'need.sh: still missing after apt-get: second-package; install by hand'
grep -q 'install .*first-package second-package' "$work/calls" || fail "apt-get got: $(cat "$work/calls")"

# Everything present: silence.
sed -i '/second-package/d' "$work/table"
run 0 scripts/need.sh one
[[ ! -s $work/err && ! -s $work/calls ]] || fail 'it acted although nothing is missing'

# Every row of the real table has a purpose.
awk -F '\t' '/^#/ { next } NF != 4 || $4 == "" { print "need.tsv, line " NR ": write set, probe, package and purpose"; bad = 1 } END { exit bad }' \
  scripts/need.tsv >&2
echo "test_need.sh: ok"
