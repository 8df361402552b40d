#include "unwind/module_rows.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/fake_die.h"
#include "unwind/cfi.h"

namespace granary::unwind {
namespace {

constexpr char kSeldomLoaded[] = "libBrokenLocale.so.1";

uintptr_t Here() { return reinterpret_cast<uintptr_t>(&Here); }

TEST(ModuleRows, FindTheModuleOfAnAddress) {
  const auto rows = std::make_unique<ModuleRows>();
  Tables tables;
  EXPECT_FALSE(rows->Find(Here(), &tables));
  EXPECT_TRUE(rows->Refresh());
  ASSERT_TRUE(rows->Find(Here(), &tables));
  EXPECT_LE(tables.begin, Here());
  EXPECT_GT(tables.end, Here());
  EXPECT_GT(tables.header, tables.begin);
  // The module's tables contain this function.
  EXPECT_EQ(FindRule(tables, Here()).kind, Rule::kStep);
  EXPECT_FALSE(rows->Find(8, &tables));
}

TEST(ModuleRows, ChangeOnlyWhenModulesDo) {
  const auto rows = std::make_unique<ModuleRows>();
  EXPECT_TRUE(rows->Refresh());
  EXPECT_FALSE(rows->Refresh());
  void* const handle = dlopen(kSeldomLoaded, RTLD_NOW);
  if (handle == nullptr) GTEST_SKIP() << "this system has no " << kSeldomLoaded;
  EXPECT_TRUE(rows->Refresh());
  dlclose(handle);
}

TEST(ModuleRows, AreWholeOrNotFoundWhileTheyChange) {
  const auto rows = std::make_unique<ModuleRows>();
  rows->Refresh();
  Tables own;
  ASSERT_TRUE(rows->Find(Here(), &own));
  std::atomic<bool> stop{false};
  std::thread loader([&rows, &stop] {
    for (int i = 0; i < 300; ++i) {
      void* const handle = dlopen(kSeldomLoaded, RTLD_NOW);
      rows->Refresh();
      if (handle != nullptr) dlclose(handle);
      rows->Refresh();
    }
    stop = true;
  });
  while (!stop) {
    Tables tables;
    if (!rows->Find(Here(), &tables)) continue;
    ASSERT_EQ(tables.begin, own.begin);
    ASSERT_EQ(tables.end, own.end);
    ASSERT_EQ(tables.header, own.header);
  }
  loader.join();
}

}  // namespace
}  // namespace granary::unwind
