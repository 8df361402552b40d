// Guarded blocks: with option hardened, each object that is too large for a slab is a block with a
// page without access on either side. The object ends at the second one, but for its alignment. A
// freed block is purged, has no access at all, and waits in quarantine.
//
//   | guard | zeros | object | margin: 0xd6 ... | guard |
//
// A kernel before 6.13 has no guard pages: pages are protected instead. Each protected block takes
// mappings, of which a process may have 65,530; so their number is limited, and further blocks have
// no guards.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/misuse.h"
#include "hardened/quarantine.h"
#include "hardened/zeros.h"
#include "pages/pages.h"

namespace granary::hardened {

template <Os System>
class GuardedBlocks {
 public:
  static constexpr size_t kSlots = 32;
  // Larger blocks do not wait in quarantine: they would count as memory in use.
  static constexpr size_t kMostWaiting = kTrackerBytes;

  constexpr GuardedBlocks() = default;
  void Bind(PageHeap<System>& pages) noexcept {
    pages_ = &pages;
    quarantine_.Bind(slots_, kSlots);
  }

  // An object of `size` >= 1 bytes, all zero; `alignment` is a power of two. nullptr if the system
  // refuses.
  void* Allocate(size_t size, size_t alignment) noexcept { return Make(size, alignment, 0); }

  // The same, at the start of a page, with address space to grow to twice the size (Resize).
  void* AllocateToGrow(size_t size) noexcept { return Make(size, pages_->OsPage(), size); }

  // Changes the size of the object at p, where it stays; false if the space after it is taken, or
  // AllocateToGrow did not return it.
  bool Resize(void* p, size_t size) noexcept {
    Tracker* const block = BlockOf(p);
    const size_t page = pages_->OsPage();
    if (block == nullptr || OffsetIn(*block, p) != page || size > kMaxBlock - 2 * page)
      return false;
    const size_t before = block->bytes - page, after = page + RoundUp(size, page);
    if (after < before)
      MoveEnd(*block, before, after);  // as long as the pages after it are its own
    if (!pages_->ResizeLarge(block->base, page + size + page)) return false;
    if (after > before) MoveEnd(*block, before, after);
    FillMargin(*block, page, size);
    return true;
  }

  // The bytes of the object at p; 0 if no block holds p. Aborts if p is not the address of an
  // object in use; `verb` names the call.
  size_t SizeOf(const void* p, const char* verb) const noexcept {
    const Tracker* const block = BlockOf(p);
    if (block == nullptr) return 0;
    RequireObject(*block, block->object.load(std::memory_order_acquire), p, verb);
    return SizeIn(*block, OffsetIn(*block, p));
  }

  // Frees the object at p; SizeOf(p) is not 0.
  void Free(void* p) noexcept {
    if (Tracker* const block = BlockOf(p); block != nullptr) FreeIn(*block, p);
  }

 private:
  void FreeIn(Tracker& block, void* p) noexcept {
    uint32_t object = block.object.load(std::memory_order_acquire);
    RequireObject(block, object, p, "free");
    CheckEdges(block, static_cast<const char*>(p));
    if (!block.object.compare_exchange_strong(object, object | kFreed)) {
      RequireObject(block, object, p, "free");  // another thread freed it meanwhile
    }
    if (Close(block, (object & kProtected) != 0)) block.object.fetch_or(kPurged);
    if (block.bytes > kMostWaiting) return Release(block);
    void* const out = quarantine_.Exchange(block.base);
    if (out == nullptr) return;
    if (Tracker* const waited = pages_->BlockAt(out); waited != nullptr) Release(*waited);
  }

  static constexpr size_t kStep = 16;  // alignment of every object
  static constexpr unsigned char kPattern = 0xd6;
  static constexpr size_t kMostEdge = 128;  // bytes beside an object that are checked
  static constexpr size_t kMostProtected = 8192;
  // In the word of the tracker, beside the offset of the object in its block.
  static constexpr uint32_t kFreed = 1u << 31, kProtected = 1u << 30, kPurged = 1u << 29;

  void* Make(size_t size, size_t alignment, size_t more) noexcept {
    const size_t page = pages_->OsPage();
    const size_t front = alignment <= page ? page : alignment < kTrackerBytes ? alignment : 0;
    if (size > kMaxBlock / 2 - page - front) return nullptr;
    const size_t bytes = front + size + page;
    const Memory memory = pages_->AllocateLarge(bytes, alignment, bytes + more);
    if (memory.p == nullptr) return nullptr;
    Tracker* const head = pages_->BlockAt(memory.p);
    if (head == nullptr) return nullptr;
    Tracker& block = *head;
    const uint32_t enclosed = Enclose(block, front, memory.Zero()) ? kProtected : 0;
    const size_t end = block.bytes - page, step = alignment < kStep ? kStep : alignment;
    const size_t offset = alignment <= page ? end - RoundUp(size, step) : front;
    FillMargin(block, offset, size);
    block.object.store(static_cast<uint32_t>(offset) | enclosed, std::memory_order_release);
    return block.base + offset;
  }

