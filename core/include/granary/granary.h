/* Granary: what it offers beyond the malloc family of the C library.
 *
 * Conventions: all sizes are bytes; every function may be called from any thread, at any time after
 * the program started, but not from a signal handler; none of them sets errno unless it says so. */
#ifndef GRANARY_GRANARY_H
#define GRANARY_GRANARY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "granary 0.1.0": the version of the library that serves this process. Never fails. */
const char* granary_version(void);

/* The bytes that malloc(size) would really provide (malloc_usable_size of the result);
 * 0 if no block can be that large. Allocates nothing. */
size_t granary_good_size(size_t size);

/* Gives all free memory back to the system, now and in this thread, including what the caches of
 * idle CPUs hold. Returns the bytes given back. May take milliseconds for each GiB. */
size_t granary_release_free_memory(void);

/* Applies options, "name:value,name:value" (docs/reference/options.md). Returns 0, or -1 if a row
 * was wrong; wrong rows are named on stderr and change nothing. */
int granary_set_options(const char* options);

/* What granary_add_threshold calls: `held` bytes are in use, or free but still resident; `risen` is
 * 1 when they have reached the threshold, 0 when they have fallen below it again. */
typedef void (*granary_threshold_callback)(void* context, size_t held, int risen);

/* Has `callback` called each time the heap passes `bytes`, up or down, soon after it did: by a
 * thread that is in malloc, or by Granary's own. It may allocate and free, calls of callbacks do
 * not overlap, and it must not throw. Returns 0, or -1 if eight are there already. */
int granary_add_threshold(size_t bytes, granary_threshold_callback callback, void* context);

/* Undoes the call with the same callback and context, which may still be running in another thread.
 * Returns 0, or -1 if there is none. */
int granary_remove_threshold(granary_threshold_callback callback, void* context);

#ifdef __cplusplus
}
#endif

#endif
