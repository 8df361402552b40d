"""Granary from within a Python program: the figures of the heap, purging, options.

The library must already serve the process, by LD_PRELOAD or because the interpreter was linked with it:

    LD_PRELOAD=/usr/local/lib/libgranary.so python3 app.py

Small objects of Python come from the interpreter's own arenas, which are allocations of 256 KiB or
1 MiB for Granary; with PYTHONMALLOC=malloc each object is an allocation.
"""

import ctypes


class NotServed(RuntimeError):
    """The process does not run on Granary."""


class _Description(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("name", "kind", "unit", "layer", "meaning")]


class _HeapFigures(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("live", "objects", "held", "cap")]


def _library():
    process = ctypes.CDLL(None)
    if not hasattr(process, "granary_version"):
        raise NotServed("this process does not run on Granary: start it with LD_PRELOAD=libgranary.so")
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    for name, result, *arguments in (
        ("granary_version", ctypes.c_char_p),
        ("granary_release_free_memory", size),
        ("granary_set_options", ctypes.c_int, ctypes.c_char_p),
        ("granary_stats", size, ctypes.POINTER(ctypes.c_uint64), size),
        ("granary_stat_describe", ctypes.c_int, size, ctypes.POINTER(_Description)),
        ("granary_heap_create", pointer, ctypes.c_char_p, size),
        ("granary_heap_destroy", None, pointer),
        ("granary_heap_malloc", pointer, pointer, size),
        ("granary_heap_free", None, pointer, pointer),
        ("granary_heap_measure", None, pointer, ctypes.POINTER(_HeapFigures), size),
    ):
        function = getattr(process, name)
        function.restype, function.argtypes = result, arguments
    return process


_granary = _library()


def version():
    return _granary.granary_version().decode()


def stats():
    """All figures of the heap by name, of one measurement; docs/reference/counters.md says what they are."""
    values = (ctypes.c_uint64 * _granary.granary_stats(None, 0))()
    count = _granary.granary_stats(values, len(values))
    figures, row = {}, _Description()
    for index in range(min(count, len(values))):
        if _granary.granary_stat_describe(index, ctypes.byref(row)) == 0:
            figures[row.name.decode()] = values[index]
    return figures


def release_free_memory():
    """Gives free memory back to the system, and returns how many bytes that were."""
    return _granary.granary_release_free_memory()


def set_options(**options):
    """set_options(dirty_decay_ms=5000): ValueError if the library knows no such option or value."""
    text = ",".join(f"{name}:{value}" for name, value in options.items())
    if _granary.granary_set_options(text.encode()) != 0:
        raise ValueError(f"Granary refuses {text}; its line on stderr says why")


class Heap:
    """A scoped heap for buffers: counted and capped; closing it frees all of them.

    with Heap("frames", cap=64 << 20) as heap:
        frame = heap.buffer(1920 * 1080 * 4)

    A buffer must not be used after its heap was closed.
    """

    def __init__(self, name="", cap=0):
        self._heap = _granary.granary_heap_create(name.encode(), cap)
        if not self._heap:
            raise MemoryError("the system refuses memory for a heap")

    def buffer(self, size):
        """A writable buffer of `size` bytes; MemoryError beyond the cap."""
        p = _granary.granary_heap_malloc(self._heap, size)
        if not p:
            raise MemoryError(f"{size} bytes are more than the heap's cap leaves")
        return (ctypes.c_char * size).from_address(p)

    def free(self, buffer):
        _granary.granary_heap_free(self._heap, ctypes.addressof(buffer))

    def figures(self):
        f = _HeapFigures()
        _granary.granary_heap_measure(self._heap, ctypes.byref(f), ctypes.sizeof(f))
        return {name: getattr(f, name) for name, _ in f._fields_}

    def close(self):
        heap, self._heap = self._heap, None
        if heap:
            _granary.granary_heap_destroy(heap)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
