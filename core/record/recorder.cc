#include "recorder.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach.h"
#include "base/compiler.h"
#include "clock.h"
#include "file.h"
#include "maps.h"
#include "stacks.h"
#include "written.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace granary::record {

constinit thread_local Log log __attribute__((tls_model("initial-exec"))) = {};

// Where another process writes 0 to switch the recording on, and kOff to switch it off, into the
// first two words of Shared.
extern "C" GRANARY_EXPORT uint64_t* granary_record_switch;
uint64_t* granary_record_switch;

namespace {

// Chunks that ended threads left with room.
struct Rest {
  uint8_t *at, *end;
};
constexpr size_t kMaxRests = 512;

struct State {
  Shared shared;
  int lock;
  uint32_t threads;
  size_t rests;
  Rest rest[kMaxRests];
};

State before_start;  // until the process has a page that fork clears
File file;
uint64_t generation;  // of the last recording, in a parent or here
pid_t recorded;       // the process of that recording
pthread_key_t at_thread_end;

State& StateOf(Shared* s) { return *reinterpret_cast<State*>(s); }

class Lock {
 public:
  explicit Lock(State& state) : word_(state.lock) {
    while (__atomic_exchange_n(&word_, 1, __ATOMIC_ACQUIRE) != 0) sched_yield();
  }
  ~Lock() { __atomic_store_n(&word_, 0, __ATOMIC_RELEASE); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int& word_;
};

class KeepErrno {
 public:
  ~KeepErrno() { errno = value_; }

 private:
  int value_ = errno;
};

void LeaveChunk(void* value) {
  Log& of_thread = *static_cast<Log*>(value);
  State& state = StateOf(shared);
  if (of_thread.generation != state.shared.generation || of_thread.busy) return;
  of_thread.busy = true;
  {
    Lock lock(state);
    if (of_thread.encoder.HasRoom() && state.rests < kMaxRests) {
      state.rest[state.rests++] = {of_thread.encoder.at(), of_thread.encoder.end()};
    } else if (of_thread.encoder.end() != nullptr) {
      file.Finish(of_thread.encoder.end(), state.shared.clock);
    }
  }
  of_thread.encoder.Leave();
  of_thread.busy = false;
}

bool MakeClearedPage() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = (sizeof(State) + page - 1) & ~(page - 1);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || madvise(memory, bytes, MADV_WIPEONFORK) != 0) return false;
  __atomic_store_n(&shared, static_cast<Shared*>(memory), __ATOMIC_RELEASE);
  granary_record_switch = &shared->generation;
  return true;
}

