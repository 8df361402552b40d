#!/bin/sh
# python3's own test modules, with every object of the interpreter allocated by the library.
set -eu
. "$(dirname "$0")/lib.inc"
need python3

# Some installations of python3 contain its tests: use the first that does.
python=''
for candidate in python3 /usr/bin/python3 /usr/local/bin/python3; do
  if "$candidate" -c 'import test.test_list, test.libregrtest' 2>/dev/null; then
    python=$("$candidate" -c 'import sys; print(sys.executable)')
    break
  fi
done
[ -n "$python" ] || skip 'no python3 here has its test modules.'

cd "$work"
export PYTHONMALLOC=malloc
under "$python" -c "import sys; sys.exit('$lib' not in open('/proc/self/maps').read())" ||
  fail 'python3 does not run on the library.'
# A distribution may omit some of the modules, as Debian omits test_sqlite3.
modules=$("$python" - <<'PYTHON'
import importlib.util
wanted = """
  test_list test_dict test_set test_tuple test_bytes test_array test_unicode test_json test_pickle
  test_re test_gc test_weakref test_zlib test_bz2 test_hashlib test_struct test_thread
  test_threading test_threading_local test_queue test_fork1 test_subprocess test_mmap test_sqlite3
  test_deque test_heapq test_generators test_exceptions test_atexit test_ctypes
""".split()
print(*(name for name in wanted if importlib.util.find_spec("test." + name)))
PYTHON
)
[ "$(echo "$modules" | wc -w)" -ge 25 ] || fail "too few test modules are here: $modules"
# Where site packages import threading at start, one test that forbids it fails in any case.
# shellcheck disable=SC2086 # a list of words
timeout 800 env LD_PRELOAD="$lib" "$python" -m test -j2 --tempdir "$work" --timeout 400 \
  -i test_import_from_another_thread $modules \
  >"$work/python.log" 2>&1 || fail 'some of the test modules failed.'
grep -E 'Result: SUCCESS|Tests result: SUCCESS' "$work/python.log" || fail 'no success was reported.'
