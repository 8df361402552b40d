#include "recorder.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach.h"
#include "base/compiler.h"
#include "base/writer.h"
#include "buffers.h"
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
constexpr unsigned kMostNamesakes = 1000;
// Full buffers of a packer that is behind: what a thread fills in about ten milliseconds.
constexpr uint32_t kMostWaiting = 256;

struct alignas(kPageBytes) State {
  int lock;
  uint32_t threads;
  uint32_t held;  // buffers that threads write into
  size_t rests;
  Rest rest[kMaxRests];
};

State state;  // cleared in a child of fork, as `shared` is
File file;
uint64_t generation;  // of the last recording, in a parent or here
pid_t recorded;       // the process of that recording
pthread_key_t at_thread_end;
void AtThreadEnd(void* log);

class Lock {
 public:
  Lock() {
    while (__atomic_exchange_n(&state.lock, 1, __ATOMIC_ACQUIRE) != 0) sched_yield();
  }
  ~Lock() { __atomic_store_n(&state.lock, 0, __ATOMIC_RELEASE); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

class KeepErrno {
 public:
  ~KeepErrno() { errno = value_; }

 private:
  int value_ = errno;
};

bool ClearInChildren() {
  if (madvise(&shared, sizeof shared, MADV_WIPEONFORK) != 0 ||
      madvise(&state, sizeof state, MADV_WIPEONFORK) != 0) {
    return false;
  }
  granary_record_switch = &shared.generation;
  return true;
}

uint64_t NumberIn(const char* variable, uint64_t otherwise) {
  const char* const text = Setting(variable);
  return text == nullptr ? otherwise : strtoull(text, nullptr, 10);
}

// PATH.PID for a further process, PATH.PID.2 and so on if one of another PID namespace has that.
const char* PathOf(const char* path, unsigned namesake, char (&buffer)[4096]) {
  Writer w(buffer, sizeof buffer - 1);
  w.Text(path).Text(".").Number(static_cast<uint64_t>(getpid()));
  if (namesake > 1) w.Text(".").Number(namesake);
  buffer[w.size()] = 0;
  return buffer;
}

bool CreateFile(bool forked) {
  const char* const path = Setting("GRANARY_RECORD");
  if (path == nullptr || *path == 0) return false;
  const bool follow = NumberIn("GRANARY_RECORD_FOLLOW", 0) != 0;
  if (forked && !follow) return false;
  const uint64_t max_bytes = NumberIn("GRANARY_RECORD_MAX_BYTES", uint64_t{1} << 30);
  const bool keeps_last = NumberIn("GRANARY_RECORD_KEEP_LAST", 0) != 0;
  if (!forked && file.Create(path, max_bytes, keeps_last)) return true;
  char buffer[4096];
  for (unsigned namesake = 1; follow && namesake <= kMostNamesakes; ++namesake) {
    if (file.Create(PathOf(path, namesake, buffer), max_bytes, keeps_last)) return true;
    if (errno != EEXIST) break;
  }
  return false;
}

// Whether the process waits until another one switches its recording on. It does so once: what
// decides anew after that is the switch.
bool Waits() {
  static pid_t waited;
  if (NumberIn("GRANARY_RECORD_WAIT", 0) == 0 || waited == getpid()) return false;
  waited = getpid();
  return true;
}

void Stopped() {
  __atomic_store_n(&shared.generation, kOff, __ATOMIC_RELEASE);
  __atomic_store_n(&shared.skipped, kOff, __ATOMIC_RELEASE);
}

void StartStacks() {
  stacks.Stop();
  ForgetModules();
  if (NumberIn("GRANARY_RECORD_STACKS", 0) != 0) stacks.Start();
}

void StartWritten() {
  written.Stop();
  if (NumberIn("GRANARY_RECORD_WRITTEN", 0) == 0 || !written.Start()) return;
  file.header().has_written = 1;
}

// Decides whether this process is recorded. Called with the state's lock held by one thread.
void Start() {
  const bool forked = generation != 0 && recorded != getpid();
  if (forked) file.Drop();
  state.rests = 0;  // of an earlier file, which stays mapped: a thread may be writing into it
  state.held = 0;
  if (Waits() || !CreateFile(forked)) return Stopped();
  const uint64_t sample = NumberIn("GRANARY_RECORD_SAMPLE", 1);
  file.header().sample = sample == 0 ? 1 : sample;
  file.header().forked = forked;
  StartStacks();
  StartWritten();
  shared.skipped = ~(~uint64_t{0} / file.header().sample);
  shared.clock = file.header().first.ticks;
  if (generation == 0) pthread_key_create(&at_thread_end, AtThreadEnd);
  recorded = getpid();
  __atomic_store_n(&shared.generation, ++generation, __ATOMIC_RELEASE);
}

void MoveClock(uint64_t to) {
  uint64_t& clock = shared.clock;
  uint64_t last = __atomic_load_n(&clock, __ATOMIC_RELAXED);
  while (to > last && !__atomic_compare_exchange_n(&clock, &last, to, true, __ATOMIC_RELAXED,
                                                   __ATOMIC_RELAXED)) {
  }
}

// The time of a thread's next buffer. Its buffers are read in the order of their times.
uint64_t TimeOfNextBuffer(Log& log) {
  Advance(log);
  if (log.words.buffer() != nullptr) MoveClock(log.words.ticks() + 1);
  return __atomic_load_n(&shared.clock, __ATOMIC_RELAXED);
}

void BeginBuffer(Log& log, uint32_t row, uint64_t ticks) {
  uint8_t* const buffer = BufferAt(file.header(), row);
  *reinterpret_cast<ChunkHeader*>(buffer) = {log.thread, Form::kBuffers, ticks};
  log.row = row;
  log.words.Begin(buffer, ticks);
}

// The following functions are called with the state's lock held.

// A buffer that is free, or that may be made for the packer to have time. kNoBuffer: neither.
uint32_t FreeBuffer() {
  Header& header = file.header();
  const uint32_t row = TakeBuffer(header);
  const uint64_t most = header.max_chunks < kMostWaiting ? header.max_chunks : kMostWaiting;
  if (row != kNoBuffer || header.buffers >= state.held + most) return row;
  return MakeBuffers(file) ? TakeBuffer(header) : kNoBuffer;
}

// Leaves the thread's full buffer to the packer of another process and begins a free one. False:
// there is none, or the packer is slower than the threads.
bool HandOver(Log& log) {
  if (__atomic_load_n(&file.header().packer, __ATOMIC_RELAXED) == 0) return false;
  const uint32_t row = FreeBuffer();
  if (row == kNoBuffer) return false;
  const uint64_t ticks = TimeOfNextBuffer(log);
  SetBuffer(file.header(), log.row, BufferState::kFull);
  BeginBuffer(log, row, ticks);
  return true;
}

bool FirstBuffer(Log& log) {
  uint32_t row = TakeBuffer(file.header());
  if (row == kNoBuffer && MakeBuffers(file)) row = TakeBuffer(file.header());
  if (row == kNoBuffer) return false;
  ++state.held;
  BeginBuffer(log, row, TimeOfNextBuffer(log));
  pthread_setspecific(at_thread_end, &log);
  return true;
}

// A chunk with room, for a thread that packs its events.
bool NextChunk(Log& log) {
  if (log.packed.end() != nullptr) file.Finish(log.packed.end(), log.words.ticks());
  if ((log.packed.at() == nullptr || file.IsInUse()) && state.rests > 0) {
    const Rest rest = state.rest[--state.rests];
    log.packed.Begin(rest.at, rest.end, 0);
    return true;
  }
  log.packed.Leave();
  uint8_t* const chunk = file.NewChunk();
  if (chunk == nullptr) return false;
  log.packed.Begin(chunk + sizeof(ChunkHeader), chunk + kChunkBytes, 0);
  return true;
}

void Join(Log& log) {
  log.words.Leave();
  log.packed.Leave();
  log.generation = shared.generation;
  log.thread = state.threads++;
  log.Clear(Log::kDetailed);
  if (stacks.on() || written.on()) log.Set(Log::kDetailed);
}

// Without the lock: the thread packs the events of its buffer by itself.
bool PackOwn(Log& log) {
  uint8_t* const buffer = log.words.buffer();
  while (!PackBuffer(buffer, log.words.at(), log.packed)) {
    Lock lock;
    if (log.generation != shared.generation) return false;
    if (!NextChunk(log)) {
      Stopped();
      return false;
    }
  }
  ClearBuffer(buffer, log.words.at());
  log.words.Begin(buffer, log.words.ticks());
  return true;
}

// Gives the thread room for an event; false: nothing is recorded.
bool MakeRoom(Log& log) {
  const KeepErrno keep;
  if (environ == nullptr) return false;  // the C library is not ready; the loader allocates
  if (granary_record_switch == nullptr && !ClearInChildren()) {
    Stopped();
    return false;
  }
  {
    Lock lock;
    if (shared.generation == 0) Start();
    if (shared.generation == kOff) return false;
    if (log.generation != shared.generation) Join(log);
    if (log.words.HasRoom()) return true;
    if (log.words.buffer() == nullptr) {
      const bool has_room = FirstBuffer(log);
      if (!has_room) Stopped();
      return has_room;
    }
    if (HandOver(log)) return true;
  }
  if (!PackOwn(log)) return false;
  BeginBuffer(log, log.row, TimeOfNextBuffer(log));
  return true;
}

// Leaves the buffer to the packer, or to further threads without events. False: it cannot.
bool LeaveBuffer(Log& log) {
  Header& header = file.header();
  const bool has_events = !log.words.IsEmpty();
  const bool to_packer = has_events && __atomic_load_n(&header.packer, __ATOMIC_RELAXED) != 0 &&
                         CountBuffers(header, BufferState::kFull) < kMostWaiting;
  if (has_events && !to_packer) return false;
  --state.held;
  SetBuffer(header, log.row, to_packer ? BufferState::kFull : BufferState::kFree);
  log.words.Leave();
  return true;
}

void LeaveChunk(Log& log) {
  if (log.packed.HasRoom() && state.rests < kMaxRests) {
    state.rest[state.rests++] = {log.packed.at(), log.packed.end()};
  } else if (log.packed.end() != nullptr) {
    file.Finish(log.packed.end(), shared.clock);
  }
  log.packed.Leave();
}

void AtThreadEnd(void* of_thread) {
  Log& ended = *static_cast<Log*>(of_thread);
  if (ended.Is(Log::kBusy)) return;
  ended.Set(Log::kBusy);
  const auto leave = [&] {
    Lock lock;
    return ended.generation != shared.generation || LeaveBuffer(ended);
  };
  if (!leave() && PackOwn(ended)) leave();
  {
    Lock lock;
    if (ended.generation == shared.generation) LeaveChunk(ended);
  }
  ended.words.Leave();
  ended.Clear(Log::kBusy);
}

// A program that allocates nothing has a trace too.
__attribute__((constructor)) void AtLoad() {
  if (log.Is(Log::kBusy) || log.generation != 0) return;
  log.Set(Log::kBusy);
  MakeRoom(log);
  log.Clear(Log::kBusy);
}

__attribute__((destructor)) void AtExit() {
  if (shared.generation == generation && generation != 0) file.header().last = Now();
}

void CountLost() {
  if (generation != 0) __atomic_fetch_add(&file.header().lost, 1, __ATOMIC_RELAXED);
}

}  // namespace

Shared shared;

bool Prepare(Log& log, const void* p) {
  if (__atomic_load_n(&shared.generation, __ATOMIC_RELAXED) == kOff) return false;
  if (log.Is(Log::kBusy)) {
    CountLost();
    return false;
  }
  log.Set(Log::kBusy);
  // The first event decides what is sampled.
  if (MakeRoom(log) && IsSampled(p)) return true;
  log.Clear(Log::kBusy);
  return false;
}

bool Begin() {
  Log& l = log;
  if (l.Is(Log::kBusy)) return false;
  l.Set(Log::kBusy);
  __atomic_store_n(&shared.skipped, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&shared.generation, 0, __ATOMIC_RELEASE);
  const bool begun = MakeRoom(l);
  l.Clear(Log::kBusy);
  return begun;
}

uint8_t* ChunkOf(uint32_t thread) {
  Lock lock;
  uint8_t* const chunk = file.NewChunk();
  if (chunk != nullptr) *reinterpret_cast<ChunkHeader*>(chunk) = {thread, Form::kPacked, 0};
  return chunk;
}

void Advance(Log& log) {
  MoveClock(Ticks());
  log.words.MovePause();
  if (log.pauses++ % 16 == 0) file.header().last = Now();
}

}  // namespace granary::record
