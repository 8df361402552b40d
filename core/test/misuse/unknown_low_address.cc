// dies: granary: free of an address that Granary did not allocate
// free of a small number taken for a pointer.
#include "../check.h"

int main() { free(reinterpret_cast<void*>(HideSize(0x30))); }
