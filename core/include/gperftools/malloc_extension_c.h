/* The C functions of gperftools' MallocExtension. Properties are named in
 * docs/reference/tcmalloc.md. */
#ifndef GRANARY_GPERFTOOLS_MALLOC_EXTENSION_C_H
#define GRANARY_GPERFTOOLS_MALLOC_EXTENSION_C_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define kMallocExtensionHistogramSize 64

/* Return 1; a heap that is damaged ends the program with a sentence. */
int MallocExtension_VerifyAllMemory(void);
int MallocExtension_VerifyNewMemory(const void* p);
int MallocExtension_VerifyArrayNewMemory(const void* p);
int MallocExtension_VerifyMallocMemory(const void* p);
/* The objects that live, their bytes, and how many have 2^i to 2^(i+1)-1 bytes. */
int MallocExtension_MallocMemoryStats(int* blocks, size_t* total, int histogram[64]);
/* A text of several lines, cut to `length` with its zero. */
void MallocExtension_GetStats(char* buffer, int length);
/* 1 if the property is known (or, of Set, could be set), else 0 and *value stays as it was. */
int MallocExtension_GetNumericProperty(const char* property, size_t* value);
int MallocExtension_SetNumericProperty(const char* property, size_t value);
/* Without effect: caches belong to CPUs, and idle ones empty themselves. */
void MallocExtension_MarkThreadIdle(void);
void MallocExtension_MarkThreadBusy(void);
void MallocExtension_MarkThreadTemporarilyIdle(void);
void MallocExtension_ReleaseToSystem(size_t num_bytes);
void MallocExtension_ReleaseFreeMemory(void);
/* 0: never give memory back; 1: in the usual time; 10: ten times as fast. */
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
