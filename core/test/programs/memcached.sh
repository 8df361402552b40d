#!/bin/sh
# memcached: four clients set, read back, change and delete values of many sizes and check them.
set -eu
. "$(dirname "$0")/lib.inc"
need memcached python3

port=$(free_port)
start memcached memcached -l 127.0.0.1 -p "$port" -U 0 -m 64 -t 4 -u nobody
cat >"$work/client.py" <<'PY'
import random, socket, sys, threading

PORT, FAILED = int(sys.argv[1]), []


class Client:
    def __init__(self):
        self.stream = socket.create_connection(("127.0.0.1", PORT), 10).makefile("rwb")

    def line(self, text, body=b""):
        self.stream.write(text.encode() + b"\r\n" + body)
        self.stream.flush()
        return self.stream.readline().strip()

    def set(self, key, body):
        return self.line(f"set {key} 0 0 {len(body)}", body + b"\r\n")

    def get(self, key):
        answer = self.line(f"get {key}")
        if answer == b"END":
            return None
        body = self.stream.read(int(answer.split()[3]) + 2)[:-2]
        assert self.stream.readline().strip() == b"END"
        return body


def body(key, turn, size):
    return (f"{key}/{turn}/".encode() * (size // 8 + 1))[:size]


def load(number):
    client, chance, known = Client(), random.Random(number), {}
    for turn in range(6000):
        key = f"k{number}-{chance.randrange(500)}"
        if key in known and chance.random() < 0.5:
            found = client.get(key)
            assert found is None or found == known[key], key
        elif chance.random() < 0.2:
            client.line(f"delete {key}")
            known.pop(key, None)
        else:
            known[key] = body(key, turn, int(2 ** chance.uniform(0, 16)))
            assert client.set(key, known[key]) == b"STORED", key


def run(number):
    try:
        load(number)
    except Exception as error:
        FAILED.append(f"client {number}: {error!r}")


if len(sys.argv) > 2:
    Client()
    sys.exit()
threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
sys.exit("; ".join(FAILED) or 0)
PY
probe 20 python3 "$work/client.py" "$port" probe
expect_preloaded "$server"
timeout 600 python3 "$work/client.py" "$port" 2>"$work/client.log" || fail 'a client saw a wrong value.'
alive
