// dies: granary: free of an address that Granary did not allocate
// free of a global variable.
#include "../check.h"

static long g_block[8];

int main() { free(Hide(g_block)); }
