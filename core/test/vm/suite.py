"""The tests of a group as ctest knows them: command, environment, time and the status that means `skipped`."""

import functools
import json
import re
import shlex
import subprocess

import counts
import tables

# What an emulated processor needs, in times of what ctest grants.
PATIENCE = 3


def build_folder(arch):
    return tables.BUILD if arch == "amd64" else tables.BUILD / arch


@functools.lru_cache
def listing(arch):
    shown = subprocess.run(["ctest", "--test-dir", build_folder(arch), "--show-only=json-v1"],
                           check=True, capture_output=True, text=True)
    return json.loads(shown.stdout)["tests"]


def without_emulator(words):
    """Drops `qemu-aarch64 -L FOLDER -E NAME=VALUE` and returns the rest and the environment that -E set."""
    if "qemu-" not in words[0]:
        return words, []
    at = words.index("-E") if "-E" in words else 2
    environment = [words[at + 1]] if "-E" in words else []
    return words[at + (2 if environment else 1):], environment


def tests(group, arch):
    if group.name == counts.GROUP:
        return counts.tests()
    found = []
    for test in listing(arch):
        if not re.search(group.pattern, test["name"]) or "command" not in test:
            continue
        properties = {row["name"]: row["value"] for row in test["properties"]}
        words, environment = without_emulator(test["command"])
        found.append(tables.Test(test["name"], words, int(properties.get("TIMEOUT", 90)) * PATIENCE,
                                 environment + list(properties.get("ENVIRONMENT", []))))
    return found


def line_for_guest(test, environment):
    """Returns name, seconds and command, which the guest's init reads."""
    command = shlex.join(["env", *test.environment, *environment, *test.words])
    return f"{test.name}|{test.seconds}|{command}\n"
