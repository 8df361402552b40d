// Repeats the allocation calls of a recorded program, with its threads and the order between them.
// `granary replay` runs it: replay plan=FILE [touch=0|1|2] [first=BYTES] [paced=1].
#include <atomic>

#include "bench.h"
#include "replay_plan.h"

namespace {

using replay::Kind;
using replay::Operation;

struct Slot {
  std::atomic<uint32_t> turn;
  void* object;
};

// What is written into an object: nothing, a byte of each page, or all of it.
enum class Touch : size_t { kNothing = 0, kPages = 1, kAll = 2 };

// Everything that the threads share. Filled before they start.
struct Replay {
  int file;
  replay::Thread* threads;
  Slot* slots;
  Touch touch;
  size_t first;  // no more than this of an object is written
  bool paced;
  uint64_t start_ns;
  std::atomic<uint32_t> running;
};
Replay g;

constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kBuffered = 256;

uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void ReadAt(void* to, size_t bytes, uint64_t offset) {
  for (size_t done = 0; done < bytes;) {
    ssize_t got = pread(g.file, static_cast<char*>(to) + done, bytes - done,
                        static_cast<off_t>(offset + done));
    if (got <= 0) bench::Fail("the plan cannot be read to its end; is it cut?");
    done += static_cast<size_t>(got);
  }
}

void AwaitTurn(Slot& slot, uint32_t turn) {
  for (size_t tries = 0; slot.turn.load(std::memory_order_acquire) != turn; ++tries) {
    if (tries < 100) continue;
    if (tries < 1000) {
      sched_yield();
    } else {
      bench::Sleep(20e-6);
    }
  }
}

// Sleeps until `at`, in nanoseconds since the start; not for less than 50 microseconds.
void AwaitTime(uint64_t at) {
  uint64_t passed = NowNs() - g.start_ns;
  if (at > passed + 50000) bench::Sleep(static_cast<double>(at - passed) * 1e-9);
}

void Write(void* object, size_t size) {
  auto* bytes = static_cast<volatile char*>(object);
  size = std::min(size, g.first);
  if (g.touch == Touch::kNothing || size == 0) return;
  if (g.touch == Touch::kAll) {
    std::memset(object, 1, size);
    bench::Keep(object);
    return;
  }
  for (size_t at = 0; at < size; at += 4096) bytes[at] = 1;
  bytes[size - 1] = 1;
}

void* New(const Operation& op) {
  if (op.kind == Kind::kZeroed) return std::calloc(1, op.size);
  size_t alignment = size_t{1} << op.log2_alignment;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(op.size);
  void* object = nullptr;
  return posix_memalign(&object, alignment, op.size) == 0 ? object : nullptr;
}

void Apply(const Operation& op) {
  Slot& slot = g.slots[op.slot];
  AwaitTurn(slot, op.turn);
  if (op.kind == Kind::kFree) {
    std::free(slot.object);
    slot.object = nullptr;
  } else {
    void* object = op.kind == Kind::kReallocate ? std::realloc(slot.object, op.size) : New(op);
    if (object == nullptr && op.size > 0)
      bench::Fail("an allocation returned NULL; run with more memory");
    Write(object, WrittenOf(op));
    slot.object = object;
  }
  slot.turn.store(op.turn + 1, std::memory_order_release);
}

void Start(uint32_t thread);

void RunOperations(const replay::Thread& thread) {
  Operation buffer[kBuffered];
  uint64_t at = thread.begin;
  for (uint64_t done = 0; done < thread.operations;) {
    size_t count = std::min<uint64_t>(kBuffered, thread.operations - done);
    ReadAt(buffer, count * sizeof(Operation), thread.offset + done * sizeof(Operation));
    for (size_t i = 0; i < count; ++i) {
      at += buffer[i].delay;
      if (g.paced) AwaitTime(at * 100);
      if (buffer[i].kind == Kind::kStart) {
        Start(buffer[i].slot);
      } else {
        Apply(buffer[i]);
      }
    }
    done += count;
  }
}

void* RunThread(void* thread) {
  RunOperations(*static_cast<replay::Thread*>(thread));
  g.running.fetch_sub(1, std::memory_order_release);
  return nullptr;
}

void Start(uint32_t thread) {
  g.running.fetch_add(1, std::memory_order_relaxed);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t id;
  if (pthread_create(&id, &attributes, RunThread, &g.threads[thread]) != 0) {
    bench::Fail("a thread could not be started; raise the limit of processes");
  }
  pthread_attr_destroy(&attributes);
}

// Reads RSS every few milliseconds, from a file that is already open, and keeps its course.
class Sampler {
 public:
  Sampler() : file_(open("/proc/self/statm", O_RDONLY | O_CLOEXEC)), start_(bench::Now()) {
    if (file_ < 0 || pthread_create(&thread_, nullptr, Run, this) != 0)
      bench::Fail("RSS cannot be sampled");
  }
  // The mean over time, of bytes that are not the program's own.
  double Stop() {
    stop_.store(true);
    pthread_join(thread_, nullptr);
    close(file_);
    return sum_ / static_cast<double>(samples_);
  }
  void ReportCourse() {
    for (size_t i = 0; i < used_; ++i)
      bench::ReportPoint("RSS", course_[i].seconds, course_[i].rss);
  }

