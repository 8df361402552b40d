#include <gtest/gtest.h>

#include "base/fake_die.h"
#include "unwind/unwind.h"

namespace granary::unwind {
namespace {

TEST(Walk, WritesNoMoreThanItMay) {
  uintptr_t frames[4] = {};
  Result result;
  EXPECT_EQ(Walk(Here(), frames, 0, &result), 0u);
  EXPECT_EQ(result.stop, Stop::kFull);
  EXPECT_EQ(frames[0], 0u);
}

}  // namespace
}  // namespace granary::unwind
