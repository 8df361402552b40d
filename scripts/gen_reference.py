#!/usr/bin/env python3
"""Generates docs/reference/*.md and the Grafana dashboards from the tables in the code; --check names outdated files."""

import re
import sys

import gen_dashboard
from tables import ROOT, BadTable, rows_of

TEMPLATES = ROOT / "scripts" / "reference"
REFERENCE = ROOT / "docs" / "reference"


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
    return page(
        "options", notice=notice("core/src/config/*.def"),
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
    return page(
        "cheat-sheet", notice=notice("core/src/config/*.def"),
        table=table(["option", "default", "unit", "change it", "jemalloc", "gperftools"], rows))


def counters_page():
    rows = rows_of(ROOT / "core/src/stats/counters.def", "COUNTER", 6)
    head = ["counter", "kind", "unit", "layer", "meaning"]
    return page(
        "counters", notice=notice("core/src/stats/counters.def"),
        table=table(head, [[f"`{row[0]}`", *row[1:4], row[5]] for row in rows]))


def name_list(path, macros):
    """The first field of each row, as a list in code type."""
    rows = re.findall(rf'^(?:{"|".join(macros)})\(("[^"]+")', path.read_text(), flags=re.MULTILINE)
    if not rows:
        raise BadTable(f"{path.name}: it has no rows: correct the file or this script")
    return ", ".join(f"`{row[1:-1]}`" for row in rows)


def descriptor_page():
    inspection = ROOT / "core/src/inspection"
    header = (ROOT / "core/src/stats/descriptor_format.h").read_text()
    bases = re.search(r"enum class Base : uint32_t \{(.*?)\}", header, re.S).group(1).split(",")
    version = re.search(r"kDescriptorVersion = (\d+)", header).group(1)
    return page(
        "descriptor", notice=notice("core/src/inspection/descriptor.def"), version=version,
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
    return page(
        "jemalloc", notice=notice("core/src/compat/jemalloc/*.def"), words=words,
        names=table(["name", "type", "access", "remark"], rows))


def tcmalloc_page():
    path = ROOT / "core/src/compat/tcmalloc/properties.def"
    found = re.findall(r'^PROPERTY\("([^"]+)", (.+)\)$', path.read_text(), re.MULTILINE)
    if not found:
        raise BadTable("properties.def: no row begins with PROPERTY(: correct the file or this script")
    rows = [[f"`{name}`", f"always {value}" if value == "0" else ""] for name, value in found]
    return page(
        "tcmalloc", notice=notice("core/src/compat/tcmalloc/properties.def"),
        names=table(["property", "remark"], rows))


def system_calls_page():
    path = "core/src/os/system_calls.def"
    rows = rows_of(ROOT / path, "SYSTEM_CALL", 2)
    return page(
        "system-calls", notice=notice(path),
        table=table(["system call", "what for"], [[f"`{row[0]}`", row[1]] for row in rows]))


def page(name, **parts):
    """The page made of its template and the generated parts."""
    return (TEMPLATES / f"{name}.md.in").read_text().format(**parts)


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
        pages = {REFERENCE / name: text() for name, text in PAGES.items()}
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