uint64_t NumberIn(const char* variable, uint64_t otherwise) {
  const char* const text = Setting(variable);
  return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

// PATH, or PATH.PID for further processes.
const char* PathOf(const char* path, bool further, char (&buffer)[4096]) {
  if (!further) return path;
  size_t length = 0;
  while (path[length] != 0 && length < sizeof buffer - 24) {
    buffer[length] = path[length];
    ++length;
  }
  char digits[20];
  size_t count = 0;
  for (auto pid = static_cast<uint64_t>(getpid()); pid != 0; pid /= 10)
    digits[count++] = static_cast<char>('0' + pid % 10);
  buffer[length++] = '.';
  while (count > 0) buffer[length++] = digits[--count];
  buffer[length] = 0;
  return buffer;
}

bool CreateFile(bool forked) {
  const char* const path = Setting("GRANARY_RECORD");
  if (path == nullptr || *path == 0) return false;
  const bool follow = NumberIn("GRANARY_RECORD_FOLLOW", 0) != 0;
  if (forked && !follow) return false;
  const uint64_t max_bytes = NumberIn("GRANARY_RECORD_MAX_BYTES", uint64_t{1} << 30);
  const bool keeps_last = NumberIn("GRANARY_RECORD_KEEP_LAST", 0) != 0;
  char buffer[4096];
  if (!forked && file.Create(path, max_bytes, keeps_last)) return true;
  return follow && file.Create(PathOf(path, true, buffer), max_bytes, keeps_last);
}

// Whether the process waits until another one switches its recording on. It does so once: what
// decides anew after that is the switch.
bool Waits() {
  static pid_t waited;
  if (NumberIn("GRANARY_RECORD_WAIT", 0) == 0 || waited == getpid()) return false;
  waited = getpid();
  return true;
}

void Stopped(State& state) {
  __atomic_store_n(&state.shared.generation, kOff, __ATOMIC_RELEASE);
  __atomic_store_n(&state.shared.skipped, kOff, __ATOMIC_RELEASE);
}

void StartStacks() {
  stacks.Stop();
  ForgetModules();
  if (NumberIn("GRANARY_RECORD_STACKS", 0) == 0 || !stacks.Start()) return;
  file.header().version = kVersionWithStacks;
}

void StartWritten() {
  written.Stop();
  if (NumberIn("GRANARY_RECORD_WRITTEN", 0) == 0 || !written.Start()) return;
  file.header().version = kVersionWithWritten;
}

// Decides whether this process is recorded. Called with the state's lock held by one thread.
void Start(State& state) {
  const bool forked = generation != 0 && recorded != getpid();
  if (forked) file.Drop();
  state.rests = 0;  // of an earlier file, which stays mapped: a thread may be writing into it
  if (Waits() || !CreateFile(forked)) return Stopped(state);
  const uint64_t sample = NumberIn("GRANARY_RECORD_SAMPLE", 1);
  file.header().sample = sample == 0 ? 1 : sample;
  file.header().forked = forked;
  StartStacks();
  StartWritten();
  state.shared.skipped = ~(~uint64_t{0} / file.header().sample);
  state.shared.clock = file.header().first.ticks;
  if (generation == 0) pthread_key_create(&at_thread_end, LeaveChunk);
  recorded = getpid();
  __atomic_store_n(&state.shared.generation, ++generation, __ATOMIC_RELEASE);
}

void MoveClock(uint64_t to) {
  uint64_t& clock = shared->clock;
  uint64_t last = __atomic_load_n(&clock, __ATOMIC_RELAXED);
  while (to > last && !__atomic_compare_exchange_n(&clock, &last, to, true, __ATOMIC_RELAXED,
                                                   __ATOMIC_RELAXED)) {
  }
}

// The time of a thread's next chunk. Its chunks are read in the order of their times.
uint64_t TimeOfNextChunk(Log& log) {
  Advance(log);
  if (log.encoder.at() != nullptr) MoveClock(log.encoder.ticks() + 1);
  return __atomic_load_n(&shared->clock, __ATOMIC_RELAXED);
}

// A chunk with room, for a thread that has none.
bool NextChunk(Log& log, State& state) {
  const uint64_t ticks = TimeOfNextChunk(log);
  if (log.encoder.end() != nullptr) file.Finish(log.encoder.end(), ticks);
  if ((log.encoder.at() == nullptr || file.IsInUse()) && state.rests > 0) {
    const Rest rest = state.rest[--state.rests];
    log.encoder.Begin(rest.at, rest.end, ticks);
    log.encoder.Thread(log.thread, ticks);
    if (log.encoder.HasRoom()) return true;
    file.Finish(log.encoder.end(), ticks);
  }
  uint8_t* const chunk = file.NewChunk();
  if (chunk == nullptr) return false;
  *reinterpret_cast<ChunkHeader*>(chunk) = {log.thread, 0, ticks};
  log.encoder.Begin(chunk + sizeof(ChunkHeader), chunk + kChunkBytes, ticks);
  return true;
}

// Gives the thread room for an event; false: nothing is recorded.
bool MakeRoom(Log& log) {
  const KeepErrno keep;
  if (environ == nullptr) return false;  // the C library is not ready; the loader allocates
  if (shared == &before_start.shared && !MakeClearedPage()) {
    Stopped(before_start);
    return false;
  }
  State& state = StateOf(shared);
  Lock lock(state);
  if (state.shared.generation == 0) Start(state);
  if (state.shared.generation == kOff) return false;
  if (log.generation != state.shared.generation) {
    log.encoder.Leave();
    log.generation = state.shared.generation;
    log.thread = state.threads++;
  }
  if (!log.encoder.HasRoom()) {
    if (!NextChunk(log, state)) {
      Stopped(state);
      return false;
    }
    pthread_setspecific(at_thread_end, &log);
  }
  return true;
}

// A program that allocates nothing has a trace too.
__attribute__((constructor)) void AtLoad() {
  if (log.busy || log.generation != 0) return;
  log.busy = true;
  MakeRoom(log);
  log.busy = false;
}

__attribute__((destructor)) void AtExit() {
  Shared& s = *shared;
  if (s.generation == generation && generation != 0) file.header().last = Now();
}

void CountLost() {
  if (generation != 0) __atomic_fetch_add(&file.header().lost, 1, __ATOMIC_RELAXED);
}

}  // namespace

Shared* shared = &before_start.shared;

bool Prepare(Log& log, const void* p) {
  if (__atomic_load_n(&shared->generation, __ATOMIC_RELAXED) == kOff) return false;
  if (log.busy) {
    CountLost();
    return false;
  }
  log.busy = true;
  // The first event decides what is sampled.
  if (MakeRoom(log) && IsSampled(p)) return true;
  log.busy = false;
  return false;
}

bool Begin() {
  Log& l = log;
  if (l.busy) return false;
  l.busy = true;
  __atomic_store_n(&shared->skipped, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&shared->generation, 0, __ATOMIC_RELEASE);
  const bool begun = MakeRoom(l);
  l.busy = false;
  return begun;
}

uint8_t* ChunkOf(uint32_t thread) {
  State& state = StateOf(shared);
  Lock lock(state);
  uint8_t* const chunk = file.NewChunk();
  if (chunk != nullptr) *reinterpret_cast<ChunkHeader*>(chunk) = {thread, 0, 0};
  return chunk;
}

void Advance(Log& log) {
  MoveClock(Ticks());
  if (log.events % 1024 == 0) file.header().last = Now();
}

}  // namespace granary::record
