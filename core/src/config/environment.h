// The environment, read without the pages of the C library that getenv lies on: every process that
// is started under Granary would pay for them.
#pragma once

namespace granary {

// The environment variable `name`; nullptr if it is not set, or if the program runs with rights
// that its caller does not have.
const char* Environment(const char* name) noexcept;

}  // namespace granary
