"""Reads the tables of this folder: machines, kernels, settings and groups of tests."""

import collections
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
BUILD = ROOT / "build"
STORE = BUILD / "vm"

Kernel = collections.namedtuple("Kernel", "name arch suite package")
Setting = collections.namedtuple("Setting", "name emulator words modules environment command")
Group = collections.namedtuple("Group", "name pattern")
Test = collections.namedtuple("Test", "name words seconds environment")
Machine = collections.namedtuple("Machine", "name kernel cpus nodes mib settings groups")


def read(name, row_type):
    """Returns a dictionary of rows by their first column; `-` becomes the empty string."""
    rows = {}
    for number, line in enumerate((HERE / name).read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = ["" if field == "-" else field for field in line.split("\t")]
        if len(fields) != len(row_type._fields):
            sys.exit(f"{name}:{number}: {len(fields)} fields where {len(row_type._fields)} belong: {', '.join(row_type._fields)}")
        rows[fields[0]] = row_type(*fields)
    return rows


def one_of(rows, name, what, where):
    if name not in rows:
        sys.exit(f"{where}: no {what} is called {name}; known are {', '.join(rows)}")
    return rows[name]


KERNELS = read("kernels.tsv", Kernel)
SETTINGS = read("settings.tsv", Setting)
GROUPS = read("groups.tsv", Group)


def read_machines():
    """Returns the machines with their columns as rows of the other tables."""
    machines = {}
    for row in read("machines.tsv", Machine).values():
        where = f"machines.tsv, {row.name}"
        machines[row.name] = row._replace(
            kernel=one_of(KERNELS, row.kernel, "kernel", where), cpus=int(row.cpus), nodes=int(row.nodes), mib=int(row.mib),
            settings=[one_of(SETTINGS, name, "setting", where) for name in row.settings.split()],
            groups=[one_of(GROUPS, name, "group", where) for name in row.groups.split()])
    return machines
