#!/bin/sh
# Option backing: the whole heap of python3 and of redis-server in a file, on the disk and on tmpfs. A fork has a
# heap of its own; a heap that cannot be in a file is in memory, after one message.
set -eu
. "$(dirname "$0")/lib.inc"
need python3 redis-server redis-cli redis-benchmark

export PYTHONMALLOC=malloc
python=$(python3 -c 'import sys; print(sys.executable)') # not a script that calls it
heap=$work/heap
backed() { under env GRANARY_CONF="backing:$heap" "$@"; }

# The objects lie in the file; a freed block leaves the process; nothing is left behind.
cat >"$work/fill.py" <<'PYTHON'
import ctypes, os, re
def smaps(field):
    """KiB of a field over all mappings of the heap's file."""
    total, inside = 0, False
    for line in open("/proc/self/smaps"):
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            inside = re.search(r" rw-s .*/heap\.%d \(deleted\)$" % os.getpid(), line.rstrip()) is not None
        elif inside and line.startswith(field + ":"):
            total += int(line.split()[1])
    return total
small = [bytes([i % 251]) * 900 for i in range(50000)]
large = bytearray(b"x" * (64 << 20))
assert smaps("Rss") > 100 << 10, smaps("Rss")
del large
ctypes.CDLL(None).malloc_trim(0)
assert smaps("Rss") < 70 << 10, smaps("Rss")
assert all(s == bytes([i % 251]) * 900 for i, s in enumerate(small))
large = bytearray(80 << 20)
assert not any(large)
PYTHON
backed "$python" "$work/fill.py" || fail 'python3 does not run in a file.'
[ -z "$(find "$work" -name 'heap.*')" ] || fail 'a file is left behind.'

# A fork has a copy: neither process sees what the other writes later, however they take turns.
cat >"$work/fork.py" <<'PYTHON'
import os
data = [bytearray(b"old") for _ in range(100000)]
to_child, from_child = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.read(to_child[0], 1)
    same = all(d == b"old" for d in data)
    for d in data: d[:] = b"kid"
    more = [bytearray(1000) for _ in range(20000)]
    os.write(from_child[1], b"1")
    os._exit(0 if same and all(d == b"kid" for d in data) else 1)
for d in data: d[:] = b"new"
os.write(to_child[1], b"1")
os.read(from_child[0], 1)
assert all(d == b"new" for d in data)
_, status = os.waitpid(child, 0)
assert status == 0, status
grandchild = os.spawnlp(os.P_WAIT, "true", "true")
assert grandchild == 0
assert os.system("exit 3") >> 8 == 3
PYTHON
backed "$python" "$work/fork.py" || fail 'a fork shares the heap.'

# A real server saves in the background while its data changes, and the saved data is that of the moment.
port=$(free_port)
mkdir "$work/data"
start redis env GRANARY_CONF="backing:$heap" redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$work/data" --enable-debug-command yes
cli() { redis-cli -h 127.0.0.1 -p "$port" "$@"; }
probe 20 cli ping
timeout 600 redis-benchmark -h 127.0.0.1 -p "$port" -q -c 20 -P 16 -n 50000 -r 30000 -d 700 -t set >"$work/load.log"
cli set moment before >/dev/null
cli bgsave >/dev/null
cli set moment after >/dev/null
timeout 600 redis-benchmark -h 127.0.0.1 -p "$port" -q -c 20 -P 16 -n 50000 -r 30000 -d 900 -t set >"$work/load.log"
saved() { cli info persistence | grep -q '^rdb_bgsave_in_progress:0'; }
probe 60 saved
cli info persistence | grep -q '^rdb_last_bgsave_status:ok' || fail 'the background save failed.'
expect_equal after "$(cli get moment)" 'value after the save'
cli debug reload nosave >/dev/null
expect_equal before "$(cli get moment)" 'saved value'