 private:
  struct Point {
    double seconds, rss;
  };
  static constexpr size_t kPoints = 2048;

  static void* Run(void* self) {
    auto* sampler = static_cast<Sampler*>(self);
    do {
      sampler->Sample();
      bench::Sleep(0.005);
    } while (!sampler->stop_.load());
    return nullptr;
  }
  void Sample() {
    char text[128];
    ssize_t length = pread(file_, text, sizeof text - 1, 0);
    if (length <= 0) return;
    text[length] = '\0';
    const char* resident = std::strchr(text, ' ');
    if (resident == nullptr) return;
    double rss = static_cast<double>(std::strtoull(resident, nullptr, 10)) *
                     static_cast<double>(sysconf(_SC_PAGESIZE)) -
                 static_cast<double>(bench::mapped_bytes);
    sum_ += rss;
    if (samples_++ % every_ == 0) Keep({bench::Now() - start_, rss});
  }
  // Of a long replay, every second point, then every fourth, and so on.
  void Keep(Point point) {
    if (used_ == kPoints) {
      for (used_ = 0; used_ < kPoints / 2; ++used_) course_[used_] = course_[2 * used_];
      every_ *= 2;
    }
    course_[used_++] = point;
  }

  int file_;
  pthread_t thread_;
  std::atomic<bool> stop_{false};
  double start_;
  double sum_ = 0;
  size_t samples_ = 0;
  bench::Mapped<Point> course_{kPoints};
  size_t used_ = 0, every_ = 1;
};

const char* PlanOf(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "plan=", 5) == 0) return argv[i] + 5;
  }
  bench::Fail("say which plan to replay: plan=FILE, which `granary replay` writes");
}

replay::Header Open(const char* path) {
  g.file = open(path, O_RDONLY | O_CLOEXEC);
  if (g.file < 0) bench::Fail("the plan cannot be opened");
  replay::Header header;
  ReadAt(&header, sizeof header, 0);
  if (std::memcmp(header.magic, replay::kMagic, sizeof header.magic) != 0)
    bench::Fail("the file is no plan");
  if (header.version != replay::kVersion)
    bench::Fail("the plan has another version; build replay again");
  return header;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  replay::Header header = Open(PlanOf(argc, argv));
  bench::Mapped<Slot> slots(std::max<size_t>(header.slots, 1));
  bench::Mapped<replay::Thread> threads(std::max<size_t>(header.threads, 1));
  ReadAt(threads.begin(), header.threads * sizeof(replay::Thread), sizeof header);
  g.threads = threads.begin();
  g.slots = slots.begin();
  g.touch = static_cast<Touch>(std::min<size_t>(args.Get("touch", 1), 2));
  g.first = args.Get("first", SIZE_MAX);
  g.paced = args.Get("paced", 0) != 0;
  Sampler sampler;
  g.start_ns = NowNs();
  RunOperations(threads[0]);
  while (g.running.load(std::memory_order_acquire) != 0) bench::Sleep(100e-6);
  auto nanoseconds = static_cast<double>(NowNs() - g.start_ns);
  double mean = sampler.Stop();
  bench::Report("replay", nanoseconds * 1e-9, "s");
  bench::Report("RSS_peak",
                static_cast<double>(bench::PeakRss() - bench::mapped_bytes) / bench::kMiB, "MiB");
  bench::Report("RSS_mean", mean / bench::kMiB, "MiB");
  bench::Report("RSS_end", bench::OwnMiB(), "MiB");
  sampler.ReportCourse();
}
