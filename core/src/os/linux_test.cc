#include "os/linux.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <thread>

#include "base/fake_die.h"
#include "base/units.h"

namespace granary {
namespace {

constexpr size_t kPage = 4096;
constexpr uint64_t kLong = 60000;

// A page of a file, mapped twice: as the background thread maps it, and as another process does.
class RequestWord : public testing::Test {
 protected:
  RequestWord() {
    EXPECT_EQ(ftruncate(fileno(file_), kPage), 0);
    inside_ = Map(MAP_PRIVATE);
    outside_ = Map(MAP_SHARED);
  }
  ~RequestWord() override {
    munmap(inside_, kPage);
    munmap(outside_, kPage);
    fclose(file_);
  }

  void Wake() const { syscall(SYS_futex, outside_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

  FILE* file_ = tmpfile();
  uint32_t* inside_ = nullptr;
  uint32_t* outside_ = nullptr;
  std::atomic<uint32_t> word_{1}, requested_{0};

 private:
  uint32_t* Map(int flags) {
    void* const p = mmap(nullptr, kPage, PROT_READ, flags, fileno(file_), 0);
    EXPECT_NE(p, MAP_FAILED);
    return static_cast<uint32_t*>(p);
  }
};

TEST_F(RequestWord, WakesItsWaiter) {
  if (syscall(449, nullptr, 0, 0, nullptr, 0) < 0 && errno == ENOSYS) {
    GTEST_SKIP() << "this kernel cannot wait for two futexes in one call";
  }
  std::atomic<bool> woken{false};
  std::thread waiter([&] {
    woken = Linux::WaitForOrRequest(word_, 1, {inside_, 0}, {&requested_, 0}, kLong);
  });
  while (!woken) {
    Wake();
    std::this_thread::yield();
  }
  waiter.join();
}

TEST_F(RequestWord, IsNotNeededForTheWordToWake) {
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    EXPECT_FALSE(Linux::WaitForOrRequest(word_, 1, {inside_, 0}, {&requested_, 0}, kLong));
    done = true;
  });
  while (!done) {
    Linux::Wake(word_);
    std::this_thread::yield();
  }
  waiter.join();
}

TEST_F(RequestWord, ReturnsWhenTheWordHasChanged) {
  word_ = 2;
  EXPECT_FALSE(Linux::WaitForOrRequest(word_, 1, {inside_, 0}, {&requested_, 0}, kLong));
}

TEST_F(RequestWord, ReturnsWhenARequestHasArrived) {
  requested_ = 1;
  EXPECT_FALSE(Linux::WaitForOrRequest(word_, 1, {inside_, 0}, {&requested_, 0}, kLong));
}

TEST_F(RequestWord, ReturnsWhenTheTimeIsOver) {
  EXPECT_FALSE(Linux::WaitForOrRequest(word_, 1, {inside_, 0}, {&requested_, 0}, 1));
}

// Where the kernel refuses the call, the function must not spin: it waits for the word alone.
TEST_F(RequestWord, WhereItCannotBeReadTheOtherWordRemains) {
  void* const unreadable = mmap(nullptr, kMinOsPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(unreadable, MAP_FAILED);
  const auto* const nowhere = static_cast<const uint32_t*>(unreadable);
  word_ = 2;
  EXPECT_FALSE(Linux::WaitForOrRequest(word_, 1, {nowhere, 0}, {&requested_, 0}, kLong));
  word_ = 1;
  EXPECT_FALSE(Linux::WaitForOrRequest(word_, 1, {nowhere, 0}, {&requested_, 0}, kLong));
  munmap(unreadable, kMinOsPage);
}

TEST(LinuxFiles, AreReplacedWholeAndRemoved) {
  char path[64], temporary[80];
  snprintf(path, sizeof path, "/tmp/granary-linux-test.%d", getpid());
  snprintf(temporary, sizeof temporary, "%s.new", path);
  const FilePiece pieces[] = {{"one", 3}, {"two", 3}};
  ASSERT_TRUE(Linux::ReplaceFile(path, temporary, pieces, 2));
  ASSERT_TRUE(Linux::ReplaceFile(path, temporary, pieces, 1));
  char text[8] = {};
  FILE* const file = fopen(path, "r");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(fread(text, 1, sizeof text, file), 3u);
  EXPECT_STREQ(text, "one");
  fclose(file);
  EXPECT_NE(access(temporary, F_OK), 0);
  Linux::RemoveFile(path);
  EXPECT_NE(access(path, F_OK), 0);
  EXPECT_FALSE(Linux::ReplaceFile("/no/such/folder/a", "/no/such/folder/b", pieces, 1));
}

// The source is unmapped from its second region on. The kernel then refuses the move after it has
// unmapped the target, as older kernels do for other sources.
TEST(LinuxMemory, ARefusedMoveLeavesNoHole) {
  char* const from = static_cast<char*>(Linux::Map(2 * kTrackerBytes, kTrackerBytes, nullptr));
  char* const to = static_cast<char*>(Linux::Map(2 * kTrackerBytes, kTrackerBytes, nullptr));
  ASSERT_TRUE(from != nullptr && to != nullptr);
  from[0] = 1;
  to[kTrackerBytes] = 2;
  Linux::Unmap(from + kTrackerBytes, kTrackerBytes);
  EXPECT_EQ(Linux::MovePages(from, 2 * kTrackerBytes, to).bytes, kTrackerBytes);
  EXPECT_EQ(to[0], 1);
  EXPECT_EQ(from[0], 0);
  to[2 * kTrackerBytes - 1] = 3;
  Linux::Unmap(from, kTrackerBytes);
  Linux::Unmap(to, 2 * kTrackerBytes);
}

TEST(LinuxMemory, IsReadableOrNot) {
  char* const pages =
      static_cast<char*>(mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
  errno = 4711;
  EXPECT_TRUE(Linux::IsReadable(pages));
  EXPECT_TRUE(Linux::IsReadable(pages + 4088));
  EXPECT_FALSE(Linux::IsReadable(pages + 4096));
  for (const uintptr_t nowhere : {uintptr_t{0}, uintptr_t{8}, uintptr_t{1} << 56, ~uintptr_t{7}}) {
    EXPECT_FALSE(Linux::IsReadable(reinterpret_cast<const void*>(nowhere))) << nowhere;
  }
  EXPECT_EQ(errno, 4711);
  EXPECT_EQ(munmap(pages, 8192), 0);
  EXPECT_FALSE(Linux::IsReadable(pages));
}

}  // namespace
}  // namespace granary
