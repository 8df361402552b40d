#!/bin/sh
# node: workers that come and go, buffers, zlib and crypto in the thread pool; the same output with
# and without the library.
set -eu
. "$(dirname "$0")/lib.inc"
need node
cat >"$work/main.js" <<'JS'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const zlib = require('zlib');
const crypto = require('crypto');
const { promisify } = require('util');
const deflate = promisify(zlib.deflate);
const inflate = promisify(zlib.inflate);

const digest = (data) => crypto.createHash('sha256').update(data).digest('hex').slice(0, 16);

function objects(seed) {
  const map = new Map();
  for (let i = 0; i < 60000; i++) {
    map.set(`k${(i * seed) % 9973}`, { i, text: 'x'.repeat(i % 300), list: [i, seed] });
  }
  return [...map.values()].reduce((sum, value) => (sum + value.i + value.text.length) % 1e9, 0);
}

async function buffers(seed) {
  const hash = crypto.createHash('sha256');
  for (let i = 1; i < 120; i++) {
    const plain = Buffer.alloc((i * 7919 * seed) % 400000, String(i));
    const back = await inflate(await deflate(plain));
    if (!back.equals(plain)) throw new Error('a buffer changed');
    hash.update(back);
  }
  return hash.digest('hex').slice(0, 16);
}

async function main() {
  const run = (seed) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  for (let wave = 0; wave < 3; wave++) {
    const results = await Promise.all([1, 2, 3, 4].map((n) => run(n + wave * 4)));
    console.log(wave, results.join(' '));
  }
  console.log(objects(17), await buffers(3), digest(Buffer.alloc(1 << 25, 'g')));
}

if (isMainThread) main();
else buffers(workerData).then((text) => parentPort.postMessage(`${objects(workerData)}:${text}`));
JS
under node -e "process.exit(require('fs').readFileSync('/proc/self/maps', 'utf8').includes('$lib') ? 0 : 1)" ||
  fail 'node does not run on the library.'
compare_runs node "$work/main.js"
