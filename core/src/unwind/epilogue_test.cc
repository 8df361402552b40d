#include "unwind/epilogue.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "base/fake_die.h"
#include "unwind/unwind.h"

namespace granary::unwind {
namespace {

#if defined(__x86_64__)
constexpr size_t kPage = 4096;

// A page of code that calls the function that it is called with.
class Code {
 public:
  explicit Code(std::initializer_list<uint8_t> bytes)
      : page_(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(page_));
    mprotect(page_, kPage, PROT_READ | PROT_EXEC);
  }
  ~Code() { munmap(page_, kPage); }
  bool Holds(uintptr_t pc) const { return pc - reinterpret_cast<uintptr_t>(page_) < kPage; }
  uintptr_t at() const { return reinterpret_cast<uintptr_t>(page_); }
  void Call(void (*function)()) const { reinterpret_cast<void (*)(void (*)())>(page_)(function); }

 private:
  void* page_;
};

uintptr_t g_frames[64];
size_t g_count;
Result g_how;

__attribute__((noinline)) void TakeStack() {
  g_count = Walk(Here(), g_frames, std::size(g_frames), &g_how);
}

void ExpectWholeThrough(const Code& code) {
  code.Call(TakeStack);
  EXPECT_EQ(g_how.stop, Stop::kOutermost);
  EXPECT_FALSE(g_how.guessed);
  ASSERT_GT(g_count, 3u);
  EXPECT_EQ(
      std::count_if(g_frames, g_frames + g_count, [&](uintptr_t pc) { return code.Holds(pc); }), 1);
}

TEST(Epilogue, OfTheCodeThatPythonGeneratesForPerf) {
  // sub $8, %rsp; call *%rdi; add $8, %rsp; ret
  ExpectWholeThrough(Code({0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3}));
}

TEST(Epilogue, OfAFrameWithAFramePointer) {
  // Scoped heaps next to the sanitizer's malloc: threads that share a heap, and threads that create
  // and destroy heaps, while other threads read what the heaps hold.
  ExpectWholeThrough(Code({0x55, 0xff, 0xd7, 0x5d, 0xc3}));
}

TEST(Epilogue, IsNotFoundInOtherCode) {
  Rule rule;
  const Code other({0x48, 0x83, 0xc4, 0x08, 0x90, 0x48, 0x83, 0xc4, 0xf8, 0xc3, 0x5d, 0x90});
  for (uintptr_t i = 0; i < 12; ++i) EXPECT_FALSE(FindEpilogue(other.at() + i, &rule));
  EXPECT_FALSE(FindEpilogue(8, &rule));
}
#endif

}  // namespace
}  // namespace granary::unwind
