#!/bin/sh
# The sources of options, each overriding the sources before it; the messages about wrong rows; and
# a setuid program, which ignores the environment.
set -eu
. "$(dirname "$0")/lib.inc"
need cc unshare mount

# says NEEDLE FILE
says() { grep -qF -e "$1" "$2" || fail "expected to read \"$1\" in: $(cat "$2")"; }
silent() { [ ! -s "$1" ] || fail "expected no word, but got: $(cat "$1")"; }

under true 2>"$work/plain"
silent "$work/plain"

MALLOC_CONF=confirm_conf:true,dirty_decay_ms:7,muzzy_decay_ms:5 GRANARY_CONF=zero:true,muzzy_decay_ms:6 \
  under true 2>"$work/confirm"
says 'granary: dirty_decay_ms:7 (MALLOC_CONF)' "$work/confirm"
says 'granary: muzzy_decay_ms:6 (GRANARY_CONF)' "$work/confirm"
says 'granary: zero:true (GRANARY_CONF)' "$work/confirm"
says 'granary: cache_bytes:8388608 (default)' "$work/confirm"

GRANARY_CONF=dirty_decay:1,cache_max:-1 under true 2>"$work/wrong"
says "GRANARY_CONF: there is no option 'dirty_decay'; the nearest is 'dirty_decay_ms'" "$work/wrong"
says "option cache_max cannot be '-1'; give 0 to 1048576" "$work/wrong"
expect_equal 2 "$(wc -l <"$work/wrong")" 'lines about two wrong rows'
MALLOC_CONF=stats_print:true,stats_print_opts:Jmabl under true 2>"$work/json"
says '{"jemalloc":{"version":"' "$work/json"
MALLOC_CONF=stats_print:true,stats_print_opts:gmabl under true 2>"$work/brief"
says '___ Begin jemalloc statistics ___' "$work/brief"
! grep -q 'Version:\|arenas\[' "$work/brief" || fail 'stats_print_opts left nothing out.'
if GRANARY_CONF=abort_conf:true,nonsense:1 under true 2>"$work/abort"; then
  fail 'abort_conf did not end the program.'
fi
says 'abort_conf is set' "$work/abort"

cat >"$work/conf.c" <<'END'
#include <stdlib.h>
const char* granary_conf = "dirty_decay_ms:1,muzzy_decay_ms:1,cache_bytes:4096";
const char* malloc_conf = "dirty_decay_ms:2,confirm_conf:true";
int main(void) { return malloc(1) == NULL; }
END
# A program that is not linked to the library must export its symbols, or the library cannot find
# them.
cc -O1 -fno-builtin -rdynamic "$work/conf.c" -o "$work/conf"
under "$work/conf" 2>"$work/symbols"
says "granary: dirty_decay_ms:2 (the program's malloc_conf)" "$work/symbols"
says "granary: muzzy_decay_ms:1 (the program's granary_conf)" "$work/symbols"
says "granary: cache_bytes:4096 (the program's granary_conf)" "$work/symbols"

# The file, in a copy of /etc that only this test can read.
if unshare -m true 2>/dev/null; then
  mkdir "$work/etc"
  cp -a /etc/ld.so.* /etc/passwd /etc/group "$work/etc/" 2>/dev/null || true # not all of them exist
  printf '# the machine\ncache_bytes : 8192\ndirty_decay_ms:3\n' >"$work/etc/granary.conf"
  unshare -m sh -c "mount --bind '$work/etc' /etc && MALLOC_CONF=dirty_decay_ms:4 LD_PRELOAD='$lib' '$work/conf'" \
    2>"$work/file"
  says 'granary: cache_bytes:8192 (/etc/granary.conf)' "$work/file"
  says 'granary: dirty_decay_ms:4 (MALLOC_CONF)' "$work/file"
else
  echo 'not tried: /etc/granary.conf, as this user may not make a mount namespace.'
fi

# A program with more rights than its user. It is static, because the loader itself drops
# LD_PRELOAD.
if [ "$(id -u)" -eq 0 ] && cc -O1 -fno-builtin -static "$work/conf.c" "${GRANARY_BUILD:?}/lib/granary.o" -o "$work/suid"; then
  GRANARY_CONF=dirty_decay_ms:9 "$work/suid" 2>"$work/listens"
  says 'dirty_decay_ms:9 (GRANARY_CONF)' "$work/listens"
  chown nobody "$work/suid"
  chmod u+s "$work/suid"
  GRANARY_CONF=dirty_decay_ms:9 MALLOC_CONF=dirty_decay_ms:8 "$work/suid" 2>"$work/deaf"
  says "granary: dirty_decay_ms:2 (the program's malloc_conf)" "$work/deaf"
fi
