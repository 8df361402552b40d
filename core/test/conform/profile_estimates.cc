// A program with known allocation sites. For each site, the estimates from sampling over 200 seeds
// deviate from the exact number as the theory of sampling predicts.
#include <malloc.h>
#include <math.h>

#include <utility>
#include <vector>

#include "../check.h"
#include "granary/profile.h"

#pragma weak granary_profile_start
#pragma weak granary_profile_stop
#pragma weak granary_profile_stack_at

namespace {

constexpr size_t kRate = 64 * 1024;
constexpr int kSeeds = 200;

// Each site is a function of its own, so that its address is in the stack.
struct Site {
  void* (*allocate)();
  size_t size, count, kept;
};

#define SITE(name, bytes)                                \
  __attribute__((noinline, aligned(256))) void* name() { \
    void* const p = Hide(malloc(bytes));                 \
    __asm__ volatile("" : : "r"(p) : "memory");          \
    return p;                                            \
  }
SITE(Tiny, 16)
SITE(Small, 200)
SITE(Middle, 3000)
SITE(Medium, 100000)
SITE(Large, 2000000)
#undef SITE

const Site kSites[] = {{Tiny, 16, 30000, 12000},
                       {Small, 200, 8000, 3000},
                       {Middle, 3000, 1000, 300},
                       {Medium, 100000, 30, 10},
                       {Large, 2000000, 3, 1}};
constexpr size_t kSiteCount = sizeof kSites / sizeof *kSites;

struct Estimate {
  double allocated = 0, live = 0;
};

size_t SiteOf(const granary_profile_stack& stack) {
  for (size_t k = 0; k < stack.depth; ++k) {
    for (size_t i = 0; i < kSiteCount; ++i) {
      const auto begin = reinterpret_cast<uintptr_t>(kSites[i].allocate);
      if (stack.frames[k] - begin < 256) return i;
    }
  }
  return kSiteCount;
}

void Run(uint64_t seed, Estimate* estimates) {
  std::vector<void*> kept;
  kept.reserve(20000);
  std::vector<void*> gone(64);
  CHECK(granary_profile_start(kRate, seed) == 0);
  for (const Site& site : kSites) {
    for (size_t i = 0; i < site.count; ++i) {
      void* const p = site.allocate();
      if (i < site.kept) {
        kept.push_back(p);
      } else {
        std::swap(gone[i % gone.size()], *kept.insert(kept.end(), p));
        free(kept.back());
        kept.pop_back();
      }
    }
    for (void*& p : gone) free(std::exchange(p, nullptr));
  }
  granary_profile_stack stack;
  for (size_t i = 0; granary_profile_stack_at(i, &stack, sizeof stack) == 0; ++i) {
    const size_t site = SiteOf(stack);
    if (site == kSiteCount) continue;
    estimates[site].allocated += stack.allocated.objects;
    estimates[site].live += stack.allocated.objects - stack.freed.objects;
  }
  granary_profile_stop();
  for (void* p : kept) free(p);
}

}  // namespace

int main() {
  if (&granary_profile_start == nullptr) SkipTest("this process does not run on Granary.");
  double sum[kSiteCount][2] = {}, mean[kSiteCount][2] = {};
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Estimate estimates[kSiteCount];
    Run(static_cast<uint64_t>(seed), estimates);
    for (size_t i = 0; i < kSiteCount; ++i) {
      const Site& site = kSites[i];
      void* const p = malloc(site.size);
      const double taken = static_cast<double>(malloc_usable_size(p));
      free(p);
      const double p_sample = -expm1(-taken / kRate);
      const double expected[2] = {static_cast<double>(site.count), static_cast<double>(site.kept)};
      const double found[2] = {estimates[i].allocated, estimates[i].live};
      for (int k = 0; k < 2; ++k) {
        // The number of samples is binomial, and each stands for 1 / p objects.
        const double variance = expected[k] * (1 - p_sample) / p_sample;
        const double off = found[k] - expected[k];
        sum[i][k] += variance > 1e-6 ? off * off / variance : off * off;
        mean[i][k] += found[k] / kSeeds;
      }
    }
  }
  for (size_t i = 0; i < kSiteCount; ++i) {
    for (int k = 0; k < 2; ++k) {
      printf("%7zu bytes, %s: mean of estimates %.1f, chi-squared %.1f\n", kSites[i].size,
             k == 0 ? "allocated" : "in use", mean[i][k], sum[i][k]);
      // With probability 99.99 %, a sum of 200 squared deviations is between 132 and 285. Where
      // every object is a sample there is no deviation.
      if (kSites[i].size >= 20 * kRate) {
        CHECK(sum[i][k] < 1);
      } else {
        CHECK(sum[i][k] > 132 && sum[i][k] < 285);
      }
    }
  }
  return 0;
}
