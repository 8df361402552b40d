#!/usr/bin/env python3
"""Generates docs/reference/*.md and the Grafana dashboards from the tables in the code; --check names outdated files."""

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

An option is `name:value` or `name=value`; options are separated by commas. A boolean is `true` or `false`, or `1` or `0`. A size
is a number of bytes, or has a unit: `KiB`, `MiB`, `GiB`, `TiB` (powers of 1,024), `KB`, `MB`, `GB`, `TB` (powers of 1,000). A
duration is a number of milliseconds, or has a unit: `ms`, `s`, `m`, `h`. `granary options NAME` explains an option. An option with an
error is reported on stderr, with the nearest name or the allowed values, and has no effect; the others apply.
`confirm_conf:true` prints every option with its value and the source of the value.

{table}

*At run time* says whether `granary_set_options` and `granary ctl PID set` can change the option in a running program.
[Tune](../guides/tune.md) says when to change which option.

## Where options are read from

Each source overrides the ones above it. setuid programs do not read the environment.

{sources}

The program's symbols are variables: `const char* granary_conf = "zero:true";` with Granary's names, and `malloc_conf`,
`je_malloc_conf` and `_rjem_malloc_conf` with jemalloc's. A program that the library is preloaded into must export them
(`cc -rdynamic`). `/etc/granary.conf` has one option on each line; a line that begins with `#` is a comment.

## gperftools' variables

{tcmalloc}

## jemalloc's names

`MALLOC_CONF` and `malloc_conf` take jemalloc's names. An *effective* name sets the named option of Granary. An *accepted*
name is checked, reported by `mallctl("opt.<name>")`, and has no effect. An *ignored* name may have any value.

{jemalloc}
"""

CHEAT_SHEET_TEXT = """# Options on one page

{notice}

`granary options` prints this list, `granary options NAME` one row of it. Most programs need no option.

```
GRANARY_CONF=dirty_decay_ms:5s,hard_limit:2GiB granary run -- CMD     # at start
granary ctl PID set dirty_decay_ms:500ms                              # in a running program: options with *
granary enable SERVICE --option dirty_decay_ms=5s                     # a systemd service
```

{table}

## Mistakes and their price

{mistakes}

[Options](options.md) has values and meanings, [tune](../guides/tune.md) the reasons.
"""

MISTAKES = """Redis 7.0.15 that takes 150,000 values of 1,000 bytes and 80,000 of 3,000, then deletes three quarters of its keys; medians of four
rounds in turn on two CPUs of an AMD EPYC. CPU time of the server while it fills, relative to no option at all, and the range of the rounds.
On this machine the host hands out huge pages slowly, which makes `huge_pages:always` dear.

| setting | CPU time | range | why |
|---|--:|--:|---|
| `dirty_decay_ms:0` | 2.2 | 2.1 to 2.3 | each free page is purged at once, and its next use is a page fault; RSS after the deletions was 83 MiB instead of 90 |
| `zero:true` for programs that do not need it | 1.2 | 1.2 to 1.4 | every object is written twice, and the caches are off |
| `junk:true` outside tests | 1.3 | 1.2 to 1.3 | as `zero`, and every freed object is written as well |
| `huge_pages:always` where the heap comes and goes | 1.8 | 1.3 to 2.4 | the kernel clears 2 MiB for each page, much of it for objects that are soon freed |
| `prof:true,prof_sample:1` left on | 11 | 10 to 13 | a stack is walked for every allocation; the default rate of 512 KiB is meant for production |

Mistakes without a price in time: `hard_limit` in a program that does not check malloc for null (it crashes at the limit; `soft_limit` only
purges), an option misspelt (reported on stderr and ignored; `abort_conf:true` refuses to start), `MALLOC_ARENA_MAX` (no effect)."""

COUNTERS_TEXT = """# Counters

{notice}

The command `granary` reads these statistics from outside. In the program, `granary/stats.h` returns them by name,
`malloc_stats()` prints them to stderr, one on each line, and `malloc_info(0, file)` writes them as XML. The classic fields of
`mallinfo2()` are sums of them (`core/src/entry/introspection.cc`).

{table}

*Layer* is the part of the library that the statistic belongs to. A process that runs changes its figures while they are read one
after another, so sums are close, not exact. A reader in another process reads twice, and reports whether anything changed
in between, and by how many bytes ([statistics](../design/statistics.md)).

