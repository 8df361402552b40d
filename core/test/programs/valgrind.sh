#!/bin/sh
# valgrind: memcheck as a user calls it; and with its own malloc disabled, so that the library runs
# on valgrind's CPU, where the kernel's restartable sequences do not exist.
set -eu
. "$(dirname "$0")/lib.inc"
need valgrind g++

cat >"$work/main.cc" <<'CC'
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

int main() {
  size_t sum = 0;
  std::vector<std::thread> threads;
  std::vector<size_t> sums(3);
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([i, &sums] {
      std::map<int, std::string> map;
      for (int n = 0; n < 1500; ++n) map[n % 300] = std::string(static_cast<size_t>(n), 'v');
      for (const auto& [key, text] : map) sums[i] += text.size() + static_cast<size_t>(key);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t one : sums) sum += one;
  std::vector<char> large(30 << 20, 'l');
  std::printf("%zu %zu\n", sum, large.size());
}
CC
g++ -std=c++17 -g -O1 "$work/main.cc" -o "$work/main" -pthread
expected=$("$work/main")

# check NAME OPTIONS...: the program prints the expected output and valgrind finds no error.
check() {
  name=$1
  shift
  timeout 600 valgrind --trace-children=no --error-exitcode=9 "$@" \
    env true >/dev/null 2>&1 || skip 'valgrind does not work here.'
  printed=$(timeout 600 env LD_PRELOAD="$lib" valgrind --error-exitcode=9 --log-file="$work/$name.log" \
    "$@" "$work/main") || fail "the program failed under valgrind ($name)."
  expect_equal "$expected" "$printed" "output under valgrind, $name"
}
check memcheck --tool=memcheck
grep -q 'ERROR SUMMARY: 0 errors' "$work/memcheck.log" || fail 'memcheck found errors.'
check own-heap --tool=memcheck --undef-value-errors=no --soname-synonyms=somalloc=nouserintercepts
check none --tool=none
