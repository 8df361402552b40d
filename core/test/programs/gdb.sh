#!/bin/sh
# gdb: stops inside a program, prints its memory, calls malloc and free, follows a fork, and runs
# the program to its end.
set -eu
. "$(dirname "$0")/lib.inc"
need gdb gcc
cat >"$work/main.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct Node { struct Node* next; int value; };

static struct Node* g_head;

__attribute__((noinline)) void Stop(int round) { __asm__ volatile("" : : "r"(round)); }

int main(void) {
  for (int i = 0; i < 1000; ++i) {
    struct Node* node = malloc(sizeof(*node));
    node->next = g_head;
    node->value = i;
    g_head = node;
    if (i % 500 == 0) Stop(i);
  }
  pid_t child = fork();
  if (child == 0) _exit(g_head->value == 999 ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  long sum = 0;
  while (g_head != NULL) {
    struct Node* node = g_head;
    sum += node->value;
    g_head = node->next;
    free(node);
  }
  printf("sum %ld child %d\n", sum, status);
  return 0;
}
C
gcc -g -O0 "$work/main.c" -o "$work/main"
# On processors with more state than this gdb supports, gdb cannot call functions in any program.
if timeout 60 gdb -batch -nx -ex 'break main' -ex run -ex 'print (int) getpid()' "$work/main" 2>&1 </dev/null |
  grep -q "extended state status"; then
  calls=''
  called=''
else
  # shellcheck disable=SC2016 # the names are gdb's
  calls='set $block = ((void *(*)(unsigned long)) malloc)(1000)
print $block != 0
call ((void (*)(void *)) free)($block)'
  called='= 1'
fi
cat >"$work/commands" <<GDB
set confirm off
set pagination off
set debuginfod enabled off
set environment LD_PRELOAD $lib
break -qualified Stop
run
print g_head->value
$calls
info sharedlibrary
continue
print g_head->value
stepi 200
delete
continue
GDB
timeout 600 gdb -batch -nx -x "$work/commands" "$work/main" >"$work/gdb.log" 2>&1 </dev/null ||
  fail 'gdb failed.'
if grep -q 'ptrace: Operation not permitted' "$work/gdb.log"; then skip 'gdb may not trace here.'; fi
for text in '= 0' "$called" '= 500' 'sum 499500 child 0' 'exited normally' "$(basename "$lib")"; do
  grep -q -- "$text" "$work/gdb.log" || fail "gdb did not print: $text"
done
