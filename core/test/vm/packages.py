"""Packages for the guest: a kernel with its modules, and busybox. Both are kept below build/vm."""

import hashlib
import lzma
import pathlib
import re
import struct
import subprocess
import sys
import urllib.request

import tables

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
CONFIGURATION = """Dir::State::lists "{0}/lists";
Dir::Cache "{0}/cache";
Dir::Etc::sourcelist "{0}/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::status "/dev/null";
APT::Architecture "{1}";
APT::Architectures {{ "{1}"; }};
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
"""


def repository():
    """Returns the address of Debian's packages that this machine's apt is set up with."""
    listing = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
        check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        origin, label, address = line.split("|")
        if origin == label == "Debian":
            return address
    sys.exit("make vm needs an apt that knows a repository of Debian: run it on Debian")


class Apt:
    """A private apt of one suite and architecture, so that the machine's own stays as it is."""

    def __init__(self, suite, arch):
        self.folder = tables.STORE / "apt" / f"{suite}-{arch}"
        self.configuration = self.folder / "apt.conf"
        if not (self.folder / "updated").exists():
            self.update(suite, arch)

    def update(self, suite, arch):
        for name in ("lists/partial", "cache/archives/partial", "debs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "sources.list").write_text(
            f"deb [arch={arch} signed-by={KEYRING}] {repository()} {suite} main\n")
        self.configuration.write_text(CONFIGURATION.format(self.folder, arch))
        self.run("apt-get", "-q", "-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
                 "-o", "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false", "update")
        (self.folder / "updated").touch()

    def run(self, *command):
        answer = subprocess.run(command, cwd=self.folder / "debs", text=True, capture_output=True,
                                env={"APT_CONFIG": str(self.configuration), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"})
        if answer.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{answer.stdout}{answer.stderr}")
        return answer.stdout

    def needed_by(self, package):
        """Returns the packages of a kernel that this one asks for: an image, in newer suites also its modules."""
        shown = self.run("apt-cache", "--no-all-versions", "show", package)
        depends = "".join(re.findall(r"^Depends: (.*)$", shown, re.M))
        return re.findall(r"\blinux-(?:image|binary|modules|base)-\d[^ ,]*", depends)

    def unpack(self, package, folder):
        """Unpacks the package there and returns its version."""
        self.run("apt-get", "-q", "download", package)
        name = package.split(":")[0]
        file = max((self.folder / "debs").glob(f"{name}_*.deb"), key=lambda path: path.stat().st_mtime)
        subprocess.run(["dpkg-deb", "-x", file, folder], check=True)
        return file.name.split("_")[1].replace("%3a", ":")


def unpack_of_apt(row, folder):
    """Unpacks the packages of the kernel and returns its version."""
    apt = Apt(row.suite, row.arch)
    waiting, done, version = apt.needed_by(row.package), set(), ""
    while waiting:
        package = waiting.pop()
        if package in done:
            continue
        done.add(package)
        waiting += apt.needed_by(package)
        version = apt.unpack(package, folder)
    return version


def unpack_of_address(row, folder):
    """Fetches one package by its address, compares it with its checksum, unpacks it and returns its version."""
    with urllib.request.urlopen(row.package) as answer:
        data = answer.read()
    if hashlib.sha256(data).hexdigest() != row.suite:
        sys.exit(f"{row.package} is not the package of the checksum in kernels.tsv")
    file = folder / row.package.rsplit("/", 1)[1]
    file.write_bytes(data)
    subprocess.run(["dpkg-deb", "-x", file, folder], check=True)
    file.unlink()
    return file.name.split("_")[1]


def kernel(row):
    """Returns the folder that holds the kernel's unpacked packages; the file `version` there says which."""
    folder = tables.STORE / "kernels" / row.name
    if not (folder / "version").exists():
        print(f"fetching {row.package} for {row.arch}", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        by_address = "://" in row.package
        version = unpack_of_address(row, folder) if by_address else unpack_of_apt(row, folder)
        (folder / "version").write_text(version)
    return folder


def image_of(folder):
    """Newer packages keep the kernel beside its modules."""
    return plain_image(next(path for pattern in ("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz") for path in folder.glob(pattern)))


def plain_image(path):
    """Returns the kernel without the EFI program that would unpack it: the emulator has no EFI."""
    data = path.read_bytes()
    if data[4:8] != b"zimg" or not data[24:].startswith(b"zstd\0"):
        return path
    plain = path.with_name("plain-" + path.name)
    if not plain.exists():
        start, length = struct.unpack("<II", data[8:16])
        unpacked = subprocess.run(["zstd", "-d", "-q", "-c"], input=data[start:start + length], check=True, capture_output=True)
        plain.write_bytes(unpacked.stdout)
    return plain


def version_of(folder):
    return (folder / "version").read_text()


def busybox(arch):
    """Returns a static busybox for the architecture, of Debian 12."""
    folder = tables.STORE / "busybox" / arch
    if not (folder / "bin" / "busybox").exists():
        folder.mkdir(parents=True, exist_ok=True)
        Apt("bookworm", arch).unpack("busybox-static", folder)
    return folder / "bin" / "busybox"


def module_files(folder):
    return {re.sub(r"\.ko.*", "", path.name).replace("-", "_"): path for path in sorted(folder.rglob("*.ko*"))}


def module_bytes(path):
    data = pathlib.Path(path).read_bytes()
    return lzma.decompress(data) if path.name.endswith(".xz") else data


def modules(folder, names):
    """Returns (name, contents) of the modules and of what they need, in the order to load them in."""
    files, order = module_files(folder), {}

    def add(name):
        name = name.replace("-", "_")
        if name in order or name not in files:  # what is not a file is built into the kernel
            return
        data = module_bytes(files[name])
        depends = re.search(rb"\0depends=([^\0]*)\0", b"\0" + data)
        for other in (depends.group(1).decode().split(",") if depends else []):
            if other:
                add(other)
        order[name] = data

    for name in names:
        add(name)
    return list(order.items())
