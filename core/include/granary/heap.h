/* Granary's scoped heaps. A scoped heap holds the objects of one purpose - a request, a tenant, a
 * plugin - apart from all other objects. It reports how much memory they use, refuses allocations
 * above its cap, and purges all of its memory in one call when it is destroyed, whether or not the
 * objects were freed.
 *
 * Threads: a program may call every function from any thread at any time, also several functions on
 * one heap concurrently, but none from a signal handler. The exceptions are granary_heap_reset and
 * granary_heap_destroy: no other call on the heap may run concurrently with them, and no call on
 * the heap may follow granary_heap_destroy. After fork, the child has a copy of each heap.
 *
 * free, realloc and malloc_usable_size accept objects of a scoped heap; realloc keeps an object in
 * its heap. The converse does not hold: granary_heap_free and granary_heap_realloc accept no object
 * from malloc. A scoped heap has no caches, so a call takes longer than malloc
 * (docs/guides/heaps.md).
 */
#ifndef GRANARY_HEAP_H
#define GRANARY_HEAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct granary_heap granary_heap;

/* Creates an empty heap. `name` may be NULL; Granary keeps its first 31 bytes. For `cap`, read
 * granary_heap_set_cap. Returns NULL with errno ENOMEM if the system is out of memory, or if 4,094
 * heaps and arenas exist. */
granary_heap* granary_heap_create(const char* name, size_t cap);

/* Frees every object and returns all memory of the heap to the system. The time grows with the
 * number of address ranges that the heap consists of - dozens for gigabytes - and not with the
 * number of objects. `heap` may be NULL. */
void granary_heap_destroy(granary_heap* heap);

/* Frees every object, as granary_heap_destroy does, but keeps the heap with its name and cap. */
void granary_heap_reset(granary_heap* heap);

/* Allocate as malloc, calloc and aligned_alloc do. Return NULL with errno ENOMEM when the cap or
 * the system refuses the allocation, and NULL with errno EINVAL when `alignment` is not a power of
 * two. The option abort_on_oom does not apply here. */
void* granary_heap_malloc(granary_heap* heap, size_t size);
void* granary_heap_calloc(granary_heap* heap, size_t count, size_t size);
void* granary_heap_aligned_alloc(granary_heap* heap, size_t alignment, size_t size);

/* Resizes an object as realloc does. `p` is NULL or an object of this heap. With size 0, frees `p`
 * and returns NULL. If the allocation is refused, `p` stays valid and unchanged. */
void* granary_heap_realloc(granary_heap* heap, void* p, size_t size);

/* Frees `p`, which is NULL or an object of this heap. With any other pointer, aborts with a misuse
 * report. */
void granary_heap_free(granary_heap* heap, void* p);

/* Returns the heap that `p` was allocated from, or NULL if `p` is from malloc or unknown to
 * Granary. */
granary_heap* granary_heap_of(const void* p);

/* Sets the cap: the heap refuses an allocation that would bring the sum of its objects' sizes (as
 * malloc_usable_size reports them) above `cap` bytes. 0 removes the cap. Existing objects stay. The
 * cap does not include the free space on partly used pages; `held` below includes it. */
void granary_heap_set_cap(granary_heap* heap, size_t cap);

const char* granary_heap_name(const granary_heap* heap);

/* Purges the heap's free memory. */
void granary_heap_purge(granary_heap* heap);

struct granary_heap_figures {
  uint64_t live;    /* bytes of live objects, as malloc_usable_size reports them */
  uint64_t objects; /* number of live objects */
  uint64_t held;    /* bytes of memory: live objects, free space that may be resident, and the
                       heap's metadata */
  uint64_t cap;     /* bytes; 0 for no cap */
};

/* Writes the heap's figures to the first `bytes` bytes of *figures. Pass sizeof *figures: later
 * versions append members. Takes some microseconds. */
void granary_heap_measure(granary_heap* heap, struct granary_heap_figures* figures, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
