#include "unwind/frame_entry.h"

namespace granary::unwind {
namespace {

constexpr uint8_t kOmitted = 0xff;

struct Index {
  uintptr_t rows = 0;
  uint64_t count = 0;
};

bool ReadIndex(TableMemory& memory, const Tables& tables, Index* index) {
  if (tables.rows != 0) {
    *index = {tables.rows, tables.count};
    return true;
  }
  // The encoding that every supported linker writes: signed 4 bytes relative to the header, sorted.
  constexpr uint8_t kVersion = 1, kTableEncoding = 0x3b;
  Cursor header(memory, tables.header, tables.end);
  const uint8_t version = header.Byte();
  const uint8_t frame_encoding = header.Byte();
  const uint8_t count_encoding = header.Byte();
  const uint8_t table_encoding = header.Byte();
  if (version != kVersion || count_encoding == kOmitted || table_encoding != kTableEncoding) {
    return false;
  }
  header.Address(frame_encoding);
  index->count = header.Address(count_encoding);
  index->rows = header.at();
  return !header.failed() && index->count > 0 &&
         index->count <= (tables.end - index->rows) / sizeof(FrameRow);
}

// The last row whose code begins at or before `pc`.
bool FindRow(TableMemory& memory, const Tables& tables, uintptr_t pc, FrameRow* row) {
  Index index;
  if (!ReadIndex(memory, tables, &index)) return false;
  // Rows that this library made are outside the module.
  TableMemory made(tables.rows, tables.rows + tables.count * sizeof(FrameRow));
  TableMemory& rows = tables.rows != 0 ? made : memory;
  const auto wanted = static_cast<int64_t>(pc - tables.header);
  uint64_t low = 0, high = index.count;  // all rows before `low` begin at or before `pc`
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    FrameRow seen;
    if (!rows.Get(index.rows + middle * sizeof(FrameRow), &seen)) return false;
    if (seen.code <= wanted) {
      *row = seen;
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low > 0;
}

// Reads the head of an entry: the bounds of its body, and its link to the common part.
bool ReadLength(TableMemory& memory, uintptr_t at, uintptr_t limit, Cursor* body) {
  constexpr uint32_t kLong = 0xffffffff;
  uint32_t length = 0;
  if (!memory.Get(at, &length) || length == 0) return false;
  uintptr_t first = at + sizeof length;
  uint64_t bytes = length;
  if (length == kLong) {
    if (!memory.Get(first, &bytes)) return false;
    first += sizeof bytes;
  }
  if (first > limit || bytes > limit - first) return false;
  *body = Cursor(memory, first, first + bytes);
  return true;
}

// Reads the data that the letters of the augmentation announce, after its length.
void ReadAugmentation(const char* letters, Cursor& body, FrameEntry* entry) {
  for (const char* letter = letters; *letter != '\0'; ++letter) {
    switch (*letter) {
      case 'R':
        entry->encoding = body.Byte();
        break;
      case 'P':
        body.Address(body.Byte());
        break;
      case 'L':
        body.Byte();
        break;
      case 'S':
        entry->signal = true;
        break;
      case 'B':  // arm64: return addresses are signed with the other key
      case 'G':  // arm64: the frame's memory is tagged
        break;
      default:
        return;  // the length of the data is known, so the rest can be skipped
    }
  }
}

bool ReadCommon(TableMemory& memory, const Tables& tables, uintptr_t at, FrameEntry* entry) {
  Cursor body(memory, 0, 0);
  if (!ReadLength(memory, at, tables.end, &body)) return false;
  entry->common_end = body.at() + body.left();
  const auto id = body.Fixed<uint32_t>();
  const uint8_t version = body.Byte();
  if (id != 0 || (version != 1 && version != 3 && version != 4)) return false;
  char letters[8] = {};
  for (char& letter : letters) {
    letter = static_cast<char>(body.Byte());
    if (letter == '\0') break;
  }
  if (letters[sizeof letters - 1] != '\0') return false;
  if (version == 4) body.Skip(2);  // sizes of addresses and segments
  entry->code_unit = body.Unsigned();
  entry->data_unit = body.Signed();
  entry->return_register = version == 1 ? body.Byte() : body.Unsigned();
  entry->augmented = letters[0] == 'z';
  if (!entry->augmented && letters[0] != '\0') return false;
  entry->common_program = body.at();
  if (entry->augmented) {
    const uint64_t bytes = body.Unsigned();
    entry->common_program = body.at() + bytes;
    if (bytes > body.left()) return false;
    ReadAugmentation(letters + 1, body, entry);
  }
  return !body.failed();
}

}  // namespace

uintptr_t NextEntry(TableMemory& memory, uintptr_t at, uintptr_t limit) noexcept {
  uint32_t length = 0;
  if (!memory.Get(at, &length)) return 0;
  if (length == 0) return at + sizeof length;
  Cursor body(memory, 0, 0);
  return ReadLength(memory, at, limit, &body) ? body.at() + body.left() : 0;
}

bool ReadEntry(TableMemory& memory, const Tables& tables, uintptr_t at,
               FrameEntry* entry) noexcept {
  Cursor body(memory, 0, 0);
  if (!ReadLength(memory, at, tables.end, &body)) return false;
  entry->program_end = body.at() + body.left();
  const uintptr_t link = body.at();
  const auto distance = body.Fixed<uint32_t>();
  if (body.failed() || distance == 0) return false;
  if (!ReadCommon(memory, tables, link - distance, entry)) return false;
  entry->begin = body.Address(entry->encoding);
  const uint64_t bytes = body.Length(entry->encoding);
  entry->end = entry->begin + bytes;
  if (entry->augmented) body.Skip(body.Unsigned());
  entry->program = body.at();
  return !body.failed();
}

bool FindEntry(TableMemory& memory, const Tables& tables, uintptr_t pc,
               FrameEntry* entry) noexcept {
  FrameRow row;
  if (!FindRow(memory, tables, pc, &row)) return false;
  const uintptr_t at = tables.header + static_cast<uintptr_t>(intptr_t{row.entry});
  return ReadEntry(memory, tables, at, entry) && pc >= entry->begin && pc < entry->end;
}

}  // namespace granary::unwind
