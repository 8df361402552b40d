// Names of the profiler.
#include <sys/stat.h>

#include "row.h"

namespace {

// At one byte each allocation is a sample.
void SampleAll() { CHECK(Set("prof.active", true) == 0 && Set("prof.reset", size_t{0}) == 0); }

struct Folder {
  char path[64] = "/tmp/granary-compat.XXXXXX";
  Folder() { CHECK(mkdtemp(path) != nullptr); }
  ~Folder() { CHECK(rmdir(path) == 0); }
};

}  // namespace

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

// The file is there and whole when the call returns.
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