The requests of small objects are not recorded: `rounding_most` is the bound that follows from the size classes,
`rounding_expected` the value for requests that are spread evenly between one class and the next.
"""

DESCRIPTOR_TEXT = """# The descriptor

{notice}

This page describes how a reader in another process finds the statistics. The Go package `tool/internal/inspect` is such a reader;
[statistics](../design/statistics.md) explains the design. All numbers are little-endian.

## The note

The ELF file that contains the library (`libgranary.so`, or a program that it is linked into) has a note of name `Granary`, type 1,
in a `PT_NOTE` segment that is mapped. The note consists of words of 8 bytes: its version, 1; then *distances*. A distance plus
the address of its own word is an address, modulo 2^64. The first distance leads to the descriptor, the others to the bases of offsets:

{bases}

Later versions may append bases. The first four bytes of the note's content are the *request word*: a futex (not private) on which
background threads wait, and which never changes. A reader that maps that page of the file, shared, can wake them.

## The descriptor

| bytes | content |
| --- | --- |
| 8 | `granary` and a zero |
| 4 | version of this descriptor, {version} |
| 4 | bytes of the whole descriptor |
| 4 | text: the version of the library |
| 4 | number of tables |
| 16 each | tables: offset, number of rows, bytes of a row, zero (4 bytes each) |

A *text* is an offset from the start of the descriptor to bytes that end with a zero. A reader uses the leading bytes of a row that it
knows and advances by the stated size, uses the tables that it knows, and finds rows by name. The version changes only if such a reader
could misread a row; a reader refuses unknown versions.

| table | row |
| --- | --- |
| constants | text name; 4 bytes: of an offset, the width of the member or of its elements, else zero; 8 bytes value |
| cells | text name; 4 bytes base; 8 bytes offset; 4 bytes each: stride, count, width, scale |
| metrics | texts name, kind, unit, layer, meaning; 4 bytes: index of a cell, or all ones |
| options | texts name, type, meaning; 4 bytes whether it can change at run time; 8 bytes offset in the options; 4 bytes width, 4 zero; 8 bytes each: default, lowest, highest |
| classes | 4 bytes each: object size, slab bytes, objects of a slab, and of a cache's region short floor and capacity, long floor and capacity; the size of the next smaller class |

A cell describes `count` numbers of `width` bytes, `stride` bytes apart, from `offset` on. Their sum times `scale` is a statistic; with
`scale` 0 they are addresses or states. A metric without a cell is computed as in `core/src/inspection/measure.cc`.

## Cells

A `LOCK` is three cells: *name*`.held` (not zero while it is held), *name*`.turns` (times it was held, modulo 2^32) and
*name*`.contentions`.

{cells}

## Constants

Names with a dot are the offset of a member in a structure that a pointer leads to, the size of a structure, or the value of a state.

{constants}

## Control words

A request is written in this order: `control.argument` (text that ends with a zero), `control.command`
(one of the constants `control.purge`, `control.set`, `control.flush`, `control.reset`,
`control.profile_start`, `control.profile_stop`, `control.profile_reset`), then
`control.requested`: any number that is not there yet. Then the reader wakes the request word. When `control.answered` has the same number,
`control.result` is `control.done` or `control.refused`, and `control.value` the number of moved bytes.
"""


JEMALLOC_TEXT = """# jemalloc's interface

{notice}

Programs written for jemalloc run on Granary unchanged: preloaded, linked, or found under jemalloc's name. `PREFIX/lib/granary`
is a tree with `lib/libjemalloc.so.2`, `lib/libjemalloc.a`, the header `include/jemalloc/jemalloc.h`, `lib/pkgconfig/jemalloc.pc`
and `bin/jemalloc-config`:

```
LD_LIBRARY_PATH=/usr/local/lib/granary/lib redis-server          # a binary that needs libjemalloc.so.2
./configure --with-jemalloc=/usr/local/lib/granary               # a source tree
```

Every function exists without a prefix, with `je_` and with `_rjem_`: `mallocx`, `rallocx`, `xallocx`, `sallocx`, `dallocx`,
`sdallocx`, `nallocx`, `mallctl`, `mallctlnametomib`, `mallctlbymib`, `malloc_stats_print`, and the malloc family; and
`je_get_defrag_hint`, which Redis uses to defragment. [Options](options.md) lists the effect of each name in `MALLOC_CONF`.

