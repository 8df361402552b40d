#!/bin/sh
# A library opened with RTLD_DEEPBIND frees memory that the program allocated, as PHP's extensions
# do. The loader still uses the caller's RUNPATH, and NULL, errors and flags pass through. Then PHP
# itself, if it is installed.
. "$(dirname "$0")/lib.inc"
need cc

mkdir "$work/beside"
cat >"$work/plugin.c" <<'END'
#include <stdlib.h>
void take(void* p) { free(p); }
void* give(size_t n) { return malloc(n); }
END
cat >"$work/program.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  /* Found only by the RUNPATH of this program. */
  void* plugin = dlopen("libplugin.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!plugin) return puts(dlerror()), 2;
  void (*take)(void*) = (void (*)(void*))dlsym(plugin, "take");
  void* (*give)(size_t) = (void* (*)(size_t))dlsym(plugin, "give");
  for (size_t n = 1; n < 3000000; n = n * 3 + 1) take(malloc(n)), free(give(n));
  if (dlopen("libnone.so", RTLD_NOW)) return puts("a file that is not there was opened"), 3;
  if (!dlerror()) return puts("no error was told"), 4;
  if (!dlopen(NULL, RTLD_NOW)) return puts("the program itself was not opened"), 5;
  if (dlsym(RTLD_DEFAULT, "take")) return puts("RTLD_LOCAL was lost"), 6;
  return 0;
}
END
cc -shared -fPIC -o "$work/beside/libplugin.so" "$work/plugin.c"
# shellcheck disable=SC2016 # the loader expands it
cc -o "$work/program" "$work/program.c" -ldl -Wl,--enable-new-dtags,-rpath,'$ORIGIN/beside'
"$work/program" || fail "the program does not run by itself."
under "$work/program" >"$work/program.log" 2>&1 || fail "the program ended with $? under the library."
# With the flag left in, one allocator frees the other's memory: this shows that the program tests
# something.
if under env GRANARY_CONF=deepbind:true "$work/program" >/dev/null 2>&1; then
  fail "deepbind:true made no difference."
fi

if command -v php >/dev/null 2>&1; then
  # shellcheck disable=SC2016 # PHP's
  under php -r '$a = []; for ($i = 0; $i < 200000; $i++) $a[] = str_repeat("x", $i % 300);
    foreach (get_loaded_extensions() as $e) $b[] = strtoupper($e); echo count($a), "\n";' >"$work/php.log" 2>&1 || fail "PHP ended with $?."
  grep -qx 200000 "$work/php.log" || fail "PHP counted wrong."
fi
