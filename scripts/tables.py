"""Reads the tables of the code: rows MACRO(field, ...) of .def files."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A string (adjacent ones are one), or a word.
FIELD = re.compile(r'((?:"(?:[^"\\]|\\.)*"\s*)+)|([^",\s][^",]*)')


class BadTable(Exception):
    """A .def file that cannot be read; the message says where."""


def fields_of(row, where):
    """The fields of one row; strings lose their quotes."""
    fields = []
    for text, word in FIELD.findall(row):
        pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
        fields.append("".join(pieces) if text else word.strip())
    if not fields:
        raise BadTable(f"{where}: a row has no fields: write NAME(field, ...)")
    return fields


def rows_of(path, macro, columns):
    """The rows MACRO(...) of a .def file."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("//")]
    rows = []
    for text in re.split(rf"^{macro}\(", "\n".join(lines), flags=re.MULTILINE)[1:]:
        fields = fields_of(text.rstrip().removesuffix(")"), path.name)
        if len(fields) != columns:
            raise BadTable(f"{path.name}: {fields[0]} has {len(fields)} fields: give it {columns}")
        rows.append(fields)
    if not rows:
        raise BadTable(f"{path.name}: no row begins with {macro}(: correct the file or this script")
    return rows
