// Objects that the C library allocates for the program, and that the program frees.
#include <dirent.h>
#include <execinfo.h>
#include <netdb.h>
#include <wchar.h>

#include "../check.h"

namespace {

void Strings() {
  char* copy = strdup("granary");
  CHECK(copy != nullptr && strcmp(copy, "granary") == 0);
  copy = static_cast<char*>(realloc(copy, 5000));
  CHECK(copy != nullptr && strcmp(copy, "granary") == 0);
  free(copy);
  copy = strndup("granary", 4);
  CHECK(copy != nullptr && strcmp(copy, "gran") == 0);
  free(copy);
  wchar_t* wide = wcsdup(L"granary");
  CHECK(wide != nullptr && wide[6] == L'y');
  free(wide);
}

void Printing() {
  char* text = nullptr;
  CHECK(asprintf(&text, "%06d", 42) == 6);
  CHECK(strcmp(text, "000042") == 0);
  free(text);
}

void Streams() {
  FILE* stream = fopen("/proc/self/maps", "r");
  CHECK(stream != nullptr);
  char* line = nullptr;
  size_t room = 0;
  int lines = 0;
  while (getline(&line, &room, stream) > 0) ++lines;
  CHECK(lines > 5);
  free(line);
  fclose(stream);
}

void Paths() {
  char* path = realpath("/proc/self/exe", nullptr);
  CHECK(path != nullptr && path[0] == '/');
  free(path);
  char* here = getcwd(nullptr, 0);
  CHECK(here != nullptr);
  free(here);
  struct dirent** names = nullptr;
  const int count = scandir("/", &names, nullptr, alphasort);
  CHECK(count > 2);
  for (int i = 0; i < count; ++i) free(names[i]);
  free(names);
}

void Traces() {
  void* frames[16];
  const int depth = backtrace(frames, 16);
  char** symbols = backtrace_symbols(frames, depth);
  CHECK(symbols != nullptr);
  free(symbols);
}

void Addresses() {
  struct addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  struct addrinfo* found = nullptr;
  CHECK(getaddrinfo("127.0.0.1", "80", &hints, &found) == 0);
  CHECK(found != nullptr);
  freeaddrinfo(found);
}

}  // namespace

int main() {
  Strings();
  Printing();
  Streams();
  Paths();
  Traces();
  Addresses();
}
