// gperftools' class MallocExtension, for programs that call methods of instance(). Three methods do
// not fill the C++ objects that they are passed: GetHeapSample, GetHeapGrowthStacks and
// GetFreeListSizes. The class offers no stack traces, ranges or system allocators. A program cannot
// derive a class from it, because the library contains neither its virtual table nor its type
// information.
#ifndef GRANARY_GPERFTOOLS_MALLOC_EXTENSION_H
#define GRANARY_GPERFTOOLS_MALLOC_EXTENSION_H

#include <stddef.h>
#include <stdint.h>

#include <string>
#include <vector>

static const int kMallocHistogramSize = 64;

typedef std::string MallocExtensionWriter;

namespace base {
struct MallocRange;
}

class SysAllocator;

class MallocExtension {
 public:
  enum Ownership { kUnknownOwnership = 0, kOwned, kNotOwned };
  struct FreeListInfo {
    size_t min_object_size;
    size_t max_object_size;
    size_t total_bytes_free;
    const char* type;
  };
  typedef void(RangeFunction)(void*, const base::MallocRange*);

  static MallocExtension* instance();
  static void Initialize();
  static void Register(MallocExtension* implementation);

  // The virtual table has the methods in this order.
  virtual ~MallocExtension();
  virtual bool VerifyAllMemory();
  virtual bool VerifyNewMemory(const void* p);
  virtual bool VerifyArrayNewMemory(const void* p);
  virtual bool VerifyMallocMemory(const void* p);
  virtual bool MallocMemoryStats(int* blocks, size_t* total, int histogram[kMallocHistogramSize]);
  virtual void GetStats(char* buffer, int buffer_length);
  virtual void GetHeapSample(MallocExtensionWriter* writer);
  virtual void GetHeapGrowthStacks(MallocExtensionWriter* writer);
  virtual void Ranges(void* arg, RangeFunction func);
  virtual bool GetNumericProperty(const char* property, size_t* value);
  virtual bool SetNumericProperty(const char* property, size_t value);
  virtual void MarkThreadIdle();
  virtual void MarkThreadBusy();
  virtual SysAllocator* GetSystemAllocator();
  virtual void SetSystemAllocator(SysAllocator* a);
  virtual void ReleaseToSystem(size_t num_bytes);
  virtual void ReleaseFreeMemory();
  virtual void SetMemoryReleaseRate(double rate);
  virtual double GetMemoryReleaseRate();
  virtual size_t GetEstimatedAllocatedSize(size_t size);
  virtual size_t GetAllocatedSize(const void* p);
  virtual Ownership GetOwnership(const void* p);
  virtual void GetFreeListSizes(std::vector<FreeListInfo>* v);
  virtual void** ReadStackTraces(int* sample_period);
  virtual void** ReadHeapGrowthStackTraces();
  virtual size_t GetThreadCacheSize();
  virtual void MarkThreadTemporarilyIdle();
};

#endif