# What the command says of such a heap adds up to the kernel's figure.
command=${GRANARY_BUILD:-none}/bin/granary
if [ -x "$command" ]; then
  start python env GRANARY_CONF="backing:$heap" "$python" -c 'import time; kept = [bytes(1000) for _ in range(100000)]; print("filled", flush=True); time.sleep(60)'
  filled() { grep -q filled "$work/python.log"; }
  probe 20 filled
  "$command" why "$server" >"$work/why.log" || fail 'granary why fails.'
  grep -q 'the sum differs by 0\.0' "$work/why.log" || fail "granary why says: $(cat "$work/why.log")"
  grep -q '^= live  *1[0-9][0-9] MiB' "$work/why.log" || fail "granary why says: $(cat "$work/why.log")"
fi

# What cannot be: one message, and the heap is in memory.
says() {
  pattern=$1 path=$2 limit=${3:-true}
  sh -c "$limit"'; exec env LD_PRELOAD="$1" GRANARY_CONF="backing:$2" "$3" -c "$4"' sh "$lib" "$path" "$python" \
    'print("ran", sum(len(bytes(1000)) for _ in range(1000)))' >"$work/out" 2>"$work/err" || fail "python3 failed with backing:$path: $(cat "$work/err")"
  grep -q 'ran 1000000' "$work/out" || fail "python3 did not run with backing:$path"
  expect_equal 1 "$(grep -c '^granary: ' "$work/err")" "messages about backing:$path"
  grep -q "$pattern" "$work/err" || fail "backing:$path says: $(cat "$work/err")"
}
says 'there is no such folder' "$work/none/heap"
says 'an absolute path' heap
says 'a limit of file sizes' "$heap" 'ulimit -f 100000'
says 'address space' "$heap" 'ulimit -v 800000'
if under env GRANARY_CONF="abort_conf:true,backing:$work/none/heap" true 2>/dev/null; then
  fail 'abort_conf accepts a file that cannot be.'
fi

# A program that closes every descriptor keeps its heap, which grows on; another file under the same number is not touched.
cat >"$work/close.py" <<'PYTHON'
import os, resource
os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0] if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 1 << 20 else 1 << 16)
other = os.open(os.environ["OTHER"], os.O_RDWR | os.O_CREAT, 0o600)
os.write(other, b"precious" * 100000)
for number in range(700, 800): os.dup2(other, number)
for _ in range(20):
    large = bytearray(b"x" * (50 << 20))
    del large
child = os.fork()
if child == 0: os._exit(len(bytearray(30 << 20)) % 251)
assert os.waitpid(child, 0)[1] >> 8 == (30 << 20) % 251
assert os.pread(other, 800000, 0) == b"precious" * 100000
PYTHON
OTHER=$work/other backed "$python" "$work/close.py" 2>"$work/err" || fail "a closed file: $(cat "$work/err")"

# A full file system fails the allocation, with one message; on tmpfs, which needs root.
[ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null || exit 0
cat >"$work/full.py" <<'PYTHON'
kept = []
try:
    while True: kept.append(bytearray(b"x" * (1 << 20)))
except MemoryError: pass
assert len(kept) > 20 and all(k[0] == k[-1] == 120 for k in kept), len(kept)
del kept[10:]
kept.append(bytearray(b"y" * (1 << 20)))
PYTHON
mkdir "$work/small"
# shellcheck disable=SC2016  # the shell that is started expands these
unshare --mount sh -eu -c 'mount -t tmpfs -o size=64m tmpfs "$1"; LD_PRELOAD=$2 GRANARY_CONF="backing:$1/heap" exec "$4" "$3"' \
  sh "$work/small" "$lib" "$work/full.py" "$python" 2>"$work/err" || fail "a full file system: $(cat "$work/err")"
expect_equal 1 "$(grep -c '^granary: .*full' "$work/err")" 'messages about a full file system'
# shellcheck disable=SC2016  # as above
unshare --mount sh -eu -c 'mount -t tmpfs -o ro tmpfs "$1"; LD_PRELOAD=$2 GRANARY_CONF="backing:$1/heap" exec true' \
  sh "$work/small" "$lib" 2>"$work/err"
grep -q 'read-only' "$work/err" || fail "a read-only file system: $(cat "$work/err")"
