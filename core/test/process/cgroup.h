// A memory cgroup of the test, of version 1 or 2, in which a child runs.
#ifndef GRANARY_TEST_PROCESS_CGROUP_H_
#define GRANARY_TEST_PROCESS_CGROUP_H_

#include <fcntl.h>
#include <sys/stat.h>

#include "../child.h"

class TestGroup {
 public:
  // Skips the test where no cgroup can be made.
  explicit TestGroup(size_t limit) {
    if (!Make()) SkipTest("no memory cgroup can be made here.");
    Put(names_->limit, limit);
  }

  // Starts `work` in a child inside the cgroup.
  template <class Work>
  pid_t Start(Work work) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      EndIfStuck();
      Put("cgroup.procs", static_cast<size_t>(getpid()));
      _exit(work());
    }
    return child;
  }

  // Waits for the last child, removes the cgroup and returns the child's status.
  int End(pid_t child) {
    const int status = WaitFor(child);
    rmdir(path_);
    return status;
  }

  template <class Work>
  int Run(Work work) {
    return End(Start(work));
  }

  // Bytes that the kernel charges to the cgroup now.
  size_t Usage() const {
    char file[256], text[32] = "";
    snprintf(file, sizeof(file), "%s/%s", path_, names_->usage);
    const int from = open(file, O_RDONLY | O_CLOEXEC);
    CHECK(from >= 0);
    CHECK(read(from, text, sizeof(text) - 1) > 0);
    close(from);
    return strtoull(text, nullptr, 10);
  }

 private:
  // Version 1 has a file tree per controller, version 2 has one tree for all controllers.
  struct Names {
    const char *root, *limit, *usage;
  };
  static constexpr Names kVersions[] = {
      {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
      {"/sys/fs/cgroup", "memory.max", "memory.current"}};

  bool Make() {
    for (const Names& names : kVersions) {
      names_ = &names;
      snprintf(path_, sizeof(path_), "%s/granary-test-%d", names.root, getpid());
      if (mkdir(path_, 0755) != 0) continue;
      char file[256];
      snprintf(file, sizeof(file), "%s/%s", path_, names.limit);
      if (access(file, W_OK) == 0) return true;
      rmdir(path_);
    }
    return false;
  }

  void Put(const char* name, size_t value) const {
    char file[256], text[32];
    snprintf(file, sizeof(file), "%s/%s", path_, name);
    const int length = snprintf(text, sizeof(text), "%zu", value);
    const int to = open(file, O_WRONLY | O_CLOEXEC);
    CHECK(to >= 0);
    CHECK(write(to, text, static_cast<size_t>(length)) == length);
    close(to);
  }

  const Names* names_ = nullptr;
  char path_[128];
};

#endif  // GRANARY_TEST_PROCESS_CGROUP_H_
