#!/usr/bin/env python3
"""Checks that every include in core/src follows the layer order of core/src/README.md.

The order stands there in a block fenced with ```layers: in the order a call passes them, then `below:`
and the folders that lie below all of them. Layers on one line may include each other. A layer may
include itself, the layers after it and the folders below; a folder below only folders below.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "core" / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z0-9_/]+)/[a-z0-9_]+\.')


def read_order(readme):
    """Returns (layers from the top, folders below) from the fenced block."""
    block = re.search(r"^```layers\n(.*?)^```", readme.read_text(), re.M | re.S)
    if block is None:
        sys.exit(f"{readme.relative_to(ROOT)}: add a block fenced with ```layers that lists them")
    above, _, below = block.group(1).partition("below:")
    return [line.split() for line in above.splitlines()], below.split()


def breach(folder, target, layers, below):
    """Says why `folder` may not include from `target`, or returns None."""
    if target == folder or target in below:
        return None
    height = {name: i for i, storey in enumerate(layers) for name in storey}
    if target not in height:
        return f"name {target} in the layers block of core/src/README.md, or move the header"
    if folder in below:
        return f"{folder} lies below all layers: pass what it needs in as an argument"
    if height[target] < height[folder]:
        return f"{target} lies above {folder}: move the shared part down, or call from above"
    return None


def check_file(path, layers, below):
    folder = str(path.parent.relative_to(SOURCES))
    for number, line in enumerate(path.read_text().splitlines(), 1):
        include = INCLUDE.match(line)
        if include is None or not (SOURCES / include.group(1)).is_dir():
            continue
        reason = breach(folder, include.group(1), layers, below)
        if reason:
            yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}: {reason}"


def main():
    readme = SOURCES / "README.md"
    if not readme.exists():
        sys.exit("core/src/README.md is missing: it holds the order of the layers")
    layers, below = read_order(readme)
    known = {name for storey in layers for name in storey} | set(below)
    files = sorted(p for p in SOURCES.rglob("*") if p.suffix in {".h", ".cc", ".S", ".def"})
    folders = {str(path.parent.relative_to(SOURCES)) for path in files}
    breaches = [
        f"core/src/{folder}: name this folder in the layers block of core/src/README.md"
        for folder in sorted(folders - known - {"."})
    ]
    for path in files:
        if len(path.relative_to(SOURCES).parts) > 1:
            breaches += check_file(path, layers, below)
    for line in breaches:
        print(line)
    if breaches:
        sys.exit(1)
    print(f"check_layers: {len(files)} files in {len(known)} folders: ok")


if __name__ == "__main__":
    main()