Programs with a jemalloc in their source, under the prefix `je_`, use `libgranary_je.a` instead. It defines these names only: the
program's malloc stays the C library's, as with its own copy. To build Redis, provide
`core/include` as `deps/jemalloc/include` and the archive as `deps/jemalloc/lib/libjemalloc.a`. Valkey computes with jemalloc's
size classes: for it `cmake --build build --target granary_je_q3` builds `build/lib/libgranary_je_q3.a` with these classes, and
the compiler needs `-DVALKEY_VENDORED_JEMALLOC`, which Valkey's own header defines otherwise.

Differences:

- The size classes are Granary's: finer than jemalloc's, with a quantum of 16. A program that computes with jemalloc's classes
  needs `libgranary_je_q3.a`.
- Arena 0 is one heap for all threads, with CPU caches. `stats.arenas.4096` and `stats.arenas.0` are equal until an arena is
  created. Its hooks cannot be replaced.
- `stats.active` excludes clean pages of slabs. `stats.arenas.<i>.bins.<j>.curregs` is the number of live objects, without cached ones.
- `thread.allocated` and related names count from the first time that a thread reads one of them; from then on its calls take a
  slower path that counts exactly. The same holds for `thread.tcache.enabled`.
- An explicit thread cache is a number only: objects are in the CPU caches.
- Freed memory is purged after `dirty_decay_ms` plus `muzzy_decay_ms`; no page is ever muzzy.
- `prof.active` switches sampling on in any process, whatever `opt.prof` says; the samples remain until
  `prof.reset`. Files are named `PREFIX.PID.NUMBER.REASON.heap`, as jemalloc's are.
- Profiles are by stack, not by thread: `thread.prof.name` is stored and returned, and written to no file. Profiles always contain
  all allocations besides the live ones, so `prof_accum` has no effect.
- `prof_leak` and `prof_leak_error` do not need `prof_final`; their result is an estimate from samples. `prof_bt_max` is at most 128.
- Of `experimental.hooks.prof_*`, `prof_backtrace` is missing: stacks come from Granary's own unwinder, which takes no lock. While a
  hook runs, its thread takes no sample.
- `experimental.hooks.safety_check_abort` takes a function that gets the misuse report instead of stderr; if it returns, the program is
  aborted, where jemalloc continues. It must not allocate.
- The structures of an arena come from Granary's own memory, not from its hooks: the field `metadata_use_hooks` of
  `experimental.arenas_create_ext` has no effect.
- Missing: `prof.log_start` and `prof.log_stop` (a JSON record of every sample for jemalloc's own script; the probes
  `otel_memory:alloc` and `free` provide it to perf and bpftrace), `prof.stats.*`, `experimental.prof_recent.*`.

## Names of mallctl

`#` is an index, `<...>` a word. A remark says if the value never changes.

{names}

The words:

{words}
"""

TCMALLOC_TEXT = """# TCMalloc's interface

{notice}

Programs written for gperftools' TCMalloc run on Granary: preloaded, linked, or found under its names in `PREFIX/lib/granary`
(`libtcmalloc.so.4`, `libtcmalloc_minimal.so.4`, `pkg-config libtcmalloc`, headers `gperftools/*.h` and `google/tcmalloc.h`).

- `tc_malloc`, `tc_new` and the functions related to them, `tc_version`, `tc_set_new_mode`.
- The C functions `MallocExtension_*`.
- The C++ class `MallocExtension` by `MallocExtension::instance()`. Missing: classes derived from it (the library has neither its
  virtual table nor its type information), the results of `GetHeapSample`, `GetHeapGrowthStacks` and `GetFreeListSizes` (their arguments stay
  unchanged), stack traces, `Ranges` and system allocators.
- The forms of `operator new` with a `__hot_cold_t` of google/tcmalloc: objects with a value below 128 are in a scoped heap named `cold`
  ([cold memory](../guides/cold-memory.md)), others are ordinary objects.
- Missing: the profilers (`HeapProfiler*`, `Profiler*`) and `MallocHook`.
- `MallocExtension_Internal_*` of google/tcmalloc is missing on purpose: folly would use Granary as Google's TCMalloc before it checks for
  jemalloc's interface, which is more complete.

## Numeric properties

{names}

`tcmalloc.max_total_thread_cache_bytes` and `tcmalloc.aggressive_memory_decommit` can be set.
"""


SYSTEM_CALLS_TEXT = """# System calls

{notice}

