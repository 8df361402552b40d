#!/usr/bin/env python3
"""check_exports.py [--update] LIBRARY: checks the exports and the dependencies of the shared library.

The exported names must be those of core/test/golden/exports.txt; the library may need libc and the
loader only, and must load into a C program, so nothing of the C++ runtime may be strongly undefined. The state of the heap must be zeroed memory, and
the mark of the end of the code must stand there.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "core" / "test" / "golden" / "exports.txt"
ALLOWED_NEEDED = re.compile(r"^(libc\.so\.6|ld-linux.*\.so\.\d+)$")
STATE = {"granary::layers": "_ZN7granary6layersE", "granary::upkeep": "_ZN7granary6upkeepE"}
CXX_RUNTIME = re.compile(r"^(_Z|__cxa_(?!finalize|atexit|thread_atexit_impl)|__gxx_|_Unwind_)")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library):
    return sorted(line.split()[0] for line in output("nm", "-D", "-P", "--defined-only", library).splitlines())


def complaints_about_needs(library):
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", library)):
        if not ALLOWED_NEEDED.match(name):
            yield f"the library needs {name}: only libc may be needed"
    for line in output("nm", "-D", "-P", "--undefined-only", library).splitlines():
        name, kind = line.split()[:2]
        if kind == "U" and CXX_RUNTIME.match(name):
            yield f"{name} is strongly undefined: a C program has no C++ runtime, so refer to it weakly"


def complaints_about_state(library):
    """The layers and upkeep must be in zeroed memory: as initialised data, each process would read them from the file."""
    kinds = {line.split()[0]: line.split()[1] for line in output("nm", "-P", library).splitlines()}
    for name, symbol in STATE.items():
        if symbol not in kinds:
            yield f"{name} is not among the symbols: correct its name in this script, or pass a library that is not stripped"
        elif kinds[symbol] not in "bB":
            yield f"{name} has members that are not zero initially: represent their first value by zero"


def complaints_about_code(library):
    """granary_code_end must be the end of the code: beyond it begins what the loader maps next, a module of the program."""
    code = [line.split() for line in output("readelf", "-lW", library).splitlines() if re.match(r"\s*LOAD.* E ", line)]
    last = max(int(address, 16) + int(size, 16) for _, _, address, _, _, size, *_ in code)
    ends = [int(fields[2], 16) for fields in map(str.split, output("nm", "-P", library).splitlines()) if fields[0] == "granary_code_end"]
    if not ends:
        yield "granary_code_end is not among the symbols: define it in cold.ld, or pass a library that is not stripped"
    elif not last - 0x10000 < ends[0] <= last:
        yield f"granary_code_end is {ends[0]:#x}, but the code ends at {last:#x}: define it behind the last code in cold.ld"


def complaints_about_exports(library):
    if not GOLDEN.exists():
        yield f"{GOLDEN.relative_to(ROOT)} is missing: write it with scripts/check_exports.py --update {library}"
        return
    golden, found = set(GOLDEN.read_text().split()), set(exported(library))
    for name in sorted(golden - found):
        yield f"{name} is no longer exported: restore it, or run scripts/check_exports.py --update"
    for name in sorted(found - golden):
        yield f"{name} is newly exported: hide it, or run scripts/check_exports.py --update"


def main(arguments):
    update = arguments[:1] == ["--update"]
    arguments = arguments[1:] if update else arguments
    if len(arguments) != 1:
        sys.exit("usage: check_exports.py [--update] LIBRARY")
    library = arguments[0]
    if update:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("".join(f"{name}\n" for name in exported(library)))
    complaints = [*complaints_about_needs(library), *complaints_about_state(library), *complaints_about_code(library),
                  *complaints_about_exports(library)]
    for line in complaints:
        print(f"check_exports: {line}")
    if complaints:
        sys.exit(1)
    print(f"check_exports: {len(exported(library))} symbols: ok")


if __name__ == "__main__":
    main(sys.argv[1:])
