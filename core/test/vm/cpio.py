"""Writes the archive that the kernel unpacks as its first file system: cpio in the format `newc`."""

import os
import stat


class Archive:
    def __init__(self, path):
        self.file = open(path, "wb")
        self.folders = set()
        self.number = 0

    def entry(self, name, mode, data=b"", device=(0, 0)):
        name = name.lstrip("/")
        self.number += 1
        encoded = name.encode() + b"\0"
        fields = [self.number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        self.file.write(header + b"\0" * (-len(header) % 4) + data + b"\0" * (-len(data) % 4))

    def folder(self, name):
        name = name.strip("/")
        if not name or name in self.folders:
            return
        self.folder(os.path.dirname(name))
        self.folders.add(name)
        self.entry(name, stat.S_IFDIR | 0o755)

    def write(self, name, data, mode=0o644):
        self.folder(os.path.dirname(name))
        self.entry(name, stat.S_IFREG | mode, data)

    def link(self, name, target):
        self.folder(os.path.dirname(name))
        self.entry(name, stat.S_IFLNK | 0o777, target.encode())

    def close(self):
        self.entry("TRAILER!!!", 0)
        self.file.write(b"\0" * (-self.file.tell() % 512))
        self.file.close()