A filter of system calls (seccomp) for a program under Granary must allow these. Where one is refused with an error, the program goes on
without what it is for; `mmap` and `futex` are needed. A filter that kills must allow all of them, except in a program of one
thread that frees memory only: there `exit` calls nothing new. The background thread needs what `pthread_create` needs.

{table}
"""


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


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
                     for line in lines)


def option_row(fields, words):
    name, kind, default, lowest, highest, at_run_time, _, meaning, when = fields
    values = "true, false" if kind == "bool" else f"{lowest} to {highest}"
    if kind == "PathSize":
        values, default = f"an absolute path of at most {highest} letters", "none"
    if name in words:
        values, default = ", ".join(words[name].values()), words[name][default]
    return [f"`{name}`", values, default, "yes" if at_run_time == "true" else "no", meaning, when]


def jemalloc_row(fields):
    name, fate, kind, _, words, target = fields
    values = {"Bool": "true, false", "Choice": words.replace("\\0", ", "), "Text": "a text", "ConfOnly": "any",
              "Lg": "a logarithm", "LgSize": "a logarithm", "Ssize": "-1 or more"}.get(kind, "0 or more")
    effect = f"{fate.lower()}: `{target}`" if target != "none" else fate.lower()
    return [f"`{name}`", "any" if fate == "Ignored" else values, effect]


def words_of_options():
    """For each option whose values are words, the word of each value."""
    words = {}
    for option, word, value in rows_of(ROOT / "core/src/config/words.def", "WORD", 3):
        words.setdefault(option, {})[value] = word
    return words


def options_page():
    config = ROOT / "core/src/config"
    words = words_of_options()
    rows = rows_of(config / "options.def", "OPTION", 9)
    head = ["option", "values", "default", "at run time", "meaning", "change it"]
    tcmalloc = rows_of(config / "tcmalloc_variables.def", "TCMALLOC_VARIABLE", 5)
    jemalloc = rows_of(config / "jemalloc_options.def", "JEMALLOC_OPTION", 6)
    sources = rows_of(config / "sources.def", "SOURCE", 2)[1:-1]
    return OPTIONS_TEXT.format(
        notice=notice("core/src/config/*.def"),
        table=table(head, [option_row(row, words) for row in rows]),
        sources="\n".join(f"{i}. {name}" for i, (_, name) in enumerate(sources, 1)),
        tcmalloc=table(["variable", "sets", "effect"], [[f"`{row[0]}`", f"`{row[1]}`", row[4]] for row in tcmalloc]),
        jemalloc=table(["name", "values", "effect"], [jemalloc_row(row) for row in jemalloc]))


def cheat_sheet_page():
    config = ROOT / "core/src/config"
    words = words_of_options()
    others = {}
    for name, fate, _, _, _, target in rows_of(config / "jemalloc_options.def", "JEMALLOC_OPTION", 6):
        if fate == "Effective":
            others.setdefault((target, "jemalloc"), []).append(f"`{name}`")
    for name, target, *_ in rows_of(config / "tcmalloc_variables.def", "TCMALLOC_VARIABLE", 5):
        others.setdefault((target, "gperftools"), []).append(f"`{name}`")
    rows = []
    for name, kind, default, _, _, at_run_time, unit, _, when in rows_of(config / "options.def", "OPTION", 9):
        default = "none" if kind == "PathSize" else words.get(name, {}).get(default, default)
        rows.append([f"`{name}`" + (" *" if at_run_time == "true" else ""), default, "" if unit == "None" else unit.lower(), when,
                     *(", ".join(others.get((name, of), [])) for of in ("jemalloc", "gperftools"))])
    return CHEAT_SHEET_TEXT.format(notice=notice("core/src/config/*.def"), mistakes=MISTAKES,
                                   table=table(["option", "default", "unit", "change it", "jemalloc", "gperftools"], rows))


def counters_page():
    rows = rows_of(ROOT / "core/src/stats/counters.def", "COUNTER", 6)
    head = ["counter", "kind", "unit", "layer", "meaning"]
    return COUNTERS_TEXT.format(notice=notice("core/src/stats/counters.def"),
                                table=table(head, [[f"`{row[0]}`", *row[1:4], row[5]] for row in rows]))


def name_list(path, macros):
    """The first field of each row, as a sentence in code type."""
    rows = re.findall(rf'^(?:{"|".join(macros)})\(("[^"]+")', path.read_text(), flags=re.MULTILINE)
    if not rows:
        raise BadTable(f"{path.name}: it has no rows: correct the file or this script")
    return ", ".join(f"`{row[1:-1]}`" for row in rows)


def descriptor_page():
    inspection = ROOT / "core/src/inspection"
    header = (ROOT / "core/src/stats/descriptor_format.h").read_text()
    bases = re.search(r"enum class Base : uint32_t \{(.*?)\}", header, re.S).group(1).split(",")
    version = re.search(r"kDescriptorVersion = (\d+)", header).group(1)
    return DESCRIPTOR_TEXT.format(
        notice=notice("core/src/inspection/descriptor.def"), version=version,
        bases="\n".join(f"{i}. {re.sub(r'(?<=[a-z])(?=[A-Z])', ' ', base.strip().removeprefix('k')).lower()}"
                        for i, base in enumerate(bases)),
        cells=name_list(inspection / "descriptor.def", ["CELL", "CELLS", "LOCK", "LOCKS"]),
        constants=name_list(inspection / "descriptor.def", ["CONSTANT", "OFFSET"]) +
        ", `option_source.`*name* for each source of options, and `option_word.`*option*`.`*word* for each "
        "value that is a word")


def remark_of(handler, argument):
    if handler == "Constant" and not argument.startswith("k"):
        return f"always {argument}"
    return "always `disabled`" if handler == "ArenaDss" else ""


def jemalloc_page():
    folder = ROOT / "core/src/compat/jemalloc"
    row = re.compile(r'^CTL\("([^"]+)", (\w+), (\w+), (\w+), (.+)\)$', re.MULTILINE)
    found = row.findall((folder / "ctl.def").read_text())
    if not found:
        raise BadTable("ctl.def: no row begins with CTL(: correct the file or this script")
    rows = [[f"`{name}`", kind, access, remark_of(handler, argument)] for name, kind, access, handler, argument in found]
    figures = (folder / "figures.def").read_text()
    for macro, paths in {"ARENA": [""], "KIND": ["small.", "large."], "BIN": ["bins.#."], "LEXTENT": ["lextents.#."]}.items():
        names = re.findall(rf"^{macro}\((\w+), (\w+)\)$", figures, re.MULTILINE)
        rows += [[f"`stats.arenas.#.{path}{name}`", kind, "R", ""] for path in paths for name, kind in names]
    sets = re.findall(r'^CTL_SET\((\w+), "(.+)"\)$', (folder / "words_of_ctl.def").read_text(), re.MULTILINE)
    words = "\n".join(f"- `<{name}>`: {', '.join(text.split(chr(92) + '0')[:-1])}" for name, text in sets)
    words += "\n- `<option>`: jemalloc's names in [options](options.md)"
    return JEMALLOC_TEXT.format(notice=notice("core/src/compat/jemalloc/*.def"), words=words,
                                names=table(["name", "type", "access", "remark"], rows))


def tcmalloc_page():
    path = ROOT / "core/src/compat/tcmalloc/properties.def"
    found = re.findall(r'^PROPERTY\("([^"]+)", (.+)\)$', path.read_text(), re.MULTILINE)
    if not found:
        raise BadTable("properties.def: no row begins with PROPERTY(: correct the file or this script")
    rows = [[f"`{name}`", f"always {value}" if value == "0" else ""] for name, value in found]
    return TCMALLOC_TEXT.format(notice=notice("core/src/compat/tcmalloc/properties.def"),
                                names=table(["property", "remark"], rows))


def system_calls_page():
    path = "core/src/os/system_calls.def"
    rows = rows_of(ROOT / path, "SYSTEM_CALL", 2)
    return SYSTEM_CALLS_TEXT.format(notice=notice(path),
                                    table=table(["system call", "what for"], [[f"`{row[0]}`", row[1]] for row in rows]))


def notice(source):
    return (f"*Written by `scripts/gen_reference.py` from `{source}`. Change the source, then run the "
            "script.*")


PAGES = {"options.md": options_page, "cheat-sheet.md": cheat_sheet_page, "counters.md": counters_page, "descriptor.md": descriptor_page,
         "jemalloc.md": jemalloc_page, "tcmalloc.md": tcmalloc_page,
         "system-calls.md": system_calls_page}


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: scripts/gen_reference.py [--check]")
    try:
        import gen_dashboard  # here, as it imports this module

        pages = {REFERENCE / name: page() for name, page in PAGES.items()}
        pages |= gen_dashboard.pages()
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
