// Recording of a process that was started without the recorder. `granary record PID` loads this
// library into it and calls granary_record_attach (attach.cc).
#pragma once

namespace granary::record {

// The value of a setting: of the last granary_record_attach, or in the environment. nullptr: none.
const char* Setting(const char* name);
// Whether the library was loaded into a running process: it is behind the allocator then.
bool IsAttached();
// Whether the address is in this library.
bool IsOwn(const void* address);

}  // namespace granary::record
