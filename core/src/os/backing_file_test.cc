#include "os/backing_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/fake_die.h"
#include "os/linux.h"

namespace granary {
namespace {

constexpr size_t kRegion = kTrackerBytes;

class BackingFileTest : public testing::Test {
 protected:
  void SetUp() override {
    Warnings().clear();
    ASSERT_NE(mkdtemp(folder_), nullptr);
    ASSERT_TRUE(BackingFile::Open((std::string(folder_) + "/heap").c_str())) << Warnings();
  }
  // The mapping and the descriptor stay until the process ends.
  void TearDown() override {
    backing_file = nullptr;
    EXPECT_EQ(rmdir(folder_), 0) << "the file has a name";
  }

  char* Committed(size_t regions) {
    auto* const p = static_cast<char*>(Linux::Reserve(regions * kRegion, kRegion, nullptr));
    EXPECT_TRUE(IsBacked(p));
    EXPECT_TRUE(Linux::Commit(p, regions * kRegion));
    return p;
  }

  // The status of a forked child that exits with 0 if `check` is true.
  template <class Check>
  int Forked(Check&& check) {
    backing_file->PrepareFork(true);
    const pid_t child = fork();
    backing_file->AfterFork(child == 0, true);
    if (child == 0) _exit(check() ? 0 : 1);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  char folder_[32] = "/tmp/granary-backing-XXXXXX";
};

TEST_F(BackingFileTest, CommittedMemoryIsZeroAndKeepsWhatIsWritten) {
  char* const p = Committed(2);
  EXPECT_EQ(AddressOf(p) % kRegion, 0u);
  EXPECT_EQ(p[0], 0);
  p[0] = 'a';
  p[2 * kRegion - 1] = 'z';
  char* const other = Committed(1);
  EXPECT_GE(other, p + 2 * kRegion);
  EXPECT_EQ(p[0], 'a');
  EXPECT_EQ(p[2 * kRegion - 1], 'z');
}

TEST_F(BackingFileTest, PurgedPagesReadAsZeroAndLeaveMemory) {
  char* const p = Committed(1);
  __builtin_memset(p, 1, kRegion);
  ASSERT_TRUE(Linux::Purge(p + kRegion / 2, kRegion / 2));
  unsigned char resident[kRegion / kMinOsPage];
  ASSERT_EQ(mincore(p + kRegion / 2, kRegion / 2, resident), 0);
  EXPECT_EQ(resident[0] & 1, 0);
  EXPECT_EQ(p[kRegion / 2], 0);
  EXPECT_EQ(p[kRegion - 1], 0);
  EXPECT_EQ(p[kRegion / 2 - 1], 1);
}

TEST_F(BackingFileTest, ReturnedSpaceIsGivenOutAgain) {
  char* const first = Committed(3);
  char* const second = Committed(1);
  first[0] = 1;
  Linux::Unmap(first, 3 * kRegion);
  EXPECT_EQ(Committed(2), first);
  EXPECT_EQ(first[0], 0);
  EXPECT_EQ(Committed(1), first + 2 * kRegion);
  Linux::Unmap(second, kRegion);
  EXPECT_EQ(Committed(1), second);
}

TEST_F(BackingFileTest, AForkHasACopy) {
  char* const p = Committed(3);
  p[0] = 1;
  p[2 * kRegion + 5] = 2;
  Linux::Purge(p + kRegion, kRegion);
  EXPECT_EQ(Forked([&] {
              const bool same = p[0] == 1 && p[kRegion] == 0 && p[2 * kRegion + 5] == 2;
              __builtin_memset(p, 7, 3 * kRegion);
              char* const more = static_cast<char*>(Linux::Reserve(kRegion, kRegion, nullptr));
              const bool grows = Linux::Commit(more, kRegion) && more[0] == 0;
              return same && grows;
            }),
            0);
  EXPECT_EQ(p[0], 1);
  EXPECT_EQ(p[2 * kRegion + 5], 2);
  EXPECT_EQ(p[kRegion], 0);
}

// Option hardened closes single pages, whose data may still be in the file.
TEST_F(BackingFileTest, AForkHasACopyOfAHeapWithClosedPages) {
  const size_t page = Linux::PageSize();
  char* const p = Committed(2);
  __builtin_memset(p, 5, 2 * kRegion);
  Linux::Decommit(p, page);
  Linux::Decommit(p + kRegion - page, page);
  Linux::Decommit(p + kRegion + page, page);
  ASSERT_TRUE(Linux::Commit(p + kRegion + page, page));
  Linux::Decommit(p + kRegion + 4 * page, page);
  EXPECT_EQ(Forked([&] {
              const bool same = p[page] == 5 && p[kRegion - page - 1] == 5 && p[kRegion] == 5 &&
                                p[kRegion + page] == 0 && p[2 * kRegion - 1] == 5;
              const bool closed = !Linux::IsReadable(p) && !Linux::IsReadable(p + kRegion - page) &&
                                  !Linux::IsReadable(p + kRegion + 4 * page);
              return same && closed;
            }),
            0);
}

TEST_F(BackingFileTest, AForkHasWhatTheProgramItselfProtected) {
  char* const p = Committed(1);
  __builtin_memset(p, 6, kRegion);
  ASSERT_EQ(mprotect(p + kRegion / 2, kRegion / 4, PROT_NONE), 0);
  EXPECT_EQ(Forked([&] {
              size_t same = 0;
              for (size_t i = 0; i < kRegion; ++i) same += p[i] == 6;
              return same == kRegion;
            }),
            0);
}

TEST_F(BackingFileTest, AForkWithoutACopySaysWhy) {
  Committed(1)[0] = 1;
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none{3, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  backing_file->PrepareFork(true);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_DEATH(backing_file->AfterFork(true, false), "too many files are open");
  backing_file->AfterFork(false, true);
}

TEST(BackingFile, SaysWhyItCannotBe) {
  Warnings().clear();
  EXPECT_FALSE(BackingFile::Open("/nonexistent/heap"));
  EXPECT_EQ(backing_file, nullptr);
  EXPECT_NE(std::string(Warnings()).find("there is no such folder"), std::string::npos);
}

}  // namespace
}  // namespace granary
