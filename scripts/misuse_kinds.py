#!/usr/bin/env python3
"""misuse_kinds.py PROGRAM [NAME=LIBRARY[,OPTIONS]...] [--at-least NAME=COUNT]... [--write PAGE]

Runs each kind of misuse of core/test/misuse_kinds at each of its sizes, under the C library's
malloc and under each LIBRARY with GRANARY_CONF=OPTIONS, and prints what happened to it:

  caught   the program died, or the allocator's behaviour made the misuse harmless
  at exit  the program committed the misuse undisturbed, and died when it exited
  -        nothing happened

Fails if a COUNT of caught ones is not reached. --write puts the table into the page in place of
its last one.
"""

import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys

BEGIN, END = "<!-- kinds: begin -->", "<!-- kinds: end -->"


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("libraries", nargs="*")
    parser.add_argument("--at-least", action="append", default=[])
    parser.add_argument("--write")
    return parser.parse_args()


def environment_of(library, options):
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "GRANARY_CONF")}
    if library:
        environment["LD_PRELOAD"] = os.path.realpath(library)
    if options:
        environment["GRANARY_CONF"] = options
    return environment


def outcome(program, kind, size, environment):
    result = subprocess.run(
        [program, kind, size], env=environment, capture_output=True, text=True, errors="replace",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        timeout=120, check=False)
    if "failed: " in result.stderr:
        sys.exit(f"{kind}, {size} bytes: {result.stderr}")
    if "missed\n" not in result.stderr:
        return "caught"
    return "at exit" if result.returncode < 0 else "-"


def table(cases, names, outcomes):
    lines = ["| misuse | bytes | " + " | ".join(names) + " |", "|---|--:|" + "---|" * len(names)]
    for kind, size in cases:
        cells = [outcomes[name][kind, size] for name in names]
        shown = f"{int(size):,}" if int(size) else ""
        lines.append(f"| {kind} | {shown} | " + " | ".join(cells) + " |")
    totals = [str(count(outcomes[name])) for name in names]
    lines.append(f"| **caught, of {len(cases)}** | | " + " | ".join(totals) + " |")
    return "\n".join(lines)


def count(of):
    return sum(value == "caught" for value in of.values())


def write(page, text):
    page = pathlib.Path(page)
    body = re.sub(f"{BEGIN}.*{END}", f"{BEGIN}\n{text}\n{END}", page.read_text(), flags=re.S)
    page.write_text(body)


def main():
    arguments = parse()
    listed = subprocess.run([arguments.program, "--list"], capture_output=True, text=True, check=True)
    cases = [tuple(line.split("\t")) for line in listed.stdout.splitlines()]
    outcomes = {}
    for row in ["glibc=", *arguments.libraries]:
        name, _, rest = row.partition("=")
        library, _, options = rest.partition(",")
        environment = environment_of(library, options)
        outcomes[name] = {c: outcome(arguments.program, *c, environment) for c in cases}
    text = table(cases, list(outcomes), outcomes)
    print(text)
    if arguments.write:
        write(arguments.write, text)
    missing = [f"{name}: {count(outcomes[name])} caught, {least} expected"
               for name, _, least in (a.partition("=") for a in arguments.at_least)
               if count(outcomes[name]) < int(least)]
    sys.exit("\n".join(missing) or 0)


if __name__ == "__main__":
    main()
