/* jemalloc's interface, implemented by Granary: the functions without a prefix and with the
 * prefixes je_ and _rjem_, the same flag values, and the extent hooks. docs/reference/jemalloc.md
 * explains each name of mallctl. */
#ifndef GRANARY_JEMALLOC_JEMALLOC_H
#define GRANARY_JEMALLOC_JEMALLOC_H

#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#define JEMALLOC_VERSION "5.3.1-0-g0"
#define JEMALLOC_VERSION_MAJOR 5
#define JEMALLOC_VERSION_MINOR 3
#define JEMALLOC_VERSION_BUGFIX 1
#define JEMALLOC_VERSION_NREV 0
#define JEMALLOC_VERSION_GID "0"
#define JEMALLOC_VERSION_GID_IDENT 0

/* Redis and Valkey define this name just before they include this header, and print it as
 * mem_allocator in INFO. */
#ifdef ZMALLOC_LIB
#undef ZMALLOC_LIB
#define ZMALLOC_LIB "granary(jemalloc-5.3.1)"
#endif

/* Redis builds its active defragmentation when it finds this. */
#define JEMALLOC_FRAG_HINT

#define MALLOCX_LG_ALIGN(la) ((int)(la))
#if INTPTR_MAX == INT32_MAX
#define MALLOCX_ALIGN(a) ((int)(ffs((int)(a)) - 1))
#else
#define MALLOCX_ALIGN(a)                                     \
  ((int)(((size_t)(a) < (size_t)INT_MAX) ? ffs((int)(a)) - 1 \
                                         : ffs((int)(((size_t)(a)) >> 32)) + 31))
#endif
#define MALLOCX_ZERO ((int)0x40)
#define MALLOCX_TCACHE(tc) ((int)(((tc) + 2) << 8))
#define MALLOCX_TCACHE_NONE MALLOCX_TCACHE(-1)
#define MALLOCX_ARENA(a) ((((int)(a)) + 1) << 20)
#define MALLCTL_ARENAS_ALL 4096
#define MALLCTL_ARENAS_DESTROYED 4097

/* Programs such as RocksDB and folly declare these functions again, weakly, with these macros in
 * these positions. The macros therefore have jemalloc's positions here, and only the functions of
 * the C library's malloc family have an exception specification. */
