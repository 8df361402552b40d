#!/usr/bin/env python3
"""Checks the includes in core/src and the imports in tool/internal against the lists in their READMEs.

core/src/README.md has a block fenced with ```layers, a list on each line: `descent:` names the folders
that a call passes, in its order, `beside:` the folders beside them, and `below:` the folders
below all others. A folder includes only folders that come after it in its own list, and
none of the other lists that includes it in turn; a folder below includes only folders below.

Modules include each other in no circle, inside a folder too. A module is X.h with X.cc, or a
table X.def; an X_impl.h belongs to the header that includes it.

docs/images/descent.svg draws the same lists: it names the same folders in the same order.

tool/README.md has a table whose first column names every package. A package imports only packages that
come after it; tests are free.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z0-9_/]+/[a-z0-9_]+\.[a-z]+)"', re.M)
SUFFIXES = {".h", ".cc", ".S", ".def"}
LISTS = ("descent", "beside", "below")
IMPORT = re.compile(r'^\s*(?:import )?"[^"]*/tool/internal/([a-z0-9_/]+)"', re.M)
PACKAGES = re.compile(r"^\| package \|.*?\n\n", re.M | re.S)


def read_lists(readme):
    """Returns {list: [folder, ...]} from the fenced block."""
    block = re.search(r"^```layers\n(.*?)^```", readme.read_text(), re.M | re.S)
    found = dict(re.findall(r"^(\w+): *(.*)$", block.group(1), re.M)) if block else {}
    if set(found) != set(LISTS):
        sys.exit(f"{readme.name}: add a block fenced with ```layers that holds the lists {', '.join(LISTS)}")
    return {name: text.split() for name, text in found.items()}


def read_includes(sources):
    """Returns {file: [included file, ...]}, as paths below `sources`; other includes are left out."""
    files = {str(p.relative_to(sources)): p for p in sorted(sources.rglob("*")) if p.suffix in SUFFIXES}
    return {name: [i for i in INCLUDE.findall(path.read_text()) if i in files and i != name]
            for name, path in files.items()}


def check_drawing(drawing, readme):
    """Returns a line if the drawing does not name the folders of the README in its order."""
    lists = read_lists(readme)
    listed = [name for kind in LISTS for name in lists[kind]]
    title, drawn = re.compile(r"<title.*?</title>", re.S), re.compile(r">([^<]*)</text>")
    words = re.findall(r"(?:^|\s)([a-z/]+)/(?=\s|$)", "\n".join(drawn.findall(title.sub("", drawing.read_text()))), re.M)
    named = [word for word in words if word in listed]
    first = list(dict.fromkeys(named))
    if first == listed:
        return []
    return [f"docs/images/{drawing.name} names {' '.join(first)}; core/src/README.md names {' '.join(listed)}: draw what the README says"]


def folder_of(name):
    return name.rpartition("/")[0]


def breach(folder, target, lists):
    """Says why `folder` may not include from `target`, or returns None."""
    where = {name: kind for kind in LISTS for name in lists[kind]}
    kind = where[folder]
    if target == folder:
        return None
    if kind == "below" and where[target] != "below":
        return f"{folder} is below {target}: pass what it needs in as an argument"
    if where[target] == kind and lists[kind].index(target) < lists[kind].index(folder):
        return f"{target} comes before {folder}: move the shared part down, or call from above"
    return None


def modules_of(includes):
    """Returns {file: module}."""
    module = {name: re.sub(r"\.(h|cc|S)$", "", name) for name in includes}
    for name in includes:
        if not name.endswith("_impl.h"):
            continue
        owners = [other for other, targets in includes.items() if name in targets and other.endswith(".h")]
        if len(owners) == 1:
            module[name] = module[owners[0]]
    return module


def edges_of(includes, group):
    """Returns {group: {included group: (file, included file)}}."""
    edges = {group(name): {} for name in includes}
    for name, targets in includes.items():
        for target in targets:
            if group(target) != group(name):
                edges[group(name)].setdefault(group(target), (name, target))
    return edges


def find_cycle(edges):
    """Returns a shortest circle of nodes, the first one again at its end, or None."""
    best = None
    for start in sorted(edges):
        paths, seen = [[start]], {start}
        while paths and (best is None or len(paths[0]) + 1 < len(best)):
            path = paths.pop(0)
            for target in sorted(edges[path[-1]]):
                if target == start:
                    best, paths = path + [start], []
                    break
                if target not in seen:
                    seen.add(target)
                    paths.append(path + [target])
    return best


def describe_cycle(kind, edges):
    """A line a step of a circle among the nodes of `edges`; none if there is no circle."""
    cycle = find_cycle(edges)
    if cycle is None:
        return []
    lines = [f"{kind} include each other in a circle: {' -> '.join(cycle)}; cut one of these includes"]
    for a, b in zip(cycle, cycle[1:]):
        name, target = edges[a][b]
        lines.append(f'  core/src/{name}: #include "{target}"')
    return lines


def check(sources, readme):
    """Returns what is wrong, a line each, and the numbers of files, folders and modules."""
    lists, includes = read_lists(readme), read_includes(sources)
    includes = {name: targets for name, targets in includes.items() if "/" in name}
    folders = {folder_of(name) for name in includes}
    unnamed = sorted(folders - {name for kind in LISTS for name in lists[kind]})
    if unnamed:
        return [f"core/src/{name}: name this folder in the layers block of core/src/README.md"
                for name in unnamed], None
    lines = []
    for name, targets in includes.items():
        for target in targets:
            reason = breach(folder_of(name), folder_of(target), lists)
            if reason:
                lines.append(f'core/src/{name}: #include "{target}": {reason}')
    module = modules_of(includes)
    modules = edges_of(includes, module.get)
    lines += describe_cycle("folders", edges_of(includes, folder_of))
    lines += describe_cycle("modules", modules)
    return lines, (len(includes), len(folders), len(modules))


def read_packages(readme):
    """Returns the packages that the table of the README names, in its order."""
    table = PACKAGES.search(readme.read_text())
    if table is None:
        sys.exit(f"{readme.name}: add a table whose first column, `package`, names the packages")
    first_columns = re.findall(r"^\|([^|]*)\|", table.group(0), re.M)
    return [name for cell in first_columns for name in re.findall(r"`(?:tool/internal/)?([a-z0-9_/]+)`", cell)]


def read_imports(internal):
    """Returns {package: {imported package: file}}; tests are left out."""
    imports = {}
    for path in sorted(internal.rglob("*.go")):
        if path.name.endswith("_test.go") or "testdata" in path.parts:
            continue
        found = imports.setdefault(str(path.parent.relative_to(internal)), {})
        for target in IMPORT.findall(path.read_text()):
            found.setdefault(target, path.name)
    return imports


def check_packages(internal, readme):
    """Returns what is wrong, a line each, and the number of packages."""
    listed, imports = read_packages(readme), read_imports(internal)
    lines = [f"tool/internal/{name}: name this package in the table of tool/README.md, above what it imports"
             for name in sorted(set(imports) - set(listed))]
    lines += [f"tool/README.md: {name} is no package; remove it" for name in listed if name not in imports]
    lines += [f"tool/README.md: {name} is listed twice; remove one" for name in sorted(set(listed)) if listed.count(name) > 1]
    if lines:
        return lines, 0
    for package, targets in imports.items():
        for target, file in sorted(targets.items()):
            if listed.index(target) <= listed.index(package):
                lines.append(f"tool/internal/{package}/{file} imports {target}, which tool/README.md lists before {package}: "
                             "move the shared part down, or correct the order of the list")
    return lines, len(imports)


def main():
    sources, tool = ROOT / "core" / "src", ROOT / "tool"
    lines, counts = check(sources, sources / "README.md")
    more, packages = check_packages(tool / "internal", tool / "README.md")
    lines += check_drawing(ROOT / "docs" / "images" / "descent.svg", sources / "README.md") + more
    for line in lines:
        print(line)
    if lines:
        sys.exit(1)
    print("check_layers: {} files, {} folders, {} modules of the core, {} packages of the tool: ok".format(*counts, packages))


if __name__ == "__main__":
    main()
