// The sentences about options that are wrong, and about those that are in force.
#pragma once

#include "base/writer.h"
#include "config/options.h"

namespace granary {

Writer& Signed(Writer& w, int64_t n) noexcept;
// Cut to 63 letters.
Writer& Plain(Writer& w, Piece text) noexcept;
// The value of a row as a user would write it.
Writer& Value(Writer& w, size_t row, int64_t value) noexcept;
// What a row accepts: "true or false", "alloc, free, ...", "0 to 10".
Writer& Range(Writer& w, size_t row) noexcept;

void ReportUnknown(Source from, Piece name, const char* nearest) noexcept;
void ReportValue(Source from, size_t row, Piece value) noexcept;
// A variable of the environment that is not a list of options.
void ReportVariable(const char* name, const char* value, const char* give) noexcept;
void ReportFixed(size_t row) noexcept;

// Every option, its value and where that came from, a line each.
void ReportAll(const Options& options) noexcept;

}  // namespace granary
