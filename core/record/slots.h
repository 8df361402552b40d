// The slots through which the modules of a process call malloc and its kin.
#pragma once

namespace granary::record {

// Leads the calls of all modules that are loaded to the recorder, which calls what they called
// before. False: no module calls any of them through a slot.
bool RedirectCalls();

}  // namespace granary::record
