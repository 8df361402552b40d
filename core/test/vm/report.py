"""Keeps outcomes below build/vm/results and makes the table kernel x setting from them."""

import collections
import datetime
import re

import counts
import machine as machines
import packages
import suite
import tables

RESULTS = ("passed", "failed", "not applicable")
PAGE = tables.ROOT / "docs" / "design" / "kernels.md"
HEAD = ("| machine | kernel | CPUs | nodes | setting | tests | version | passed | failed | not applicable | waiting | day |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|")


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
    """Returns the outcomes of the tests that the machine's groups have now."""
    rows = []
    for group in machine.groups:
        outcomes = kept(machine, group)
        names = {test.name for test in suite.tests(group, machine.kernel.arch)} if outcomes else ()
        rows += [row for row in outcomes if row.test in names]
    return rows


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


def waiting(machine):
    """Returns how many tests of the machine's groups have no outcome."""
    return sum(len(suite.tests(group, machine.kernel.arch)) for group in machine.groups) - len(rows_of(machine))


def day_of(machine):
    newest = max(file_of(machine, group).stat().st_mtime for group in machine.groups if kept(machine, group))
    return datetime.datetime.fromtimestamp(newest, datetime.timezone.utc).strftime("%Y-%m-%d")


def about(machine):
    settings, groups = (", ".join(row.name for row in rows) for rows in (machine.settings, machine.groups))
    return f"| {machine.name} | {machine.kernel.name} | {machine.cpus} | {machine.nodes} | {settings} | {groups} |"


def line_of(machine):
    """Returns the machine's line of the table, or None if it has no outcome."""
    rows = rows_of(machine)
    if not rows:
        return None
    counts = collections.Counter(row.result for row in rows)
    numbers = [*(counts[result] for result in RESULTS), waiting(machine)]
    version = packages.version_of(packages.kernel(machine.kernel))
    return f"{about(machine)} {version} | " + " | ".join(map(str, numbers)) + f" | {day_of(machine)} |"


def notes_of(machine):
    return [f"- {machine.name}: {result}: {', '.join(f'`{test}`' for test in tests)}: {reason}"
            for (result, reason), tests in exceptions(rows_of(machine)).items()]


def table(chosen):
    lines = list(HEAD)
    for machine in chosen:
        lines += filter(None, [line_of(machine)])
    return "\n".join(lines + [""] + [note for machine in chosen for note in notes_of(machine)]) + "\n"


def record(chosen):
    """Brings the document up to date: machines with outcomes get new lines, the others keep theirs."""
    old = block_of("measured")
    lines, notes = list(HEAD), []
    for machine in chosen:
        line = line_of(machine)
        mine = re.findall(rf"^- {re.escape(machine.name)}: .*$", old, re.M) if line is None else notes_of(machine)
        kept_line = re.search(rf"^\| {re.escape(machine.name)} \|(?!.*not booted).*$", old, re.M)
        lines.append(line or (kept_line and kept_line.group()) or f"{about(machine)} not booted | | | | | |")
        notes += mine
    write_block("measured", "\n".join(lines + [""] + notes) + "\n")
    write_block("counted", counts.table(chosen, block_of("counted")))


def parts_of(name):
    """Returns the document before, in and after the block between its two marks."""
    return re.split(rf"(?<=<!-- {name} -->\n)(.*?)(?=<!-- end of {name} -->)", PAGE.read_text(), flags=re.S)


def block_of(name):
    return parts_of(name)[1]


def write_block(name, text):
    before, _, after = parts_of(name)
    PAGE.write_text(before + text + after)
