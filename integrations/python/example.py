"""What Granary says of a program that builds a large table, drops it, and asks for its memory back."""

import granary


def mib(figures, name):
    return f"{figures[name] / 2**20:.1f} MiB"


def main():
    print(granary.version())
    table = {i: bytes(1000) for i in range(100_000)}
    full = granary.stats()
    print("full:", mib(full, "live"), "live in", full["live_objects"], "objects")
    table.clear()
    given = granary.release_free_memory()
    print(f"given back: {given / 2**20:.1f} MiB; now", mib(granary.stats(), "live"), "live")
    with granary.Heap("frames", cap=16 << 20) as heap:
        frames = []
        try:
            while True:
                frames.append(heap.buffer(1 << 20))
                frames[-1][0] = b"x"
        except MemoryError as refusal:
            print(len(frames), "frames, then:", refusal)
        print("frames:", heap.figures())


if __name__ == "__main__":
    main()
