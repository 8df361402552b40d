/* The C functions of gperftools' MallocExtension. docs/reference/tcmalloc.md lists the properties.
 */
#ifndef GRANARY_GPERFTOOLS_MALLOC_EXTENSION_C_H
#define GRANARY_GPERFTOOLS_MALLOC_EXTENSION_C_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define kMallocExtensionHistogramSize 64

/* Return 1. Abort with a misuse report if the heap is damaged. */
int MallocExtension_VerifyAllMemory(void);
int MallocExtension_VerifyNewMemory(const void* p);
int MallocExtension_VerifyArrayNewMemory(const void* p);
int MallocExtension_VerifyMallocMemory(const void* p);
/* Counts the live objects, their bytes, and the objects with 2^i to 2^(i+1)-1 bytes in
 * histogram[i]. Returns 1. */
int MallocExtension_MallocMemoryStats(int* blocks, size_t* total, int histogram[64]);
/* Writes a text of several lines, cut to `length` bytes including the terminating zero. */
void MallocExtension_GetStats(char* buffer, int length);
/* Return 1 if the property is known (for Set: if it can be set). Otherwise return 0 and leave
 * *value unchanged. */
int MallocExtension_GetNumericProperty(const char* property, size_t* value);
int MallocExtension_SetNumericProperty(const char* property, size_t value);
/* Without effect: caches belong to CPUs, and upkeep empties idle caches. */
void MallocExtension_MarkThreadIdle(void);
void MallocExtension_MarkThreadBusy(void);
void MallocExtension_MarkThreadTemporarilyIdle(void);
void MallocExtension_ReleaseToSystem(size_t num_bytes);
void MallocExtension_ReleaseFreeMemory(void);
/* 0: never purge; 1: purge after the default decay time; 10: after a tenth of it. */
void MallocExtension_SetMemoryReleaseRate(double rate);
double MallocExtension_GetMemoryReleaseRate(void);
size_t MallocExtension_GetEstimatedAllocatedSize(size_t size);
size_t MallocExtension_GetAllocatedSize(const void* p);
size_t MallocExtension_GetThreadCacheSize(void);

typedef enum {
  MallocExtension_kUnknownOwnership = 0,
  MallocExtension_kOwned = 1,
  MallocExtension_kNotOwned = 2
} MallocExtension_Ownership;
MallocExtension_Ownership MallocExtension_GetOwnership(const void* p);

#ifdef __cplusplus
}
#endif

#endif
