#!/bin/sh
# Sampled guards in programs of others: a module of redis-server and an extension of Python write
# beyond an object, before it, and read it after free. Each is reported with its stacks, and the
# command reads the report from a core file.
set -eu
. "$(dirname "$0")/lib.inc"
need cc redis-server redis-cli python3
granary=${GRANARY_BUILD:?}/bin/granary

# The misuses write what is there already, so that only a guard notices.
cat >"$work/misuse.h" <<'C'
#include <stdlib.h>
#include <string.h>
enum { kBytes = 40 };
static void touch(char *p, long at) {
  volatile char *place = p + at;
  *place = *place;
}
static void overflow(void) { char *p = malloc(kBytes); touch(p, kBytes + 8); free(p); }
static void underflow(void) { char *p = malloc(kBytes); touch(p, -8); free(p); }
static void use_after_free(void) {
  char *volatile p = malloc(kBytes);
  free(p);
  touch(p, 0);
}
/* The server installed its handler of SIGSEGV after the guards: some samples pass until they are first again. */
static int misuse(const char *what) {
  for (int i = 0; i < 400000; ++i) free(malloc(kBytes));
  void (*commit)(void) = !strcmp(what, "overflow") ? overflow : !strcmp(what, "underflow") ? underflow : use_after_free;
  for (int i = 0; i < 30000000; ++i) commit();
  return 1;
}
C

# The module needs four functions of the server, which it finds by name.
cat >"$work/module.c" <<'C'
#include "misuse.h"
typedef struct { int (*get)(const char *, void *); } Context;
static const char *(*text_of)(void *, size_t *);
static int (*reply)(void *, long long);
static int command(void *context, void **argv, int argc) {
  size_t length;
  return reply(context, argc == 2 && misuse(text_of(argv[1], &length)));
}
int RedisModule_OnLoad(void *context, void **argv, int argc) {
  int (*get)(const char *, void *) = ((Context *)context)->get;
  void (*attributes)(void *, const char *, int, int);
  int (*create)(void *, const char *, void *, const char *, int, int, int);
  (void)argv, (void)argc;
  get("RedisModule_SetModuleAttribs", &attributes);
  get("RedisModule_CreateCommand", &create);
  get("RedisModule_StringPtrLen", &text_of);
  get("RedisModule_ReplyWithLongLong", &reply);
  attributes(context, "planted", 1, 1);
  return create(context, "planted", command, "", 0, 0, 0);
}
C
cc -O1 -fno-builtin -fPIC -shared -o "$work/planted.so" "$work/module.c" || fail 'the module does not compile.'

# expect_report LOG WHAT PLACE MODULE FREED: the report, with frames of the module.
expect_report() {
  grep -E "granary: (write|read) $2 at 0x[0-9a-f]*: $3 of an object of 40 bytes" "$1" >"$work/line" || fail "no report of $2."
  has_frame "$1" 'this call' "$4"
  has_frame "$1" allocated "$4"
  [ "$5" = no ] || has_frame "$1" freed "$4"
}

# has_frame LOG STACK MODULE
has_frame() {
  sed -n "/^  $2 by thread/,/^  [a-z]/p" "$1" | grep -q "$3+0x" || fail "the stack '$2' has no frame of $3."
}

# A small server makes no background thread: it serves the request when it allocates.
set_in_running_server() {
  "$granary" ctl "$server" set guard_sample:100000 >"$work/ctl.log" 2>&1 &
  control=$!
  while kill -0 "$control" 2>/dev/null; do
    redis-cli -h 127.0.0.1 -p "$port" eval "for i = 1, 20000 do redis.call('set', i, i) end" 0 >"$work/eval.log"
  done
  wait "$control" || fail 'granary ctl failed.'
}

redis_meets() {
  port=$(free_port)
  rm -f "$work"/core*
  start redis env GRANARY_CONF="$1" redis-server --crash-memcheck-enabled no --port "$port" --bind 127.0.0.1 --save '' --dir "$work" \
    --loadmodule "$work/planted.so"
  probe 20 redis-cli -h 127.0.0.1 -p "$port" ping
  expect_preloaded "$server"
  [ -n "$1" ] || set_in_running_server
  # The server dies in this call, so the client fails.
  timeout 600 redis-cli -h 127.0.0.1 -p "$port" planted "$2" >"$work/cli.log" 2>&1 || true
  if wait "$server"; then fail "the server survived $2."; fi
  expect_report "$work/redis.log" "$3" "$4" planted.so "$5"
}

cd "$work"
# shellcheck disable=SC3045  # dash has it
ulimit -c unlimited 2>/dev/null || true
redis_meets '' overflow 'beyond an object' '8 bytes after the end' no
redis_meets guard_sample:100000 underflow 'before an object' '8 bytes before the start' no
redis_meets guard_sample:100000 use_after_free 'after free' 'the start' yes
for core in "$work"/core*; do
  [ -f "$core" ] || continue
  "$granary" why "$core" >"$work/why.log" || fail 'granary why did not read the core file.'
  tr -s '\n ' ' ' <"$work/why.log" | grep -q 'granary: read after free at 0x' || fail 'the core file has no report.'
done

headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -f "$headers/Python.h" ] || skip 'the headers of python3 are not installed; the module of redis-server passed.'
cat >"$work/extension.c" <<'C'
#include <Python.h>
#include "misuse.h"
static PyObject *commit(PyObject *self, PyObject *what) {
  (void)self;
  return PyLong_FromLong(misuse(PyUnicode_AsUTF8(what)));
}
static PyMethodDef methods[] = {{"commit", commit, METH_O, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "extension", "", -1, methods};
PyMODINIT_FUNC PyInit_extension(void) { return PyModule_Create(&module); }
C
mkdir "$work/python"
cc -O1 -fno-builtin -fPIC -shared -I"$headers" -o "$work/python/extension.so" "$work/extension.c" || fail 'the extension does not compile.'
python_meets() {
  if under env GRANARY_CONF=guard_sample:100000 PYTHONPATH="$work/python" python3 -c "import extension; extension.commit('$1')" \
    >"$work/python.log" 2>&1; then
    fail "python3 survived $1."
  fi
  expect_report "$work/python.log" "$2" "$3" extension.so "$4"
}
python_meets overflow 'beyond an object' '8 bytes after the end' no
python_meets underflow 'before an object' '8 bytes before the start' no
python_meets use_after_free 'after free' 'the start' yes
