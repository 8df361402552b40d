// A scoped heap (heap.h) as a std::pmr::memory_resource. A container with such a resource allocates
// from its heap. The destructor of the resource returns all memory of the heap to the system.
//
//   granary::memory_resource request("request", 64 << 20);
//   std::pmr::vector<std::pmr::string> words(&request);
//
// Threads may share a resource as they may share a heap. If the cap or the system refuses an
// allocation, allocate throws std::bad_alloc.
#ifndef GRANARY_MEMORY_RESOURCE_H
#define GRANARY_MEMORY_RESOURCE_H

#include <granary/heap.h>

#include <cstddef>
#include <memory_resource>
#include <new>

namespace granary {

class memory_resource : public std::pmr::memory_resource {
 public:
  // Creates a heap. `cap` is in bytes, 0 for no cap. Throws std::bad_alloc if the heap cannot be
  // created.
  explicit memory_resource(const char* name = nullptr, std::size_t cap = 0)
      : heap_(granary_heap_create(name, cap)), owned_(heap_) {
    if (heap_ == nullptr) throw std::bad_alloc();
  }
  // Uses the caller's heap, which must outlive the resource.
  explicit memory_resource(granary_heap* heap) noexcept : heap_(heap) {}
  ~memory_resource() override { granary_heap_destroy(owned_); }
  memory_resource(const memory_resource&) = delete;
  memory_resource& operator=(const memory_resource&) = delete;

  // Frees every object of the heap, also objects that were not allocated through this resource.
  void release() noexcept { granary_heap_reset(heap_); }
  granary_heap* heap() const noexcept { return heap_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* const p = alignment <= alignof(std::max_align_t)
                        ? granary_heap_malloc(heap_, bytes)
                        : granary_heap_aligned_alloc(heap_, alignment, bytes);
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }
  void do_deallocate(void* p, std::size_t, std::size_t) override { granary_heap_free(heap_, p); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    const auto* const same = dynamic_cast<const memory_resource*>(&other);
    return same != nullptr && same->heap_ == heap_;
  }

  granary_heap* heap_;
  granary_heap* owned_ = nullptr;
};

}  // namespace granary

#endif
