/* Granary: heap profiles, from within the process. The command `granary profile` does the same from
 * outside, to any process that runs on Granary, without a restart.
 *
 * While sampling is on, each allocation is a sample with probability 1 - exp(-size / rate), so
 * about one in `rate` bytes; at a rate of 1 every allocation is one. A sample stands for as many
 * objects as it takes for sums over samples to estimate all allocations without bias. What was
 * allocated before it was switched on has no stack.
 *
 * Every function may be called from any thread but not from a signal handler; none sets errno. */
#ifndef GRANARY_PROFILE_H
#define GRANARY_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Switches sampling on, one in `rate` bytes; a rate of 0 stands for the option prof_sample, a seed
 * of 0 for one from the clock. A profile that is there goes on. Returns 0, or -1 if the system
 * refuses memory or cannot stop the caches of this process. */
int granary_profile_start(size_t rate, uint64_t seed);

/* Takes no more samples, but goes on to see those freed that were taken. */
void granary_profile_pause(void);

/* Forgets what was collected, and collects anew if samples are taken. Returns 0, or -1 if the
 * system refuses memory: then sampling is off. */
int granary_profile_reset(void);

/* Switches sampling off, forgets what was collected and gives its memory back. */
void granary_profile_stop(void);

/* Writes the profile to a file, as text that jeprof and google/pprof read. (What
 * mallctl("prof.dump") writes is in jemalloc's own form, which pprof does not read.) Returns 0, or
 * -1 if there is no profile or the file cannot be written. */
int granary_profile_dump(const char* path);

/* An estimate of a set of objects. */
struct granary_profile_amount {
  uint64_t samples; /* that it rests on */
  double objects;
  uint64_t bytes;     /* that the objects take */
  uint64_t requested; /* that the program asked for */
};

/* What was allocated by one stack. In use is what was allocated less what was freed. */
struct granary_profile_stack {
  const uintptr_t* frames; /* return addresses, innermost first; valid until reset or stop */
  size_t depth;
  struct granary_profile_amount allocated, freed;
  struct granary_profile_amount temporary; /* of those freed: by their own thread within 1 ms */
  uint64_t peak_bytes;                     /* the most bytes in use */
};

/* The stack with this index, from 0 on, goes to the first `bytes` bytes of *stack (pass sizeof
 * *stack; later versions append members). Returns 0, or -1 if there is none. */
int granary_profile_stack_at(size_t index, struct granary_profile_stack* stack, size_t bytes);

/* The whole profile. */
struct granary_profile_summary {
  uint64_t rate;
  int active; /* samples are taken */
  uint64_t stacks;
  uint64_t live_samples;
  uint64_t lost; /* samples for which there was no room, or no moment to take them */
  struct granary_profile_amount allocated, freed;
};

/* Likewise. Returns 0, or -1 if nothing is collected. */
int granary_profile_summarize(struct granary_profile_summary* summary, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
