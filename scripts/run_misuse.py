#!/usr/bin/env python3
"""run_misuse.py SOURCE PROGRAM: runs a program of core/test/misuse under the library in GRANARY_LIB.

The first lines of its source say what must happen:
  // dies: TEXT   it ends by SIGABRT and its standard error holds TEXT
  // lives: TEXT  it exits with 0, and its standard error holds TEXT, if there is one
  // env: A=B     set for the run; may be repeated
"""

import os
import re
import resource
import signal
import subprocess
import sys

HEADER = re.compile(r"^//\s*(dies|lives|env):\s*(.*?)\s*$")


def read_header(source):
    """Returns (message, whether the program must live, environment)."""
    message, lives, environment = None, False, {}
    with open(source, encoding="utf-8") as lines:
        for line in lines:
            field = HEADER.match(line)
            if field is None:
                break
            kind, value = field.groups()
            if kind in ("dies", "lives"):
                if message is not None:
                    sys.exit(f"{source}: begin with one `// dies: TEXT` or `// lives:`")
                message, lives = value, kind == "lives"
            else:
                name, _, setting = value.partition("=")
                environment[name] = setting
    if message is None:
        sys.exit(f"{source}: begin with either `// dies: TEXT` or `// lives:`")
    return message, lives, environment


def run(program, environment):
    return subprocess.run(
        [program], env={**os.environ, "LD_PRELOAD": os.environ["GRANARY_LIB"], **environment},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        capture_output=True, text=True, errors="replace", timeout=50, check=False)


def describe(status):
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"exited with {status}"


def verdict(message, lives, result):
    """Returns what is wrong with the result, or None."""
    expected, words = (0, "exit with 0") if lives else (-signal.SIGABRT, "end with SIGABRT")
    if result.returncode != expected:
        return f"{describe(result.returncode)} but must {words} and the message: {message}"
    if message not in result.stderr:
        return f"ended without the message: {message}"
    return None


def main():
    if len(sys.argv) != 3 or "GRANARY_LIB" not in os.environ:
        sys.exit("usage: GRANARY_LIB=LIBRARY run_misuse.py SOURCE PROGRAM")
    message, lives, environment = read_header(sys.argv[1])
    result = run(sys.argv[2], environment)
    wrong = verdict(message, lives, result)
    if wrong:
        sys.exit(f"{os.path.basename(sys.argv[1])}: {wrong}\n--- its standard error:\n{result.stderr}")
    print(f"{os.path.basename(sys.argv[1])}: ok")


if __name__ == "__main__":
    main()
