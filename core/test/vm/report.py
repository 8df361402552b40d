"""Keeps outcomes below build/vm/results and prints the table kernel x setting from them."""

import collections

import machine as machines
import packages
import tables

RESULTS = ("passed", "failed", "not applicable")


def file_of(machine, group):
    return tables.STORE / "results" / f"{machine.name}.{group.name}.tsv"


def keep(machine, group, rows):
    path = file_of(machine, group)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(str(field).replace("\t", " ") for field in row) + "\n" for row in rows))


def kept(machine, group):
    path = file_of(machine, group)
    if not path.exists():
        return []
    return [machines.Outcome(*line.split("\t")) for line in path.read_text().splitlines()]


def rows_of(machine):
    return [row for group in machine.groups for row in kept(machine, group)]


def summary(rows):
    counts = collections.Counter(row.result for row in rows)
    return ", ".join(f"{counts[result]} {result}" for result in RESULTS)


def exceptions(row):
    """Returns each reason with the tests it kept from passing."""
    reasons = collections.defaultdict(list)
    for entry in row:
        if entry.result != "passed":
            reasons[(entry.result, entry.reason)].append(entry.test)
    return reasons


def table(chosen):
    lines = ["| kernel | CPUs | nodes | setting | tests | passed | failed | not applicable |", "|---|---|---|---|---|---|---|---|"]
    notes = []
    for machine in chosen:
        rows = rows_of(machine)
        if not rows:
            continue
        counts = collections.Counter(row.result for row in rows)
        version = packages.version_of(packages.kernel(machine.kernel))
        setting = ", ".join(row.name for row in machine.settings)
        groups = ", ".join(group.name for group in machine.groups if kept(machine, group))
        kernel = f"{machine.kernel.name} ({version})"
        lines.append(f"| {kernel} | {machine.cpus} | {machine.nodes} | {setting} | {groups} | " +
                     " | ".join(str(counts[result]) for result in RESULTS) + " |")
        for (result, reason), tests in exceptions(rows).items():
            notes.append(f"- {machine.name}: {result}: {', '.join(f'`{test}`' for test in tests)}: {reason}")
    return "\n".join(lines + [""] + notes) + "\n"
