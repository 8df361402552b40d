/* The old place of gperftools/tcmalloc.h, where Redis still looks for it. */
#include <gperftools/tcmalloc.h>
