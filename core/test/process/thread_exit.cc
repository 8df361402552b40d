// Code that runs after a thread's function has returned: C++ thread_local destructors, then four
// rounds of key destructors. They free the thread's objects and allocate again, in the last round
// too.
#include <pthread.h>

#include <memory>
#include <string>
#include <vector>

#include "churn.h"

namespace {

constexpr int kKeys = 40;  // above 32 keys the C library allocates to store a value
constexpr int kThreads = 300;

pthread_key_t g_keys[kKeys];

struct Value {
  int key;
  int round;
  void* block;
};

void Store(int key, int round) {
  auto* value = static_cast<Value*>(malloc(sizeof(Value)));
  CHECK(value != nullptr);
  *value = {key, round, malloc(700)};
  CHECK(value->block != nullptr);
  FillPattern(value->block, 700, static_cast<uint64_t>(key));
  CHECK(pthread_setspecific(g_keys[key], value) == 0);
}

// A thread has only four rounds. Values that the last round stores are lost.
void Destroy(void* stored) {
  auto* value = static_cast<Value*>(stored);
  CHECK(PatternHolds(value->block, 700, static_cast<uint64_t>(value->key)));
  Churn<20, 16> churn(static_cast<uint64_t>(value->key));
  churn.Steps(50);
  if (value->round < 4) Store(value->key, value->round + 1);
  free(value->block);
  free(value);
}

struct Local {
  std::vector<std::string> names;
  std::unique_ptr<char[]> block;
  ~Local() {
    for (const std::string& name : names) CHECK(name.size() == 90);
    names.assign(100, std::string(200, 'z'));
    block = std::make_unique<char[]>(100000);
  }
};

thread_local Local t_local;

void* Live(void*) {
  t_local.names.assign(50, std::string(90, 'a'));
  t_local.block = std::make_unique<char[]>(3000);
  for (int key = 0; key < kKeys; ++key) Store(key, 1);
  Churn<30, 14> churn(1);
  churn.Steps(100);
  return nullptr;
}

// Frees and allocates for the first time in a destructor: the thread has not used the heap before.
void* OnlyAtTheEnd(void* value) {
  CHECK(pthread_setspecific(g_keys[0], value) == 0);
  return nullptr;
}

}  // namespace

int main() {
  for (pthread_key_t& key : g_keys) CHECK(pthread_key_create(&key, Destroy) == 0);
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, Live, nullptr) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
    auto* value = static_cast<Value*>(malloc(sizeof(Value)));
    CHECK(value != nullptr);
    *value = {0, 1, malloc(700)};
    FillPattern(value->block, 700, 0);
    CHECK(pthread_create(&thread, nullptr, OnlyAtTheEnd, value) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
  }
}
