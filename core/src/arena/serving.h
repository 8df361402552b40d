// The arena that the thread's present call is for. It is a variable because the functions of Hooked
// are static.
#pragma once

namespace granary {

class Arena;

extern constinit __thread Arena* serving
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

class Serving {
 public:
  explicit Serving(Arena* arena) : before_(serving) { serving = arena; }
  ~Serving() { serving = before_; }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

 private:
  Arena* before_;  // a hook may allocate from another arena
};

}  // namespace granary
