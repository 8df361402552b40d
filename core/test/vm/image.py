"""The guest's first file system: one archive a group and architecture, and a small one a machine."""

import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import cpio
import packages
import suite
import tables

CROSS = pathlib.Path("/usr/aarch64-linux-gnu/lib")
LOADER = {"amd64": "/lib64/ld-linux-x86-64.so.2", "arm64": "/lib/ld-linux-aarch64.so.1"}
STRIP = {"amd64": "strip", "arm64": "aarch64-linux-gnu-strip"}
ACCOUNTS = {
    "/etc/passwd": "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
    "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
# Parts of python3's library that no test reads.
LEFT_OUT = {"test", "__pycache__", "site-packages", "dist-packages", "idlelib", "ensurepip", "lib2to3", "tkinter"}
# Folders that a program reads beside itself.
BESIDE = {"git": ["/usr/lib/git-core", "/usr/share/git-core"]}


def needed_libraries(path, arch):
    """Returns pairs of the library's place in the guest and its file here."""
    if arch != "amd64":
        names = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6")
        return [("/lib/" + name, CROSS / name) for name in names if (CROSS / name).exists()]
    shown = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    return [(place, pathlib.Path(place)) for place in re.findall(r"(/\S+) \(0x", shown)]


def contents(path, arch):
    """Returns the file's bytes, a program's without what only debuggers read."""
    path = pathlib.Path(path)
    data = path.read_bytes()
    if data[:4] != b"\x7fELF" or tables.BUILD not in path.parents:
        return data
    kept = tables.STORE / "stripped" / hashlib.sha1(data).hexdigest()
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([STRIP[arch], "--strip-debug", "-o", kept, path], check=True)
    return kept.read_bytes()


class Image:
    """Adds files and whatever they need to the archive, each once."""

    def __init__(self, path, arch):
        self.archive = cpio.Archive(path)
        self.arch = arch
        self.seen = set()

    def add(self, path, place=None):
        place = str(place or path)
        if place in self.seen or not os.path.exists(path):
            return
        self.seen.add(place)
        self.archive.write(place, contents(path, self.arch), 0o755)
        if open(path, "rb").read(4) == b"\x7fELF":
            for library, file in needed_libraries(path, self.arch):
                self.add(file, library)

    def add_folder(self, folder):
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if not path.is_file() or LEFT_OUT.intersection(path.relative_to(folder).parts) or path.suffix == ".a":
                continue
            if path.is_symlink():
                self.link(path)
            else:
                self.add(path)

    def link(self, path):
        """A link stays one: git has a name of its own for each of its commands."""
        self.add(os.path.realpath(path))
        if str(path) not in self.seen:
            self.seen.add(str(path))
            self.archive.link(str(path), os.path.realpath(path))


def commands_of(script):
    """Returns what the script says it needs with `need`, and what busybox has no applet for."""
    named = re.findall(r"^need (.*)$", pathlib.Path(script).read_text(), re.M)
    return [word for line in named for word in line.split()]


def add_script(image, script):
    folder = pathlib.Path(script).parent
    image.add_folder(folder)
    if "\nneed_granary\n" in pathlib.Path(script).read_text():
        image.add(tables.BUILD / "bin" / "granary")
    for command in commands_of(script):
        path = shutil.which(command, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if path is None:
            continue
        if command == "python3":
            add_python(image, path)
        else:
            image.add(os.path.realpath(path), path)
        for beside in BESIDE.get(command, []):
            image.add_folder(beside)


def add_python(image, python):
    """Adds the interpreter that this name leads to, maybe through a script that chooses one, and its library."""
    shown = subprocess.run([python, "-c", "import os, sys, sysconfig\n"
                            "print(os.path.realpath(sys.executable), sysconfig.get_path('stdlib'), sep='\\n')"],
                           check=True, capture_output=True, text=True)
    program, library = shown.stdout.splitlines()
    if "/usr/bin/python3" not in image.seen:
        image.archive.link("/usr/bin/python3", program)
        image.seen.add("/usr/bin/python3")
    image.add(program)
    image.add_folder(library)


def add_tests(image, tests):
    for test in tests:
        for word in [*test.words, *(pair.split("=", 1)[1] for pair in test.environment)]:
            if not word.startswith("/") or not os.path.isfile(word):
                continue
            if word.endswith(".sh"):
                add_script(image, word)
            elif word not in ("/usr/bin/sh", "/bin/sh"):
                image.add(word)


@functools.lru_cache
def group_image(group, arch):
    """Returns the archive of everything that the group's tests need."""
    path = tables.STORE / "images" / f"{group.name}-{arch}.cpio"
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image(path, arch)
    image.add(packages.busybox(arch), "/bin/busybox")
    image.archive.link("/bin/sh", "busybox")
    image.archive.link("/usr/bin/sh", "/bin/busybox")
    image.add(CROSS / os.path.basename(LOADER[arch]) if arch != "amd64" else LOADER[arch], LOADER[arch])
    image.archive.write("/init", (tables.HERE / "init").read_bytes(), 0o755)
    for name, text in ACCOUNTS.items():
        image.archive.write(name, text.encode())
    for folder in ("/proc", "/sys", "/dev", "/tmp", "/root", "/run", "/machine"):
        image.archive.folder(folder)
    image.archive.entry("/dev/console", 0o020600, device=(5, 1))
    add_tests(image, suite.tests(group, arch))
    image.archive.close()
    return path


def machine_image(machine, group, names, path):
    """Writes what is this machine's alone: its settings, its modules and the list of the tests to run."""
    archive = cpio.Archive(path)
    folder = packages.kernel(machine.kernel)
    loaded = packages.modules(folder, " ".join(row.modules for row in machine.settings).split())
    for number, (name, data) in enumerate(loaded):
        archive.write(f"/machine/modules/{number:02}-{name}.ko", data)
    commands = "".join(f"setting {row.name} {quoted(row.command)}\n" for row in machine.settings if row.command)
    archive.write("/machine/settings", commands.encode())
    environment = [word for row in machine.settings for word in row.environment.split()]
    lines = [suite.line_for_guest(test, environment) for test in suite.tests(group, machine.kernel.arch)
             if test.name in names]
    archive.write("/machine/tests", "".join(lines).encode())
    archive.close()


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"
