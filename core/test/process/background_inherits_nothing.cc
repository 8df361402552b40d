// The background thread has the CPUs, the policy and the niceness of the process, not those of the
// thread that started it. After the system has refused to create a thread, the library tries again.
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>

#include "../check.h"

namespace {

std::atomic<int> g_refused{0};
std::atomic<bool> g_refuse{false};

using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

pid_t BackgroundThread() {
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != nullptr);
  pid_t found = 0;
  while (dirent* task = readdir(tasks)) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    FILE* comm = fopen(path, "r");
    if (comm == nullptr) continue;
    if (fgets(name, sizeof name, comm) != nullptr && strcmp(name, "granary\n") == 0)
      found = atoi(task->d_name);
    fclose(comm);
  }
  closedir(tasks);
  return found;
}

bool MayRaise() {
  rlimit limit{};
  CHECK(getrlimit(RLIMIT_NICE, &limit) == 0);
  return geteuid() == 0 || limit.rlim_cur >= 20;
}

void GrowAndShrink() {
  static void* blocks[40000];
  for (void*& p : blocks) p = memset(malloc(1000), 1, 1000);
  for (void* p : blocks) free(p);
}

void* StartIt(void*) {
  cpu_set_t first;
  CHECK(sched_getaffinity(0, sizeof first, &first) == 0);
  for (int cpu = CPU_SETSIZE - 1; CPU_COUNT(&first) > 1; --cpu) CPU_CLR(cpu, &first);
  CHECK(sched_setaffinity(0, sizeof first, &first) == 0);
  const sched_param none{};
  CHECK(sched_setscheduler(0, SCHED_BATCH, &none) == 0);
  CHECK(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 1) == 0);
  g_refuse = true;
  while (g_refused == 0) GrowAndShrink();
  g_refuse = false;
  for (int i = 0; i < 3000 && BackgroundThread() == 0; ++i) {
    GrowAndShrink();
    usleep(10000);
  }
  return nullptr;
}

}  // namespace

// Before the C library's, for the library as well.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) {
  if (g_refuse) {
    ++g_refused;
    return EAGAIN;
  }
  static const auto next = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, start, argument);
}

int main() {
#if !defined(__GLIBC__)
  return kExitSkipped;
#endif
  if (OnSystemHeap()) SkipTest("the background thread is Granary's.");
  const int niceness = getpriority(PRIO_PROCESS, 0);
  cpu_set_t all, its;
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, StartIt, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
  CHECK(g_refused == 1);  // and no more than one attempt in a moment
  const pid_t background = BackgroundThread();
  CHECK(background != 0);
  // Its name comes first, then the rest.
  for (int i = 0; i < 1000; ++i) {
    CHECK(sched_getaffinity(background, sizeof its, &its) == 0);
    if (CPU_EQUAL(&all, &its)) break;
    usleep(1000);
  }
  CHECK(CPU_EQUAL(&all, &its));
  CHECK(sched_getscheduler(background) == SCHED_OTHER);
  if (MayRaise()) CHECK(getpriority(PRIO_PROCESS, static_cast<id_t>(background)) == niceness);
  _exit(0);
}
