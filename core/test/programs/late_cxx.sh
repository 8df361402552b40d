#!/bin/sh
# A C program opens a C++ plugin, which loads the C++ runtime after the library was loaded. In the
# plugin, operator new throws and calls its new-handler, and the nothrow form returns null.
. "$(dirname "$0")/lib.inc"
need cc
need c++

cat >"$work/plugin.cc" <<'END'
#include <cstdint>
#include <new>
static int handled;
static void GiveUpLater() {
  if (++handled == 3) std::set_new_handler(nullptr);
}
static void* Hidden(std::size_t n) {
  asm volatile("" : "+r"(n));
  return ::operator new(n);
}
extern "C" int run() {
  const std::size_t most = SIZE_MAX / 2 - 64;
  try {
    Hidden(most);
    return 1;
  } catch (const std::bad_alloc&) {
  }
  std::set_new_handler(GiveUpLater);
  if (::operator new(most, std::nothrow) != nullptr || handled != 3) return 2;
  ::operator delete(Hidden(100));
  return 0;
}
END
cat >"$work/program.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  if (argc < 2 || dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD)) return puts("there is a C++ runtime already"), 10;
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!plugin) return puts(dlerror()), 11;
  return ((int (*)(void))dlsym(plugin, "run"))();
}
END
c++ -O1 -shared -fPIC -o "$work/plugin.so" "$work/plugin.cc"
cc -o "$work/program" "$work/program.c" -ldl
"$work/program" "$work/plugin.so" || fail "the program ended with $? by itself."
under "$work/program" "$work/plugin.so" >"$work/program.log" 2>&1 || fail "the program ended with $? under the library."