#define JEMALLOC_HAVE_ATTR
#define JEMALLOC_HAVE_ATTR_ALLOC_SIZE
#define JEMALLOC_USE_CXX_THROW
#define JEMALLOC_ATTR(s) __attribute__((s))
#define JEMALLOC_ALIGNED(s) JEMALLOC_ATTR(aligned(s))
#define JEMALLOC_ALLOC_SIZE(s) JEMALLOC_ATTR(alloc_size(s))
#define JEMALLOC_ALLOC_SIZE2(s1, s2) JEMALLOC_ATTR(alloc_size(s1, s2))
#define JEMALLOC_NOINLINE JEMALLOC_ATTR(noinline)
#define JEMALLOC_NOTHROW JEMALLOC_ATTR(nothrow)
#define JEMALLOC_SYS_NOTHROW JEMALLOC_NOTHROW
#define JEMALLOC_SECTION(s) JEMALLOC_ATTR(section(s))
#define JEMALLOC_EXPORT JEMALLOC_ATTR(visibility("default"))
#define JEMALLOC_RESTRICT_RETURN
#define JEMALLOC_USABLE_SIZE_CONST
#define JEMALLOC_ALLOCATOR
#ifdef __cplusplus
#define JEMALLOC_CXX_THROW noexcept(true)
extern "C" {
#else
#define JEMALLOC_CXX_THROW
#endif

typedef struct extent_hooks_s extent_hooks_t;
typedef void*(extent_alloc_t)(extent_hooks_t*, void*, size_t, size_t, bool*, bool*, unsigned);
typedef bool(extent_dalloc_t)(extent_hooks_t*, void*, size_t, bool, unsigned);
typedef void(extent_destroy_t)(extent_hooks_t*, void*, size_t, bool, unsigned);
typedef bool(extent_commit_t)(extent_hooks_t*, void*, size_t, size_t, size_t, unsigned);
typedef bool(extent_decommit_t)(extent_hooks_t*, void*, size_t, size_t, size_t, unsigned);
typedef bool(extent_purge_t)(extent_hooks_t*, void*, size_t, size_t, size_t, unsigned);
typedef bool(extent_split_t)(extent_hooks_t*, void*, size_t, size_t, size_t, bool, unsigned);
typedef bool(extent_merge_t)(extent_hooks_t*, void*, size_t, void*, size_t, bool, unsigned);

/* A hook returns true if it did not do what it was called for. Only alloc is required. */
struct extent_hooks_s {
  extent_alloc_t* alloc;
  extent_dalloc_t* dalloc;
  extent_destroy_t* destroy;
  extent_commit_t* commit;
  extent_decommit_t* decommit;
  extent_purge_t* purge_lazy;
  extent_purge_t* purge_forced;
  extent_split_t* split;
  extent_merge_t* merge;
};

#define JEMALLOC_FUNCTIONS_(prefix)                                                               \
  extern const char* prefix##malloc_conf;                                                         \
  extern void (*prefix##malloc_message)(void*, const char*);                                      \
  void JEMALLOC_NOTHROW* prefix##mallocx(size_t size, int flags) JEMALLOC_ATTR(malloc)            \
      JEMALLOC_ALLOC_SIZE(1);                                                                     \
  void JEMALLOC_NOTHROW* prefix##rallocx(void* ptr, size_t size, int flags)                       \
      JEMALLOC_ALLOC_SIZE(2);                                                                     \
  size_t JEMALLOC_NOTHROW prefix##xallocx(void* ptr, size_t size, size_t extra, int flags);       \
  size_t JEMALLOC_NOTHROW prefix##sallocx(const void* ptr, int flags);                            \
  void JEMALLOC_NOTHROW prefix##dallocx(void* ptr, int flags);                                    \
  void JEMALLOC_NOTHROW prefix##sdallocx(void* ptr, size_t size, int flags);                      \
  size_t JEMALLOC_NOTHROW prefix##nallocx(size_t size, int flags);                                \
  int JEMALLOC_NOTHROW prefix##mallctl(const char* name, void* oldp, size_t* oldlenp, void* newp, \
                                       size_t newlen);                                            \
  int JEMALLOC_NOTHROW prefix##mallctlnametomib(const char* name, size_t* mibp, size_t* miblenp); \
  int JEMALLOC_NOTHROW prefix##mallctlbymib(const size_t* mib, size_t miblen, void* oldp,         \
                                            size_t* oldlenp, void* newp, size_t newlen);          \
  void JEMALLOC_NOTHROW prefix##malloc_stats_print(void (*write_cb)(void*, const char*),          \
                                                   void* cbopaque, const char* opts);             \
  void JEMALLOC_NOTHROW prefix##free_sized(void* ptr, size_t size);                               \
  void JEMALLOC_NOTHROW prefix##free_aligned_sized(void* ptr, size_t alignment, size_t size);

/* The malloc family with a prefix. <stdlib.h> and <malloc.h> declare it without a prefix. */
#define JEMALLOC_FAMILY_(prefix)                                                               \
  void* prefix##malloc(size_t size) JEMALLOC_CXX_THROW;                                        \
  void* prefix##calloc(size_t num, size_t size) JEMALLOC_CXX_THROW;                            \
  void* prefix##realloc(void* ptr, size_t size) JEMALLOC_CXX_THROW;                            \
  void prefix##free(void* ptr) JEMALLOC_CXX_THROW;                                             \
  void* prefix##aligned_alloc(size_t alignment, size_t size) JEMALLOC_CXX_THROW;               \
  int prefix##posix_memalign(void** memptr, size_t alignment, size_t size) JEMALLOC_CXX_THROW; \
  void* prefix##memalign(size_t alignment, size_t size) JEMALLOC_CXX_THROW;                    \
  void* prefix##valloc(size_t size) JEMALLOC_CXX_THROW;                                        \
  void* prefix##pvalloc(size_t size) JEMALLOC_CXX_THROW;                                       \
  size_t prefix##malloc_usable_size(JEMALLOC_USABLE_SIZE_CONST void* ptr) JEMALLOC_CXX_THROW;

JEMALLOC_FUNCTIONS_()
JEMALLOC_FUNCTIONS_(je_)
JEMALLOC_FUNCTIONS_(_rjem_)
JEMALLOC_FAMILY_(je_)
JEMALLOC_FAMILY_(_rjem_)
#undef JEMALLOC_FUNCTIONS_
#undef JEMALLOC_FAMILY_

extern const char* malloc_conf_2_conf_harder;

#ifdef __cplusplus
}
#endif

#endif