  static size_t MarginOf(size_t from, size_t end) noexcept {
    return end - from < kMostEdge ? end - from : kMostEdge;
  }
  Tracker* BlockOf(const void* p) const noexcept {
    return pages_->BlockAt(reinterpret_cast<void*>(RoundDown(AddressOf(p), kTrackerBytes)));
  }
  static size_t OffsetIn(const Tracker& block, const void* p) noexcept {
    return static_cast<size_t>(static_cast<const char*>(p) - block.base);
  }
  // The bytes before the pages of the object: one page, or what its alignment requires.
  size_t FrontIn(size_t offset) const noexcept {
    const size_t page = pages_->OsPage();
    return offset >= 2 * page ? offset : offset >= page ? page : 0;
  }
  size_t SizeIn(const Tracker& block, size_t offset) const noexcept {
    return block.requested - FrontIn(offset) - pages_->OsPage();
  }

  static void RequireObject(const Tracker& block, uint32_t object, const void* p,
                            const char* verb) noexcept {
    const size_t offset = object & ~(kFreed | kProtected | kPurged);
    if (OffsetIn(block, p) != offset) Die(MisuseReport{Misuse::kUnaligned, verb, p, 0, 0});
    if ((object & kFreed) != 0) Die(MisuseReport{Misuse::kDoubleFree, verb, p, 0, 0});
  }

  void FillMargin(const Tracker& block, size_t offset, size_t size) const noexcept {
    char* const end = block.base + offset + size;
    __builtin_memset(end, kPattern, MarginOf(offset + size, block.bytes - pages_->OsPage()));
  }

  // Aborts if the bytes on either side of the object, inside its pages, were written to.
  void CheckEdges(const Tracker& block, const char* p) const noexcept {
    const size_t offset = OffsetIn(block, p), size = SizeIn(block, offset);
    const size_t margin = MarginOf(offset + size, block.bytes - pages_->OsPage());
    for (size_t i = 0; i < margin; ++i) {
      if (static_cast<unsigned char>(p[size + i]) != kPattern)
        Die(MisuseReport{Misuse::kWrittenBeyond, "free", p, size, 0});
    }
    const size_t before = MarginOf(FrontIn(offset), offset);
    for (size_t i = 1; i <= before; ++i) {
      if (p[-static_cast<ptrdiff_t>(i)] != 0)
        Die(MisuseReport{Misuse::kWrittenBefore, "free", p, size, 0});
    }
  }

  // Makes the pages between the guards accessible and zero; true if guards are protected pages.
  bool Enclose(const Tracker& block, size_t front, bool zero) noexcept {
    const size_t page = pages_->OsPage(), end = block.bytes - page;
    if (block.guarded) {
      System::Unguard(block.base + front, end - front);
      const char* const last = block.base + end;
      if (!pages_->IsGuarded(last)) System::Guard(block.base + end, page);
    }
    if (!zero) PurgeOrClear<System>(block.base, block.bytes);
    if (block.guarded || protected_.fetch_add(1) >= kMostProtected) {
      if (!block.guarded) protected_.fetch_sub(1);
      return false;
    }
    if (front > 0) System::Decommit(block.base, front);
    System::Decommit(block.base + end, page);
    return true;
  }

  // Moves the second guard from offset `from` to `to`, after the block was resized.
  void MoveEnd(Tracker& block, size_t from, size_t to) noexcept {
    const size_t page = pages_->OsPage();
    const bool is_protected = (block.object.load(std::memory_order_relaxed) & kProtected) != 0;
    if (is_protected && from != to) {
      System::Commit(block.base + from, page);
      System::Decommit(block.base + to, page);
    }
    if (!block.guarded) return;
    if (to > from) System::Unguard(block.base + from, to - from);
    System::Guard(block.base + to, (to < from ? from - to : 0) + page);
  }

  // Takes the pages of a freed object away. True if a guard did, which leaves nothing to purge.
  bool Close(const Tracker& block, bool is_protected) noexcept {
    if (block.guarded && System::Guard(block.base, block.bytes)) return true;
    if (is_protected) System::Commit(block.base, block.bytes);
    PurgeOrClear<System>(block.base, block.bytes);
    if (is_protected) System::Decommit(block.base, block.bytes);
    return false;
  }

  // The system may refuse to give protected pages back; they are lost then.
  void Release(Tracker& block) noexcept {
    const uint32_t object = block.object.load(std::memory_order_relaxed);
    if ((object & kProtected) != 0) {
      if (!System::Commit(block.base, block.bytes)) return;
      protected_.fetch_sub(1);
    }
    block.object.store(0, std::memory_order_relaxed);
    (object & kPurged) != 0 ? pages_->FreePurgedLarge(block.base)
                            : pages_->FreeLarge(block.base, true);
  }

  PageHeap<System>* pages_ = nullptr;
  Quarantine quarantine_;
  std::atomic<void*> slots_[kSlots] = {};
  std::atomic<size_t> protected_{0};
};

}  // namespace granary::hardened
