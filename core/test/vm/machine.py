"""Boots one machine with one group of tests and reads the outcome of each test from its console."""

import collections
import re
import shlex
import subprocess
import time

import counts
import image
import packages
import suite
import tables

Outcome = collections.namedtuple("Outcome", "test result seconds reason")
# Switched off: strings copied byte by byte, which is slow here, and the instruction that compares and exchanges 16 bytes: qemu 7.2 spoils
# the flags there, and 6.12, which uses it, dies of a double fault.
EMULATOR = {
    "amd64": "qemu-system-x86_64 -accel tcg,thread=multi -cpu max,la57=off,erms=off,cx16=off -machine q35",
    "arm64": "qemu-system-aarch64 -accel tcg,thread=multi -cpu max -machine virt,gic-version=max",
}
# What makes the emulated kernel quick: no detours against faults that an emulator has not, and a clock that needs no system call.
QUICK = {"amd64": "mitigations=off clocksource=tsc tsc=reliable nokaslr clearcpuid=112", "arm64": "mitigations=off nokaslr"}
CONSOLE = {"amd64": "ttyS0", "arm64": "ttyAMA0"}
SKIPPED = 77


def node_words(machine):
    """Splits memory and CPUs evenly among the nodes."""
    if machine.nodes == 1:
        return []
    words, mib, cpus = [], machine.mib // machine.nodes, machine.cpus // machine.nodes
    for node in range(machine.nodes):
        words += ["-object", f"memory-backend-ram,id=ram{node},size={mib}M",
                  "-numa", f"node,nodeid={node},memdev=ram{node},cpus={node * cpus}-{(node + 1) * cpus - 1}"]
    return words


def command(machine, kernel, initrd, console):
    words = shlex.split(EMULATOR[machine.kernel.arch])
    for row in machine.settings:
        words += shlex.split(row.emulator)
    kernel_words = [f"console={CONSOLE[machine.kernel.arch]}", "quiet", "loglevel=3", "panic=-1", "oops=panic",
                    "cgroup_no_v1=all", "random.trust_cpu=on", QUICK[machine.kernel.arch], *(row.words for row in machine.settings)]
    return [*words, "-smp", str(machine.cpus), "-m", f"{machine.mib}M", *node_words(machine), "-no-reboot", "-nographic",
            "-monitor", "none", "-nic", "none", "-serial", f"file:{console}", "-kernel", str(kernel), "-initrd", str(initrd),
            "-append", " ".join(word for word in kernel_words if word)]


def boot(machine, group, names, seconds):
    """Boots the machine, waits for its end, and returns the console's text and what the host has to add."""
    folder = tables.STORE / "runs" / f"{machine.name}.{group.name}"
    folder.mkdir(parents=True, exist_ok=True)
    own, initrd, console = folder / "machine.cpio", folder / "initrd", folder / "console"
    image.machine_image(machine, group, names, own)
    shared = image.group_image(group, machine.kernel.arch)
    with open(initrd, "wb") as file:
        file.write(shared.read_bytes() + own.read_bytes())
    console.unlink(missing_ok=True)
    words = command(machine, packages.image_of(packages.kernel(machine.kernel)), initrd, console)
    if group.name == counts.GROUP:
        words += counts.emulator_words(folder)
    (folder / "command").write_text(shlex.join(words) + "\n")
    remark = ""
    with open(folder / "emulator", "w") as log:
        try:
            subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, timeout=seconds)
        except subprocess.TimeoutExpired:
            remark = f"the machine was stopped after {seconds} s"
    initrd.unlink()
    if not console.exists():
        return "", "the emulator did not start: " + (folder / "emulator").read_text()[:300]
    text = console.read_text(errors="replace").replace("\r", "")
    if group.name == counts.GROUP:
        counts.keep(folder, text)
    return text, remark


def last_words(text):
    """Returns the line that says most about a failed test."""
    lines = [line[4:].strip() for line in text.splitlines() if line.startswith("@@| ") and line[4:].strip()]
    for line in lines:
        if re.search(r"CHECK|failed|granary:|skipped", line):
            return line
    return lines[-1] if lines else ""


def end_of(text):
    """Returns the first line with which the kernel complains, or the last characters."""
    said = re.search(r"(?:PANIC|Oops|BUG|Kernel panic).*", text)
    return said.group() if said else text[-200:].replace("\n", " ")


def outcome(test, body, remark):
    end = re.search(rf"^@@end {re.escape(test)} (\d+) (-?\d+)$", body, re.M)
    if end is None:
        return Outcome(test, "failed", 0, remark or "the machine ended during this test: " + end_of(body))
    status, seconds = int(end.group(1)), int(end.group(2))
    if status == 0:
        return Outcome(test, "passed", seconds, "")
    said = last_words(body)
    if status == SKIPPED:
        return Outcome(test, "not applicable", seconds, said.removeprefix("skipped: "))
    return Outcome(test, "failed", seconds, f"status {status}: {said}")


def outcomes(names, console, remark):
    """Returns one outcome for each test that began, in the order of the tests."""
    refused = re.search(r"^@@unset (.*)$", console, re.M)
    if refused:
        return [Outcome(name, "failed", 0, "the setting could not be made: " + refused.group(1)) for name in names]
    found = []
    for body in re.split(r"^@@begin ", console, flags=re.M)[1:]:
        found.append(outcome(body.split("\n", 1)[0], body, remark))
    if not found:
        words = remark or "the machine ended before the first test: " + end_of(console)
        return [Outcome(name, "failed", 0, words) for name in names]
    return found


def run(machine, group, names, seconds):
    """Boots once and returns the outcomes of the tests that it came to and the seconds that it took.

    A test that the end of the time broke off counts only if it had the whole time for itself.
    """
    started = time.monotonic()
    console, remark = boot(machine, group, names, seconds)
    rows = outcomes(names, console, remark)
    if remark and len(rows) > 1 and f"@@end {rows[-1].test} " not in console:
        rows.pop()
    return rows, time.monotonic() - started


def kernel_words(machine, group):
    """Returns what the guest's kernel complained about in the last boot."""
    console = tables.STORE / "runs" / f"{machine.name}.{group.name}" / "console"
    return re.findall(r"^@@kernel (.*)$", console.read_text(errors="replace"), re.M) if console.exists() else []
