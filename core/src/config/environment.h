// Reads environment variables without getenv, whose pages of the C library would become resident in
// every process that starts under Granary.
#pragma once

namespace granary {

// Returns the environment variable `name`, or nullptr if it is not set or if the program has more
// rights than its caller (setuid).
const char* Environment(const char* name) noexcept;

}  // namespace granary
