// dies: granary: free of an address that Granary did not allocate
// free of a pointer that was overwritten by a pattern.
#include "../check.h"

int main() { free(reinterpret_cast<void*>(HideSize(0x12345678abc0))); }
