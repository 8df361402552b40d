// dies: granary: free of an address that Granary did not allocate
// free of a pattern that no processor takes for an address.
#include "../check.h"

int main() { free(reinterpret_cast<void*>(HideSize(0xdeadbeefdeadbeef))); }
