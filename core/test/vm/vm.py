#!/usr/bin/env python3
"""Runs the tests in virtual machines: kernels, CPUs and settings that this machine does not have.

    vm.py run [MACHINE...]   boots the machines (all but the short ones), and prints the table
    vm.py short              boots the machines of the short form
    vm.py table              prints the table of the last runs
    vm.py record             writes it into docs/design/kernels.md; machines without a run keep their lines there
    vm.py list               names the machines
"""

import argparse
import sys

import machine as machines
import report
import suite
import tables


def run_group(machine, group, options):
    """Boots the machine until each test of the group has run, or `options.boots` times."""
    names = [test.name for test in suite.tests(group, machine.kernel.arch)]
    rows = [row for row in report.kept(machine, group) if options.resume and row.result != "failed"]
    boots, took = 0, 0
    while True:
        waiting = [name for name in names if name not in {row.test for row in rows}]
        if not waiting or boots == options.boots:
            break
        more, seconds = machines.run(machine, group, waiting, options.seconds)
        rows, boots, took = rows + more, boots + 1, took + seconds
        report.keep(machine, group, rows)
    rest = f", {len(waiting)} waiting" if waiting else ""
    print(f"{machine.name}: {group.name}: {report.summary(rows)}{rest}; {boots} boots, {took:.0f} s", flush=True)
    for row in rows:
        if row.result == "failed":
            print(f"  {row.test}: {row.reason}", flush=True)
    for line in machines.kernel_words(machine, group):
        print(f"  kernel: {line}", flush=True)
    return sum(row.result == "failed" for row in rows)


def run_all(chosen, options):
    wanted = [name for name in options.groups.split(",") if name]
    return sum(run_group(machine, group, options)
               for machine in chosen for group in machine.groups if not wanted or group.name in wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "short", "table", "record", "list"))
    parser.add_argument("machines", nargs="*", help="names from machines.tsv")
    parser.add_argument("--groups", default="", help="only these groups of tests, separated by commas")
    parser.add_argument("--seconds", type=int, default=1200, help="longest time of one boot; the rest has the next")
    parser.add_argument("--boots", type=int, default=20, help="most boots of a machine and group")
    parser.add_argument("--resume", action="store_true", help="keep what passed in earlier boots and run the others")
    options = parser.parse_intermixed_args()
    known = tables.read_machines()
    for name in options.machines:
        if name not in known:
            sys.exit(f"vm.py: no machine is called {name}; vm.py list names them")
    short = [machine for name, machine in known.items() if name.startswith("short-")]
    chosen = [known[name] for name in options.machines] or (
        short if options.verb == "short" else [row for row in known.values() if row not in short])
    if options.verb == "list":
        print("\n".join(known))
        return
    if options.verb == "record":
        report.record(known.values())
        return
    failed = run_all(chosen, options) if options.verb != "table" else 0
    print(report.table(chosen), end="")
    if failed:
        sys.exit(f"make vm: {failed} tests failed; the consoles are in build/vm/runs")


if __name__ == "__main__":
    main()
