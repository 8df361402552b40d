// Names of the profiler, and the hooks that report samples to ClickHouse.
#include <sys/stat.h>

#include "row.h"

namespace {

// With a rate of one byte each allocation is a sample.
void SampleAll() { CHECK(Set("prof.active", true) == 0 && Set("prof.reset", size_t{0}) == 0); }

struct Folder {
  char path[64] = "/tmp/granary-compat.XXXXXX";
  Folder() { CHECK(mkdtemp(path) != nullptr); }
  ~Folder() { CHECK(rmdir(path) == 0); }
};

int samples, frees, dumps;
size_t requested, usable, freed;
unsigned depth;
const void* address;
const void* freed_address;
char dumped[128];

void OnSample(const void* p, size_t size, void** stack, unsigned frames, size_t all) {
  ++samples;
  address = p;
  requested = size;
  usable = all;
  depth = stack != nullptr && frames > 0 && stack[0] != nullptr ? frames : 0;
  free(Hide(malloc(5000)));  // the hook may allocate, and is not called for that allocation
}
void OnFree(const void* p, size_t size) {
  ++frees;
  freed_address = p;
  freed = size;
  free(Hide(malloc(5000)));
}
void OnDump(const char* path) {
  ++dumps;
  snprintf(dumped, sizeof dumped, "%s", path);
}

}  // namespace

ROW("thread.prof.name") {
  CHECK(strcmp(Get<const char*>("thread.prof.name"), "") == 0);
  CHECK(Set("thread.prof.name", "worker 1") == 0);
  CHECK(strcmp(Get<const char*>("thread.prof.name"), "worker 1") == 0);
  CHECK(Set("thread.prof.name", static_cast<const char*>(nullptr)) != 0);
  CHECK(Set("thread.prof.name", "two\nlines") != 0);
  CHECK(strcmp(Get<const char*>("thread.prof.name"), "worker 1") == 0);
}

// A thread that switches its sampling off is not sampled.
ROW("thread.prof.active") {
  SampleAll();
  CHECK(Get<bool>("thread.prof.active"));
  CHECK(Set("experimental.hooks.prof_sample", &OnSample) == 0);
  CHECK(Set("thread.prof.active", false) == 0 && !Get<bool>("thread.prof.active"));
  samples = 0;
  free(Hide(malloc(5000)));
  CHECK(samples == 0);
  CHECK(Set("thread.prof.active", true) == 0);
  samples = 0;
  free(Hide(malloc(5000)));
  CHECK(samples == 1);
  CHECK(Set("experimental.hooks.prof_sample", static_cast<void*>(nullptr)) == 0);
}

ROW("prof.thread_active_init") { CHECK(Get<bool>("prof.thread_active_init")); }

ROW("prof.active") {
  for (const bool on : {true, false, true, false}) {
    CHECK(Set("prof.active", on) == 0 && Get<bool>("prof.active") == on);
  }
}

ROW("prof.gdump") {
  CHECK(Set("prof.gdump", true) == 0 && Get<bool>("prof.gdump"));
  CHECK(Set("prof.gdump", false) == 0 && !Get<bool>("prof.gdump"));
}

// The file exists and is complete when the call returns.
ROW("prof.dump") {
  SampleAll();
  void* const p = Hide(malloc(123456));
  const Folder folder;
  const std::string path = std::string(folder.path) + "/heap";
  CHECK(Set("prof.dump", path.c_str()) == 0);
  FILE* const file = fopen(path.c_str(), "r");
  char line[512] = {};
  CHECK(file != nullptr && fgets(line, sizeof line, file) != nullptr);
  CHECK(strcmp(line, "heap_v2/1\n") == 0);
  bool maps = false;
  while (fgets(line, sizeof line, file) != nullptr)
    maps |= strcmp(line, "MAPPED_LIBRARIES:\n") == 0;
  fclose(file);
  CHECK(maps && remove(path.c_str()) == 0);
  CHECK(Set("prof.dump", "/nowhere/at/all") != 0);
  free(p);
}

ROW("prof.reset") {
  SampleAll();
  CHECK(Get<size_t>("prof.lg_sample") == 0);
  CHECK(Set("prof.reset", size_t{19}) == 0 && Get<size_t>("prof.lg_sample") == 19);
  CHECK(Do("prof.reset") == 0 && Get<bool>("prof.active"));
}

ROW("prof.lg_sample") { CHECK(Get<size_t>("prof.lg_sample") == Get<size_t>("opt.lg_prof_sample")); }

ROW("experimental.hooks.prof_dump") {
  const char* const name = "experimental.hooks.prof_dump";
  CHECK(Get<void*>(name) == nullptr);
  CHECK(Set(name, &OnDump) == 0 && Get<void (*)(const char*)>(name) == OnDump);
  SampleAll();
  const Folder folder;
  const std::string path = std::string(folder.path) + "/heap";
  CHECK(Set("prof.dump", path.c_str()) == 0 && dumps == 1 && path == dumped);
  CHECK(remove(path.c_str()) == 0);
  CHECK(Set(name, static_cast<void*>(nullptr)) == 0);
}

ROW("experimental.hooks.prof_sample") {
  const char* const name = "experimental.hooks.prof_sample";
  CHECK(Set(name, &OnSample) == 0 && Get<void*>(name) == reinterpret_cast<void*>(&OnSample));
  SampleAll();
  samples = 0;
  for (size_t size : {100, 5000, 2000000}) {
    void* const p = Hide(malloc(size));
    CHECK(address == p && requested == size && usable == malloc_usable_size(p) && depth > 0);
    free(p);
  }
  CHECK(samples == 3);
  CHECK(Set(name, static_cast<void*>(nullptr)) == 0);
  free(Hide(malloc(100)));
  CHECK(samples == 3);
}

ROW("experimental.hooks.prof_sample_free") {
  const char* const name = "experimental.hooks.prof_sample_free";
  SampleAll();
  CHECK(Set(name, &OnFree) == 0);
  for (size_t size : {100, 5000, 2000000}) {
    void* const p = Hide(malloc(size));
    const size_t all = malloc_usable_size(p);
    const int before = frees;
    free(p);
    CHECK(frees == before + 1 && freed_address == p && freed == all);
  }
  CHECK(Set(name, static_cast<void*>(nullptr)) == 0);
}
