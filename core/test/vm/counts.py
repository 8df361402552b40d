"""Counts what programs do under several allocators on machines with many CPUs.

Counts of the emulator and of the guest's kernel say the same on a machine that shares few real processors; times do not.
"""

import collections
import pathlib
import re
import subprocess

import tables

SOURCES = tables.HERE / "counts"
FOLDER = tables.STORE / "counts"
GROUP = "counts"
SYSTEM = pathlib.Path("/usr/lib/x86_64-linux-gnu")
ALLOCATORS = {
    "Granary": tables.BUILD / "lib" / "libgranary.so.1",
    "glibc": "-",
    "jemalloc": SYSTEM / "libjemalloc.so.2",
    "mimalloc": SYSTEM / "libmimalloc.so.2",
    "TCMalloc": SYSTEM / "libtcmalloc_minimal.so.4",
}
FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror"]
# What counts.c prints, and the column's head.
COLUMNS = {"calls": "system calls", "futex": "calls of futex", "faults": "page faults", "switches": "context switches"}

Row = collections.namedtuple("Row", "name program arguments")


def compiled(source, file, flags):
    """Returns the file, made from the source if that is newer."""
    path = FOLDER / file
    if not path.exists() or path.stat().st_mtime < (SOURCES / source).stat().st_mtime:
        FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", *FLAGS, *flags, "-o", path, SOURCES / source], check=True)
    return path


def counter():
    return compiled("counts.c", "counts", ["-static", "-no-pie"])


def tests():
    """Returns one test for each program and allocator that is installed."""
    rows = tables.read("counts/counts.tsv", Row).values()
    return [tables.Test(f"counts.{row.name}.{name}",
                 [str(counter()), str(library), str(tables.BUILD / "bench" / row.program), *row.arguments.split()], 120, [])
            for row in rows for name, library in ALLOCATORS.items() if library == "-" or library.exists()]


def emulator_words(folder):
    """Returns the emulator's words that make it count the instructions between the counter's two marks."""
    shown = subprocess.run(["nm", counter()], check=True, capture_output=True, text=True).stdout
    at = {name: re.search(rf"^([0-9a-f]+) T Counts{name}$", shown, re.M).group(1) for name in ("Begin", "End")}
    plugin = compiled("instructions.c", "instructions.so", ["-shared", "-fPIC"])
    return ["-plugin", f"{plugin},begin=0x{at['Begin']},end=0x{at['End']},out={folder / 'instructions'}"]


def keep(folder, console):
    """Appends the boot's counts to those of the machine; a later count of the same replaces an earlier one."""
    said = re.findall(r"^@@counts (\S+) (\S+) (.*)$", console, re.M)
    numbers = (folder / "instructions").read_text().split()
    with open(folder / "counts.tsv", "a") as file:
        for (program, library, counts), instructions in zip(said, numbers):
            file.write(f"{program}\t{library}\tinstructions={instructions} {counts}\n")


def line_of(machine, program, library, counts):
    of = dict(word.split("=") for word in counts.split())
    numbers = [f"{int(of['instructions']) / 1e6:,.0f}", *(f"{int(of[key]):,}" for key in COLUMNS)]
    return f"| {machine.cpus} | {program} | {library} | " + " | ".join(numbers) + " |"


def counted(machine):
    """Returns the machine's lines of the table by program and allocator."""
    names = {str(library): name for name, library in ALLOCATORS.items()}
    path = tables.STORE / "runs" / f"{machine.name}.{GROUP}" / "counts.tsv"
    rows = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    return {(program, names[library]): line_of(machine, program, names[library], counts)
            for program, library, counts in rows}


def table(machines, old=""):
    """Returns the table; what was not counted here keeps its line of the old one."""
    heads = ["CPUs", "program", "allocator", "instructions, millions", *COLUMNS.values()]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for machine in machines:
        if GROUP not in (group.name for group in machine.groups):
            continue
        kept = re.findall(rf"^(\| {machine.cpus} \| (\S+) \| (\S+) \|.*)$", old, re.M)
        rows = {(program, name): line for line, program, name in kept} | counted(machine)
        lines += [rows[key] for key in sorted(rows, key=lambda key: (key[0], list(ALLOCATORS).index(key[1])))]
    return "\n".join(lines) + "\n"
