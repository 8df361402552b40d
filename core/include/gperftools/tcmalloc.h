/* gperftools' names of the malloc family, implemented by Granary. */
#ifndef GRANARY_GPERFTOOLS_TCMALLOC_H
#define GRANARY_GPERFTOOLS_TCMALLOC_H

#include <malloc.h>
#include <stddef.h>
#ifdef __cplusplus
#include <new>
#endif

#define TC_VERSION_MAJOR 2
#define TC_VERSION_MINOR 18
#define TC_VERSION_PATCH ".1"
#define TC_VERSION_STRING "gperftools 2.18.1"

/* Redis and Valkey define this name just before they include this header, and print it as
 * mem_allocator in INFO. */
#ifdef ZMALLOC_LIB
#undef ZMALLOC_LIB
#define ZMALLOC_LIB "granary(tcmalloc-2.18)"
#endif

#ifndef PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL
#endif

#ifdef __cplusplus
#define PERFTOOLS_NOTHROW noexcept
extern "C" {
#else
#define PERFTOOLS_NOTHROW
#endif

/* Stores the version of this interface. Returns a text that names Granary. Each pointer may be
 * NULL. */
const char* tc_version(int* major, int* minor, const char** patch) PERFTOOLS_NOTHROW;

void* tc_malloc(size_t size) PERFTOOLS_NOTHROW;
void* tc_malloc_skip_new_handler(size_t size) PERFTOOLS_NOTHROW;
void tc_free(void* ptr) PERFTOOLS_NOTHROW;
void tc_free_sized(void* ptr, size_t size) PERFTOOLS_NOTHROW;
void tc_free_aligned_sized(void* ptr, size_t align, size_t size) PERFTOOLS_NOTHROW;
void* tc_realloc(void* ptr, size_t size) PERFTOOLS_NOTHROW;
void* tc_calloc(size_t nmemb, size_t size) PERFTOOLS_NOTHROW;
void tc_cfree(void* ptr) PERFTOOLS_NOTHROW;
void* tc_memalign(size_t alignment, size_t size) PERFTOOLS_NOTHROW;
int tc_posix_memalign(void** ptr, size_t align, size_t size) PERFTOOLS_NOTHROW;
void* tc_valloc(size_t size) PERFTOOLS_NOTHROW;
void* tc_pvalloc(size_t size) PERFTOOLS_NOTHROW;
void tc_malloc_stats(void) PERFTOOLS_NOTHROW;
int tc_mallopt(int cmd, int value) PERFTOOLS_NOTHROW;
#if defined(__GLIBC__)
struct mallinfo tc_mallinfo(void) PERFTOOLS_NOTHROW;
#if __GLIBC_PREREQ(2, 33)
struct mallinfo2 tc_mallinfo2(void) PERFTOOLS_NOTHROW;
#endif
#endif

/* Returns the usable bytes of the object or block at ptr. */
size_t tc_malloc_size(void* ptr) PERFTOOLS_NOTHROW;
/* Returns what tc_malloc_size would return for a new object of `size` bytes. */
size_t tc_nallocx(size_t size, int flags) PERFTOOLS_NOTHROW;
size_t nallocx(size_t size, int flags) PERFTOOLS_NOTHROW;

/* With flag 1, malloc calls the C++ new handler when an allocation fails. Returns the previous
 * flag. */
int tc_set_new_mode(int flag) PERFTOOLS_NOTHROW;
int tc_query_new_mode(void) PERFTOOLS_NOTHROW;

#ifdef __cplusplus
void* tc_new(size_t size);
void* tc_new_nothrow(size_t size, const std::nothrow_t&) PERFTOOLS_NOTHROW;
void tc_delete(void* p) PERFTOOLS_NOTHROW;
void tc_delete_sized(void* p, size_t size) PERFTOOLS_NOTHROW;
void tc_delete_nothrow(void* p, const std::nothrow_t&) PERFTOOLS_NOTHROW;
void* tc_newarray(size_t size);
void* tc_newarray_nothrow(size_t size, const std::nothrow_t&) PERFTOOLS_NOTHROW;
void tc_deletearray(void* p) PERFTOOLS_NOTHROW;
void tc_deletearray_sized(void* p, size_t size) PERFTOOLS_NOTHROW;
void tc_deletearray_nothrow(void* p, const std::nothrow_t&) PERFTOOLS_NOTHROW;
#if defined(__cpp_aligned_new)
void* tc_new_aligned(size_t size, std::align_val_t al);
void* tc_new_aligned_nothrow(size_t size, std::align_val_t al,
                             const std::nothrow_t&) PERFTOOLS_NOTHROW;
void tc_delete_aligned(void* p, std::align_val_t al) PERFTOOLS_NOTHROW;
void tc_delete_sized_aligned(void* p, size_t size, std::align_val_t al) PERFTOOLS_NOTHROW;
void tc_delete_aligned_nothrow(void* p, std::align_val_t al,
                               const std::nothrow_t&) PERFTOOLS_NOTHROW;
void* tc_newarray_aligned(size_t size, std::align_val_t al);
void* tc_newarray_aligned_nothrow(size_t size, std::align_val_t al,
                                  const std::nothrow_t&) PERFTOOLS_NOTHROW;
void tc_deletearray_aligned(void* p, std::align_val_t al) PERFTOOLS_NOTHROW;
void tc_deletearray_sized_aligned(void* p, size_t size, std::align_val_t al) PERFTOOLS_NOTHROW;
void tc_deletearray_aligned_nothrow(void* p, std::align_val_t al,
                                    const std::nothrow_t&) PERFTOOLS_NOTHROW;
#endif
}
#endif

#endif
