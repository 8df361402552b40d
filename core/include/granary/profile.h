/* Heap profiles of the calling process. The command `granary profile` does the same from outside
 * the process, for any process that runs on Granary, without a restart.
 *
 * While sampling is on, an allocation becomes a sample with probability 1 - exp(-size / rate):
 * about one sample per `rate` bytes. With a rate of 1, every allocation becomes a sample. Each
 * sample is scaled so that sums over samples estimate the sums over all allocations without bias.
 * An allocation that happened before sampling was switched on has no stack.
 *
 * A program may call every function from any thread, but not from a signal handler. No function
 * sets errno. */
#ifndef GRANARY_PROFILE_H
#define GRANARY_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Switches sampling on, with one sample per `rate` bytes on average. A `rate` of 0 stands for the
 * option prof_sample, a `seed` of 0 for a seed from the clock. Continues an existing profile.
 * Returns 0, or -1 if the system is out of memory or the caches of this process cannot be stopped.
 */
int granary_profile_start(size_t rate, uint64_t seed);

/* Stops taking samples, but still records when sampled objects are freed. */
void granary_profile_pause(void);

/* Deletes all samples. If sampling is on, it continues with an empty profile. Returns 0, or -1 if
 * the system is out of memory; sampling is then off. */
int granary_profile_reset(void);

/* Switches sampling off, deletes all samples and frees their memory. */
void granary_profile_stop(void);

/* Writes the profile to the file `path`, in the text format of gperftools' heap profiles, which
 * jeprof and google/pprof read. (mallctl("prof.dump") writes jemalloc's own format, which
 * google/pprof does not read.) Returns 0, or -1 if there is no profile or the file cannot be
 * written. */
int granary_profile_dump(const char* path);

/* An estimate of a set of objects, scaled from samples. */
struct granary_profile_amount {
  uint64_t samples; /* number of samples behind the estimate */
  double objects;
  uint64_t bytes;     /* bytes of the objects */
  uint64_t requested; /* bytes that the program requested */
};

/* The allocations of one stack. The objects in use are those in `allocated` less those in `freed`.
 */
struct granary_profile_stack {
  const uintptr_t* frames; /* return addresses, innermost first; valid until reset or stop */
  size_t depth;
  struct granary_profile_amount allocated, freed;
  struct granary_profile_amount temporary; /* part of `freed`: by the same thread within 1 ms */
  uint64_t peak_bytes;                     /* peak of the bytes in use */
};

/* Writes the stack with this index, from 0 on, to the first `bytes` bytes of *stack. Pass sizeof
 * *stack: later versions append members. Returns 0, or -1 if there is no such stack. */
int granary_profile_stack_at(size_t index, struct granary_profile_stack* stack, size_t bytes);

/* The sums over the whole profile. */
struct granary_profile_summary {
  uint64_t rate;
  int active; /* 1 while samples are taken */
  uint64_t stacks;
  uint64_t live_samples;
  uint64_t lost; /* samples that were not recorded: no memory was left, or a signal handler
                    allocated while the recorder was running */
  struct granary_profile_amount allocated, freed;
};

/* Writes the sums to the first `bytes` bytes of *summary. Pass sizeof *summary: later versions
 * append members. Returns 0, or -1 if there is no profile. */
int granary_profile_summarize(struct granary_profile_summary* summary, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
