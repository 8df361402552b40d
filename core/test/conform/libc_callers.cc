// Blocks that the C library allocates for the program: lines, strings, obstacks, streams in memory,
// in the main thread and in another. The heap must never be the C library's, which would move the
// program break.
#include <obstack.h>
#include <pthread.h>
#include <sys/mman.h>

#include <initializer_list>

#include "../child.h"

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

namespace {

const int kLengths[] = {0, 45, 80, 2, 8201, 0, 17};

void* g_first_break;

__attribute__((constructor)) void NoteBreak() { g_first_break = sbrk(0); }

void BreakIsWhereItWas() {
  if (!OnSystemHeap()) CHECK(sbrk(0) == g_first_break);
}

char LetterAt(int line, int column) { return static_cast<char>('A' + (line + column) % 26); }

void WriteLines(FILE* file) {
  for (int line = 0; line < 7; ++line) {
    for (int column = 0; column < kLengths[line]; ++column) fputc(LetterAt(line, column), file);
    fputc('\n', file);
  }
  CHECK(ferror(file) == 0);
  rewind(file);
}

// getline grows its buffer by realloc.
void GetlineReadsWhatWasWritten() {
  FILE* file = tmpfile();
  CHECK(file != nullptr);
  WriteLines(file);
  char* text = nullptr;
  size_t room = 0;
  for (int line = 0; line < 7; ++line) {
    CHECK(getline(&text, &room, file) == kLengths[line] + 1);
    for (int column = 0; column < kLengths[line]; ++column) {
      CHECK(text[column] == LetterAt(line, column));
    }
  }
  CHECK(getline(&text, &room, file) == -1);
  free(text);
  fclose(file);
}

void StringsOfTheLibraryAreFreed() {
  char* copy = strdup("a string that the C library allocates");
  CHECK(copy != nullptr && strlen(copy) == 37);
  free(copy);
  char* printed = nullptr;
  CHECK(asprintf(&printed, "%0*d", 20000, 7) == 20000);
  CHECK(printed[0] == '0' && printed[19999] == '7');
  free(printed);
}

void ObstacksAlignTheirObjects() {
  for (int alignment = 2; alignment <= 64; alignment *= 2) {
    struct obstack stack;
    obstack_init(&stack);
    obstack_alignment_mask(&stack) = alignment - 1;
    obstack_finish(&stack);  // an empty object: the next one is aligned
    for (int i = 0; i < 15; ++i) {
      void* object = obstack_alloc(&stack, 1000);
      CHECK(IsAligned(object, static_cast<size_t>(alignment)));
      FillPattern(object, 1000, static_cast<uint64_t>(i));
    }
    obstack_free(&stack, nullptr);
  }
}

void ForkWorks() {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    GetlineReadsWhatWasWritten();
    _exit(0);
  }
  ExpectCleanChild(child);
}

void* UseAll(void*) {
  GetlineReadsWhatWasWritten();
  StringsOfTheLibraryAreFreed();
  ObstacksAlignTheirObjects();
  ForkWorks();
  return nullptr;
}

// A mapping right behind the program break: brk and sbrk fail from now on.
void AnObstructedBreakDoesNotMatter() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* const now = static_cast<char*>(sbrk(0));
  char* const next = now + (-reinterpret_cast<uintptr_t>(now) & (page - 1));
  void* const wall =
      mmap(next, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (wall == MAP_FAILED) return;  // something is there already, which is as good
  CHECK(wall == next && sbrk(static_cast<intptr_t>(page)) == reinterpret_cast<void*>(-1));
  for (size_t i = 0; i < page; ++i) CHECK(malloc(16) != nullptr);
  void* large = malloc(HideSize(10 << 20));
  CHECK(large != nullptr);
  FillPattern(large, 10 << 20, 3);
  CHECK(PatternHolds(large, 10 << 20, 3));
  free(large);
  CHECK(sbrk(0) == now);
}

}  // namespace

int main() {
  UseAll(nullptr);
  BreakIsWhereItWas();
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, UseAll, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
  BreakIsWhereItWas();
  AnObstructedBreakDoesNotMatter();
}
