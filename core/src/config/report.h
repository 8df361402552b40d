// The messages about wrong options, and the list of options in force.
#pragma once

#include "base/writer.h"
#include "config/options.h"

namespace granary {

Writer& Signed(Writer& w, int64_t n) noexcept;
// Writes at most 63 characters of `text`.
Writer& Plain(Writer& w, Piece text) noexcept;
// Writes the value of a row in the form that a user writes.
Writer& Value(Writer& w, size_t row, int64_t value) noexcept;
// Writes the values that a row accepts: "true or false", "alloc, free, ...", "0 to 10".
Writer& Range(Writer& w, size_t row) noexcept;

void ReportUnknown(Source from, Piece name, const char* nearest) noexcept;
void ReportValue(Source from, size_t row, Piece value) noexcept;
// Reports a wrong value of an environment variable that is not a list of options.
void ReportVariable(const char* name, const char* value, const char* give) noexcept;
void ReportFixed(size_t row) noexcept;

// Prints every option, its value and its source, one per line.
void ReportAll(const Options& options) noexcept;

}  // namespace granary
