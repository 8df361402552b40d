/* Granary's own functions, beyond the malloc family of the C library.
 *
 * Conventions: all sizes are in bytes. A program may call every function from any thread at any
 * time, but not from a signal handler. No function sets errno unless its comment says so. */
#ifndef GRANARY_GRANARY_H
#define GRANARY_GRANARY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "granary 0.1.0": the version of the library that serves this process. Never fails. */
const char* granary_version(void);

/* Returns the size of the object that malloc(size) would return, as malloc_usable_size reports it,
 * or 0 if `size` is above the largest possible allocation. Allocates nothing. */
size_t granary_good_size(size_t size);

/* Purges all free memory, including the objects in the caches of idle CPUs, in the calling thread.
 * Returns the number of bytes purged. May take milliseconds per GiB of free memory. */
size_t granary_release_free_memory(void);

/* Applies options from "name:value,name:value" (docs/reference/options.md). Returns 0, or -1 if a
 * row is wrong. A wrong row changes nothing and is reported on stderr; the other rows are applied.
 */
int granary_set_options(const char* options);

/* The callback of granary_add_threshold. `held` is the number of bytes that are in use, or free but
 * still resident. `risen` is 1 when `held` has reached the threshold, 0 when it has fallen below
 * the threshold again. */
typedef void (*granary_threshold_callback)(void* context, size_t held, int risen);

/* Calls `callback` each time the held memory of the heap rises to `bytes` or falls below it, soon
 * after the change. The caller is a thread that is inside malloc, or Granary's background thread.
 * The callback may allocate and free, and must not throw. Callbacks never run concurrently. Returns
 * 0, or -1 if eight thresholds already exist. */
int granary_add_threshold(size_t bytes, granary_threshold_callback callback, void* context);

/* Removes the threshold with this callback and context. Another thread may still be running the
 * callback when this function returns. Returns 0, or -1 if there is no such threshold. */
int granary_remove_threshold(granary_threshold_callback callback, void* context);

#ifdef __cplusplus
}
#endif

#endif
