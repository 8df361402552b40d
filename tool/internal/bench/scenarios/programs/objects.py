"""Objects that live and die as in a service written in Python; prints what is left of the memory."""
import json
import random
import sys
import threading
import time
import zlib

SIZE = int(sys.argv[1])


class Record:
    def __init__(self, number):
        self.number = number
        self.name = "record %d" % number
        self.tags = {"tag%d" % (number % 7): number, "text": "x" * (number % 200)}


def churn(seed, rounds):
    """A table whose records are replaced at random."""
    chance = random.Random(seed)
    table = [Record(i) for i in range(20000)]
    for number in range(rounds):
        table[chance.randrange(len(table))] = Record(number)
    return sum(len(r.name) for r in table)


def parse(seed, rounds):
    """Documents to text and back, compressed in between."""
    chance = random.Random(seed)
    total = 0
    for _ in range(rounds):
        document = {"items": [{"id": i, "value": chance.random(), "list": list(range(i % 20))} for i in range(200)]}
        text = json.dumps(document).encode()
        total += len(json.loads(zlib.decompress(zlib.compress(text, 1)))["items"])
    return total


def resident():
    with open("/proc/self/smaps_rollup") as rollup:
        for line in rollup:
            if line.startswith("Rss:"):
                return int(line.split()[1]) * 1024
    return 0


def main():
    threads = [threading.Thread(target=churn, args=(n, 40000 * SIZE)) for n in range(2)]
    threads += [threading.Thread(target=parse, args=(n, 100 * SIZE)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    peak = [bytes(random.randrange(10, 2000)) for _ in range(100000)]
    del peak
    time.sleep(2)
    print("metric RSS_after_the_fall %d bytes" % resident())


main()
