#!/usr/bin/env python3
"""Checks that every path that a document names in backticks, and every file that it links to, exists.

A text in backticks is a path if it contains a slash and begins with a folder of the repository. It is searched
from the root, from core/src (layers are named by folder there) and from the document's own folder. A link is
relative to the document.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INLINE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"^[A-Za-z0-9_.*{},-]+(?:/[A-Za-z0-9_.*{},-]+)*/?$")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
FENCE = re.compile(r"^\s*(```|~~~)")


def documents():
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, capture_output=True, text=True)
    return sorted(ROOT / name for name in set(listing.stdout.split()) if (ROOT / name).exists())


def expand(token):
    """Turns a/{b,c}.d into a/b.d and a/c.d."""
    braces = re.search(r"\{([^{}]*)\}", token)
    if braces is None:
        return [token]
    return [name for choice in braces.group(1).split(",")
            for name in expand(token[:braces.start()] + choice + token[braces.end():])]


def exists(token, bases):
    return any(any(base.glob(token.rstrip("/"))) for base in bases)


def check(document, top_level):
    bases = [ROOT, ROOT / "core" / "src", document.parent]
    fenced = False
    for number, line in enumerate(document.read_text().splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        if fenced:
            continue
        for target in LINK.findall(INLINE.sub("", line)):
            if not (document.parent / target).exists():
                yield f"{document.relative_to(ROOT)}:{number}: the link to {target} leads nowhere: correct the path"
        for token in INLINE.findall(line):
            if "/" not in token or not PATH.match(token) or token.split("/")[0] not in top_level:
                continue
            for name in expand(token):
                if not exists(name, bases):
                    yield f"{document.relative_to(ROOT)}:{number}: `{name}` does not exist: correct the path"


def main():
    top_level = {entry.name for base in (ROOT, ROOT / "core" / "src") if base.is_dir()
                 for entry in base.iterdir() if entry.is_dir()} - {".git", "build"}
    found = documents()
    broken = [line for document in found for line in check(document, top_level)]
    for line in broken:
        print(line)
    if broken:
        sys.exit(1)
    print(f"check_doc_paths: {len(found)} documents: ok")


if __name__ == "__main__":
    main()
