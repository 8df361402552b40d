// dies: granary: free of an address that Granary did not allocate
// free of a string literal.
#include "../check.h"

int main() { free(Hide("granary")); }
