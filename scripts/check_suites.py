#!/usr/bin/env python3
"""Checks docs/design/other-suites.md: each case of another suite names tests that exist, or says why none applies.

The last cell of a row names tests as ctest does (`conform.malloc`), each maybe followed by functions of its source.
A function must be defined there and called.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "design" / "other-suites.md"
TOKEN = re.compile(r"`([^`]+)`")
TEST = re.compile(r"^(?P<variant>hardened\.)?(?P<folder>conform|process|storm|misuse)\.(?P<name>\w+)$")
FUNCTION = re.compile(r"^[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$")
NONE = "not applicable: "


def rows(text):
    """Yields number, case and last cell of each row below a head that ends in `tests`."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[-1] == "tests":
            inside = True
        elif not cells:
            inside = False
        elif inside and set(cells[0]) != {"-"}:
            yield number, cells[0], cells[-1]


def source_of(tests, match):
    for suffix in (".cc", ".c"):
        path = tests / match["folder"] / (match["name"] + suffix)
        if path.exists():
            return path.read_text()
    return None


def is_called(source, function):
    return re.search(rf"^\S.*\b{function}\(.*\{{", source, re.M) and len(re.findall(rf"\b{function}\b", source)) > 1


def check_row(tests, cell):
    """Yields what is wrong with the last cell of a row."""
    source, named, variants = None, 0, (tests / "programs.cmake").read_text()
    for token in TOKEN.findall(cell):
        match = TEST.match(token)
        if match:
            source, named = source_of(tests, match), named + 1
            if source is None or (match["variant"] and token.removeprefix("hardened.") not in variants):
                yield f"no test is called {token}"
        elif FUNCTION.match(token) and (source is None or not is_called(source, token)):
            yield f"{token} is not a function that the test before it calls"
    if named == 0 and not cell.startswith(NONE):
        yield f"it names no test and does not begin with `{NONE.strip()}`"


def check(page, tests):
    found = list(rows(page.read_text()))
    broken = [f"{page.name}:{number}: {case}: {what}" for number, case, cell in found for what in check_row(tests, cell)]
    return broken if found else [f"{page.name}: no table ends in the column `tests`"], len(found)


def main():
    broken, count = check(PAGE, ROOT / "core" / "test")
    if broken:
        sys.exit("\n".join(broken))
    print(f"check_suites: {count} rows: ok")


if __name__ == "__main__":
    main()
