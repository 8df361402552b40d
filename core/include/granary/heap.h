/* Granary: scoped heaps. A heap holds the objects of one purpose - a request, a tenant, a plugin -
 * apart from all others: it counts them, refuses more than its cap, and when it is destroyed all of
 * its memory goes back to the system at once, whatever was still allocated.
 *
 * Threads: every function may be called from any thread at any time, also for one heap at once,
 * but not from a signal handler. Only granary_heap_reset and granary_heap_destroy need the heap for
 * themselves: no other call on it may run meanwhile, and none may follow a destruction. After a
 * fork the child has a copy of each heap.
 *
 * Objects of a heap are ordinary blocks to the malloc family: free, realloc (which keeps them in
 * their heap) and malloc_usable_size take them. The converse does not hold: what malloc returned is
 * none of a heap's. A heap has no caches, so a call costs more than malloc (docs/guides/heaps.md).
 */
#ifndef GRANARY_HEAP_H
#define GRANARY_HEAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct granary_heap granary_heap;

/* An empty heap. `name`, of which 31 bytes are kept, may be NULL; `cap` is explained at
 * granary_heap_set_cap. NULL with errno ENOMEM if the system refuses memory, or 4,094 heaps and
 * arenas exist. */
granary_heap* granary_heap_create(const char* name, size_t cap);

/* Frees every object and gives all memory of the heap back to the system, at a price that grows
 * with the runs of memory the heap was made of - dozens for gigabytes - and not with its objects.
 * NULL is allowed. */
void granary_heap_destroy(granary_heap* heap);

/* The same, but the heap stays, empty, with its name and cap. */
void granary_heap_reset(granary_heap* heap);

/* As malloc, calloc and aligned_alloc: NULL with errno ENOMEM when the cap or the system refuses,
 * with errno EINVAL when `alignment` is no power of two. The option abort_on_oom does not count
 * here. */
void* granary_heap_malloc(granary_heap* heap, size_t size);
void* granary_heap_calloc(granary_heap* heap, size_t count, size_t size);
void* granary_heap_aligned_alloc(granary_heap* heap, size_t alignment, size_t size);

/* As realloc: `p` is NULL or an object of this heap; with size 0 it is freed, and NULL returned. A
 * request that is refused leaves `p` as it was. */
void* granary_heap_realloc(granary_heap* heap, void* p, size_t size);

/* `p` is NULL or an object of this heap; anything else ends the program with a sentence. */
void granary_heap_free(granary_heap* heap, void* p);

/* The heap that `p` was allocated from; NULL if it is malloc's, or foreign. */
granary_heap* granary_heap_of(const void* p);

/* From now on the heap refuses what would bring the bytes of its objects, each counted as
 * malloc_usable_size does, above `cap`; 0 lifts the cap. What is allocated stays. Pages that
 * objects leave partly empty are not counted here but in `held`, see below. */
void granary_heap_set_cap(granary_heap* heap, size_t cap);

const char* granary_heap_name(const granary_heap* heap);

/* Gives the heap's free memory back to the system. */
void granary_heap_purge(granary_heap* heap);

struct granary_heap_figures {
  uint64_t live;    /* bytes of the objects that are allocated, as malloc_usable_size counts */
  uint64_t objects; /* how many they are */
  uint64_t held;    /* bytes of memory: objects, the free space beside them that may be resident,
                       and the structures that describe them */
  uint64_t cap;     /* 0 for none */
};

/* Measures the heap into the first `bytes` bytes of *figures (pass sizeof *figures; later versions
 * append members). Takes some microseconds. */
void granary_heap_measure(granary_heap* heap, struct granary_heap_figures* figures, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
