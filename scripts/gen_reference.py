#!/usr/bin/env python3
"""Writes docs/reference/*.md from the tables in the code; with --check, says which are out of date."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
# A string (adjacent ones are one), or a word.
FIELD = re.compile(r'((?:"(?:[^"\\]|\\.)*"\s*)+)|([^",\s][^",]*)')

OPTIONS_TEXT = """# Options

{notice}

```
GRANARY_CONF=dirty_decay_ms:5000,abort_conf:true granary run -- redis-server
```

Rows are `name:value`, separated by commas. A truth is `true` or `false`, or `1` or `0`. A row that is
wrong is named on stderr, with the nearest name or the values allowed, and changes nothing; the other
rows still count. `confirm_conf:true` prints every option, its value and where that came from.

{table}

*At run time* says whether a change by `granary_set_options` has an effect once the program runs.
What to set when stands in [tune](../guides/tune.md).

## Where options are read from

Each source overrides those above it; setuid programs do not read the environment.

{sources}

The program's symbols are variables, `const char* granary_conf = "zero:true";`, with Granary's names in
`granary_conf` and jemalloc's in `malloc_conf`, `je_malloc_conf` and `_rjem_malloc_conf`; a program that
the library is preloaded into must export them (`cc -rdynamic`). The file holds
rows on lines of their own; a line that begins with `#` is a comment.

## jemalloc's names

`MALLOC_CONF` and `malloc_conf` take jemalloc's names. An *effective* one sets the option of ours that
is named; an *accepted* one is checked and reported by `mallctl("opt.<name>")`, and nothing depends on
it; of an *ignored* one any value is passed over.

{jemalloc}
"""

COUNTERS_TEXT = """# Counters

{notice}

`malloc_stats()` prints every counter to stderr, a line each; `malloc_info(0, file)` writes them as
XML. The classic fields of `mallinfo2()` are sums of them (`core/src/entry/introspection.cc`).

{table}

*Layer* is the folder in `core/src` that keeps the figure. The figures are read one after another
while other threads go on: in a busy process sums are close, not exact.
"""


class BadTable(Exception):
    """A .def file that cannot be read, with a sentence that says where."""


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


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
                     for line in lines)


def option_row(fields, words):
    name, kind, default, lowest, highest, at_run_time, meaning = fields
    values = "true, false" if kind == "bool" else f"{lowest} to {highest}"
    if name in words:
        values, default = ", ".join(words[name].values()), words[name][default]
    return [f"`{name}`", values, default, "yes" if at_run_time == "true" else "no", meaning]


def jemalloc_row(fields):
    name, fate, kind, _, words, target = fields
    values = {"Bool": "true, false", "Choice": words.replace("\\0", ", "), "Text": "a text", "ConfOnly": "any",
              "Lg": "a logarithm", "Ssize": "-1 or more"}.get(kind, "0 or more")
    effect = f"{fate.lower()}: `{target}`" if target != "none" else fate.lower()
    return [f"`{name}`", "any" if fate == "Ignored" else values, effect]


def options_page():
    config = ROOT / "core/src/config"
    words = {}
    for option, word, value in rows_of(config / "words.def", "WORD", 3):
        words.setdefault(option, {})[value] = word
    rows = rows_of(config / "options.def", "OPTION", 7)
    head = ["option", "values", "default", "at run time", "meaning"]
    jemalloc = rows_of(config / "jemalloc_options.def", "JEMALLOC_OPTION", 6)
    sources = rows_of(config / "sources.def", "SOURCE", 2)[1:-1]
    return OPTIONS_TEXT.format(
        notice=notice("core/src/config/*.def"),
        table=table(head, [option_row(row, words) for row in rows]),
        sources="\n".join(f"{i}. {name}" for i, (_, name) in enumerate(sources, 1)),
        jemalloc=table(["name", "values", "what becomes of it"], [jemalloc_row(row) for row in jemalloc]))


def counters_page():
    rows = rows_of(ROOT / "core/src/stats/counters.def", "COUNTER", 6)
    head = ["counter", "kind", "unit", "layer", "meaning"]
    return COUNTERS_TEXT.format(notice=notice("core/src/stats/counters.def"),
                                table=table(head, [[f"`{row[0]}`", *row[1:4], row[5]] for row in rows]))


def notice(source):
    return (f"*Written by `scripts/gen_reference.py` from `{source}`. Change the source, then run the "
            "script.*")


PAGES = {"options.md": options_page, "counters.md": counters_page}


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: scripts/gen_reference.py [--check]")
    try:
        pages = {REFERENCE / name: page() for name, page in PAGES.items()}
    except BadTable as error:
        sys.exit(f"gen_reference: {error}")
    if not sys.argv[1:]:
        for path, text in pages.items():
            path.write_text(text)
        return
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run scripts/gen_reference.py and commit the result")
    if stale:
        sys.exit(1)
    print(f"gen_reference: {len(pages)} pages: ok")


if __name__ == "__main__":
    main()
