// Handlers of SIGSEGV that run before the program's own, and then pass the signal on to it. A
// program may install its handler later, call the handler that it replaced, or restore that one.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include "base/compiler.h"

namespace granary::fault_handlers {

// Called first, on each SIGSEGV.
using Inspect = void (*)(const siginfo_t& info, const ucontext_t& context);

// Puts a handler before the program's. One caller at a time.
GRANARY_COLD void Install(Inspect inspect) noexcept;
// Goes before a handler that the program installed later, once it has stayed for some calls: one
// that a probe of memory installs for a moment is left alone.
void StayFirst() noexcept;
// Takes the handler away; leaves one that the program has installed since.
GRANARY_COLD void Uninstall() noexcept;

}  // namespace granary::fault_handlers
