#!/bin/sh
# Option backing on persistent memory: the heap of python3 in a file whose pages the kernel maps directly (DAX), without a
# copy in the page cache. GRANARY_PMEM names the device, which is formatted: only an emulated machine has one for this.
set -eu
. "$(dirname "$0")/lib.inc"
need python3 mkfs.ext4
device=${GRANARY_PMEM:-}
[ -n "$device" ] || skip 'GRANARY_PMEM names no persistent memory.'
mkfs.ext4 -q -b 4096 "$device" || fail "$device cannot be formatted."
mkdir "$work/pmem"
mount -t ext4 -o dax=always "$device" "$work/pmem" || fail 'the kernel mounts no file system for direct access.'
export PYTHONMALLOC=malloc
python=$(python3 -c 'import sys; print(sys.executable)') # not a script that calls it

cat >"$work/fill.py" <<'PYTHON'
import ctypes, os, re, sys
def cached():
    """KiB of files in memory, without tmpfs."""
    fields = dict(re.findall(r"^(\w+): +(\d+)", open("/proc/meminfo").read(), re.M))
    return int(fields["Cached"]) - int(fields["Shmem"])
def used():
    fs = os.statvfs(sys.argv[1])
    return (fs.f_blocks - fs.f_bfree) * fs.f_frsize >> 10
def mapped():
    return re.findall(r" rw-s .*/heap\.%d \(deleted\)$" % os.getpid(), open("/proc/self/maps").read(), re.M)
before, blocks = cached(), used()
small = [bytes([i % 251]) * 900 for i in range(50000)]
large = bytearray(b"x" * (64 << 20))
assert mapped(), open("/proc/self/maps").read()
assert used() > 100 << 10, (used(), blocks)
assert cached() - before < 20 << 10, (before, cached())
del large
ctypes.CDLL(None).malloc_trim(0)
large = bytearray(80 << 20)
assert not any(large)
assert all(s == bytes([i % 251]) * 900 for i, s in enumerate(small))
child = os.fork()
if child == 0:
    small[0] = b"kid"
    os._exit(0 if all(s == bytes([i % 251]) * 900 for i, s in enumerate(small) if i) else 1)
assert os.waitpid(child, 0)[1] == 0 and small[0] == bytes(900)
PYTHON
under env GRANARY_CONF="backing:$work/pmem/heap" "$python" "$work/fill.py" "$work/pmem" || fail 'python3 does not run in persistent memory.'
[ -z "$(find "$work/pmem" -name 'heap.*')" ] || fail 'a file is left behind.'
umount "$work/pmem"
