// What releases of the kernel do wrong.
#pragma once

#include <initializer_list>

namespace granary {

// Whether an arm64 kernel of this release restarts the critical section of a thread that it
// preempted. From 6.19 to 7.0 it did so only if the thread came back on another CPU, and two
// threads popped one pointer. Later releases, and some builds of 7.0, are mended.
constexpr bool RestartsPreempted(const char* release) {
  for (const char* bad : {"6.19", "7.0"}) {
    const char* at = release;
    while (*bad != 0 && *at == *bad) ++at, ++bad;
    if (*bad == 0 && (*at < '0' || *at > '9')) return false;
  }
  return true;
}

}  // namespace granary
