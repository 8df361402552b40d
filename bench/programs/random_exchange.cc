// Random sizes over four decades, mostly small. Each thread frees partly its own objects and partly
// objects that other threads passed to it in lists: long and short lives, mixed across threads.
#include <atomic>

#include "bench.h"

namespace {

// Freed objects travel as a list linked through their first word, as in a message queue.
struct Link {
  Link* next;
};

class Mailbox {
 public:
  // False when the mailbox is full: a receiver that does not run must not make the heap grow.
  bool Send(Link* link) {
    if (waiting_.load(std::memory_order_relaxed) >= kMost) return false;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    link->next = head_.load(std::memory_order_relaxed);
    while (!head_.compare_exchange_weak(link->next, link, std::memory_order_acq_rel)) {
    }
    return true;
  }
  Link* TakeAll() {
    Link* all = head_.exchange(nullptr, std::memory_order_acq_rel);
    waiting_.store(0, std::memory_order_relaxed);
    return all;
  }

 private:
  static constexpr size_t kMost = 1000;
  alignas(64) std::atomic<Link*> head_{nullptr};
  std::atomic<size_t> waiting_{0};
};

size_t PickSize(bench::Random& random) {
  size_t roll = random.Below(1000);
  if (roll < 800) return random.Between(16, 256);
  if (roll < 970) return random.Between(257, 4096);
  if (roll < 998) return random.Between(4097, 32768);
  return random.Between(32769, 262144);
}

void FreeList(Link* link) {
  while (link != nullptr) std::free(std::exchange(link, link->next));
}

void Work(bench::Mapped<Mailbox>& mailboxes, size_t index, size_t steps, size_t live) {
  bench::Random random(index + 41);
  bench::Mapped<void*> blocks(live);
  for (size_t i = 0; i < steps; ++i) {
    void*& slot = blocks[random.Below(live)];
    size_t to = (index + 1 + random.Below(mailboxes.size() - 1)) % mailboxes.size();
    bool send = slot != nullptr && random.Below(2) == 0;
    if (!send || !mailboxes[to].Send(static_cast<Link*>(slot))) std::free(slot);
    slot = bench::Allocate(PickSize(random));
    *static_cast<char*>(slot) = 1;
    if (i % 256 == 0) FreeList(mailboxes[index].TakeAll());
  }
  for (void* block : blocks) std::free(block);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  size_t threads = std::max<size_t>(args.Get("threads", 4), 2);
  size_t steps = args.Get("steps", 4000000, 400000);
  size_t live = args.Get("live", 8000);
  bench::Mapped<Mailbox> mailboxes(threads);
  double seconds =
      bench::RunThreads(threads, [&](size_t index) { Work(mailboxes, index, steps, live); });
  for (Mailbox& mailbox : mailboxes) FreeList(mailbox.TakeAll());
  bench::Report("random_exchange", static_cast<double>(2 * threads * steps) / seconds * 1e-6,
                "Mops/s");
}
