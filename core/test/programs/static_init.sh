#!/bin/sh
# A C++ program whose static initialisers, and those of two shared objects, allocate and throw. It
# repeatedly loads and unloads a third object.
set -eu
. "$(dirname "$0")/lib.inc"
need g++
cat >"$work/part.cc" <<'CC'
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {
int Descend(int depth) {
  std::string guard(static_cast<size_t>(depth) * 37 + 1, 'g');
  if (depth == 0) throw std::runtime_error("bottom " + std::string(300, 'b'));
  return Descend(depth - 1) + static_cast<int>(guard.size());
}
size_t CatchMany() {
  size_t caught = 0;
  for (int i = 0; i < 500; ++i) {
    try {
      Descend(i % 30);
    } catch (const std::exception& error) {
      caught += std::string(error.what()).size();
    }
  }
  return caught;
}
struct State {
  std::map<std::string, std::vector<int>> map;
  size_t caught = CatchMany();
  State() {
    for (int i = 0; i < 3000; ++i) map["key" + std::to_string(i)].assign(static_cast<size_t>(i % 90), i);
  }
  ~State() { map.clear(); }
} g_state;
thread_local std::string t_text(500, 't');
}  // namespace

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
extern "C" size_t JOIN(answer_, PART)() { return g_state.caught + g_state.map.size() + t_text.size(); }
extern "C" void JOIN(throw_, PART)(int depth) { Descend(depth); }
CC
cat >"$work/main.cc" <<'CC'
#include <dlfcn.h>

#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

extern "C" size_t answer_main();
extern "C" size_t answer_one();
extern "C" size_t answer_two();
extern "C" void throw_one(int);

static size_t Plugin(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return 0;
  auto* answer = reinterpret_cast<size_t (*)()>(dlsym(plugin, "answer_three"));
  size_t sum = 0;
  std::thread([&] { sum = answer(); }).join();
  sum += answer();
  dlclose(plugin);
  return sum;
}

int main(int, char** argv) {
  std::printf("%zu %zu %zu\n", answer_main(), answer_one(), answer_two());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 500; ++round) {
        try {
          throw_one((round + i) % 40);
        } catch (const std::exception&) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 20; ++i) std::printf("%zu\n", Plugin(argv[1]));
}
CC
for part in one two three; do
  g++ -std=c++17 -O1 -fPIC -shared -DPART="$part" "$work/part.cc" -o "$work/lib$part.so"
done
g++ -std=c++17 -O1 -DPART=main "$work/main.cc" "$work/part.cc" -o "$work/main" -L "$work" -lone -ltwo \
  -Wl,-rpath,"$work" -pthread -ldl
compare_runs "$work/main" "$work/libthree.so"
