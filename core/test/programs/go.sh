#!/bin/sh
# go: a program whose goroutines allocate through cgo, and the project's own command vetted and
# built. The Go toolchain is static; cgo, the C compiler, the linker and the program run on the
# library.
set -eu
. "$(dirname "$0")/lib.inc"
need go gcc

export GOFLAGS=-mod=mod CGO_ENABLED=1 GOTOOLCHAIN=local
mkdir "$work/cgo"
cd "$work/cgo"
cat >go.mod <<'MOD'
module cgoload

go 1.19
MOD
cat >main.go <<'GO'
package main

/*
#include <stdlib.h>
#include <string.h>
static char *duplicate(const char *text, int times) {
  size_t length = strlen(text);
  char *copy = malloc(length * times + 1);
  for (int i = 0; i < times; ++i) memcpy(copy + i * length, text, length);
  copy[length * times] = 0;
  return copy;
}
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"
)

func repeat(word string, times int) string {
	text := C.CString(word)
	defer C.free(unsafe.Pointer(text))
	copied := C.duplicate(text, C.int(times))
	defer C.free(unsafe.Pointer(copied))
	return C.GoString(copied)
}

func main() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil || !strings.Contains(string(maps), os.Args[1]) {
		fmt.Println("the program does not run on the library")
		os.Exit(1)
	}
	var group sync.WaitGroup
	for worker := 0; worker < 64; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for i := 0; i < 2000; i++ {
				word := fmt.Sprintf("w%d-%d ", worker, i)
				if repeat(word, i%50+1) != strings.Repeat(word, i%50+1) {
					panic("a string changed")
				}
			}
		}(worker)
	}
	group.Wait()
}
GO
timeout 600 env LD_PRELOAD="$lib" go build -o load . 2>"$work/go.log" || fail 'go build failed.'
under timeout 600 ./load "$lib" || fail 'the cgo program failed.'

cd "$root"
[ -d tool ] && [ -f go.mod ] || exit 0
unset GOFLAGS
unset GOTOOLCHAIN
timeout 600 env LD_PRELOAD="$lib" go vet ./tool/... 2>"$work/go.log" || fail 'go vet failed.'
timeout 600 env LD_PRELOAD="$lib" go build -o "$work/granary" ./tool/cmd/granary 2>"$work/go.log" ||
  fail 'go build of the tool failed.'
