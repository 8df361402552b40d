// Objects, buffers and workers as in a service written in JavaScript; prints what is left of the memory.
'use strict';
const fs = require('fs');
const zlib = require('zlib');
const { Worker, isMainThread, workerData } = require('worker_threads');
const { promisify } = require('util');
const deflate = promisify(zlib.deflate);

const size = Number(isMainThread ? process.argv[2] : workerData);

async function buffers(rounds) {
  const kept = new Array(500).fill(null);
  for (let i = 0; i < rounds; i++) {
    const body = Buffer.allocUnsafeSlow(1000 + ((i * 7919) % 60000)).fill(i % 251);
    kept[i % kept.length] = i % 4 === 0 ? await deflate(body, { level: 1 }) : body;
  }
  return kept.reduce((sum, buffer) => sum + buffer.length, 0);
}

function objects(rounds) {
  const map = new Map();
  for (let i = 0; i < rounds; i++) {
    map.set(`k${(i * 31) % 9973}`, { i, text: 'x'.repeat(i % 300), list: [i, i + 1] });
  }
  return JSON.parse(JSON.stringify([...map.values()])).length;
}

function resident() {
  const rollup = fs.readFileSync('/proc/self/smaps_rollup', 'utf8');
  return Number(/^Rss:\s+(\d+)/m.exec(rollup)[1]) * 1024;
}

async function main() {
  if (!isMainThread) {
    objects(50000 * size);
    await buffers(500 * size);
    return;
  }
  const workers = [0, 1].map(() => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: size });
    worker.on('exit', resolve);
    worker.on('error', reject);
  }));
  objects(50000 * size);
  await buffers(1000 * size);
  await Promise.all(workers);
  await new Promise((resolve) => setTimeout(resolve, 2000));
  console.log(`metric RSS_after_the_fall ${resident()} bytes`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
