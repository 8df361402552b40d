#!/usr/bin/env python3
"""Keeps the copies of the version that other programs read (chart, crate, image names) equal to the file VERSION.

version.py --check [X.Y.Z]   fails if a copy, or X.Y.Z, differs from VERSION
version.py X.Y.Z             writes X.Y.Z to VERSION and to every copy
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUMBER = r"(\d+\.\d+\.\d+)"
IMAGE = [rf"\bgranary(?:-lib|-debian|-alpine)?:{NUMBER}"]
COPIES = {
    "integrations/docker/*": IMAGE,
    "integrations/kubernetes/*.yaml": IMAGE,
    "integrations/kubernetes/Dockerfile": IMAGE,
    "integrations/kubernetes/chart/values.yaml": IMAGE,
    "integrations/kubernetes/node-chart/values.yaml": IMAGE,
    "integrations/kubernetes/node-chart/Chart.yaml": [rf"^version: {NUMBER}", rf'^appVersion: "{NUMBER}"'],
    "integrations/kubernetes/chart/Chart.yaml": [rf"^version: {NUMBER}", rf'^appVersion: "{NUMBER}"'],
    "integrations/rust/granary/Cargo.toml": [rf'^version = "{NUMBER}"'],
    "docs/guides/containers.md": IMAGE,
}


def copies():
    """Each file, and the matches of the version in it."""
    for pattern, places in COPIES.items():
        found = [(path, [match for place in places for match in re.finditer(place, path.read_text(), re.MULTILINE)])
                 for path in sorted(ROOT.glob(pattern)) if path.is_file()]
        if not any(matches for _, matches in found):
            sys.exit(f"version.py: no version in {pattern}: correct this script")
        yield from found


def check(expected):
    differing = [f"{path.relative_to(ROOT)} has {match.group(1)}" for path, matches in copies() for match in matches
                 if match.group(1) != expected]
    if differing:
        sys.exit("version.py: VERSION is " + expected + "; " + "; ".join(differing) +
                 f": run scripts/version.py {expected}")
    print(f"version: {expected}: ok")


def write(version):
    (ROOT / "VERSION").write_text(version + "\n")
    for path, matches in copies():
        text = path.read_text()
        for match in sorted(matches, key=lambda m: m.start(1), reverse=True):
            text = text[:match.start(1)] + version + text[match.end(1):]
        path.write_text(text)


def main():
    current = (ROOT / "VERSION").read_text().strip()
    match sys.argv[1:]:
        case ["--check"]:
            check(current)
        case ["--check", wanted]:
            if wanted != current:
                sys.exit(f"version.py: VERSION is {current}, not {wanted}: tag the commit that sets it")
            check(current)
        case [version] if re.fullmatch(NUMBER, version):
            write(version)
        case _:
            sys.exit("usage: scripts/version.py --check [X.Y.Z] | X.Y.Z")


if __name__ == "__main__":
    main()
