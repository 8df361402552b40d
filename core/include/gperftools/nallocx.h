/* nallocx and its flag as gperftools declares them. */
#ifndef GRANARY_GPERFTOOLS_NALLOCX_H
#define GRANARY_GPERFTOOLS_NALLOCX_H

#include <gperftools/tcmalloc.h>

#define MALLOCX_LG_ALIGN(la) ((int)(la))

#endif
