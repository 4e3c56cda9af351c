// A suite of small programs of the kinds that browser engines were compared by: numbers, objects, bits, calls, text,
// patterns, sorting. `node suite.js ROUNDS` runs it so many times and then prints one JSON line.
'use strict';

const { readdirSync, readFileSync } = require('fs');

/** Rotates the corners of a cube, and sums where they end. */
function rotate(turns) {
  let corners = [];
  for (let corner = 0; corner < 8; corner++) {
    corners.push([corner & 1 ? 1 : -1, corner & 2 ? 1 : -1, corner & 4 ? 1 : -1]);
  }
  for (let turn = 0; turn < turns; turn++) {
    const [sine, cosine] = [Math.sin(turn / 50), Math.cos(turn / 50)];
    corners = corners.map(([x, y, z]) => [x * cosine - y * sine, x * sine + y * cosine, z]);
  }
  return corners.reduce((sum, [x, y, z]) => sum + Math.abs(x) + Math.abs(y) + Math.abs(z), 0);
}

/** Builds a tree of objects and counts them. */
function grow(depth) {
  return depth === 0 ? { left: null, right: null } : { left: grow(depth - 1), right: grow(depth - 1) };
}

function count(tree) {
  return tree === null ? 0 : 1 + count(tree.left) + count(tree.right);
}

/** Counts the bits of many numbers. */
function bits(numbers) {
  let sum = 0;
  for (let number = 0; number < numbers; number++) {
    for (let rest = number * 2654435761 >>> 0; rest !== 0; rest &= rest - 1) {
      sum++;
    }
  }
  return sum;
}

/** Calls itself. */
function fibonacci(number) {
  return number < 2 ? number : fibonacci(number - 1) + fibonacci(number - 2);
}

/** Multiplies two matrices. */
function multiply(size) {
  const matrix = Array.from({ length: size }, (_, row) => Float64Array.from({ length: size }, (_, column) => row - column));
  const product = matrix.map((row) => row.map((_, column) => row.reduce((sum, value, at) => sum + value * matrix[at][column], 0)));
  return product[size - 1][size - 1];
}

/** Makes text, takes it apart by a pattern, and counts its words. */
function words(sentences) {
  let text = '';
  for (let sentence = 0; sentence < sentences; sentence++) {
    text += `Sentence ${sentence} has ${sentence % 7} words, or ${(sentence * 31).toString(36)}; `;
  }
  const counts = new Map();
  for (const [word] of text.matchAll(/[a-z0-9]+/gi)) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return counts.size;
}

/** Sorts records by two keys. */
function sort(records) {
  const list = Array.from({ length: records }, (_, at) => ({ key: at * 7919 % 1009, name: String(at) }));
  list.sort((one, other) => one.key - other.key || one.name.localeCompare(other.name));
  return list[0].key;
}

/** Migrations and involuntary switches of this process's threads; null where the kernel does not report them. */
function switches() {
  let [migrations, preemptions] = [0, 0];
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      const text = readFileSync(`/proc/self/task/${thread}/sched`, 'utf8');
      migrations += Number(/^se\.nr_migrations\s*:\s*(\d+)/m.exec(text)[1]);
      preemptions += Number(/^nr_involuntary_switches\s*:\s*(\d+)/m.exec(text)[1]);
    }
    return { migrations, preemptions };
  } catch {
    return null;
  }
}

const begun = process.hrtime.bigint();
let checksum = 0;
for (let round = Number(process.argv[2]); round > 0; round--) {
  checksum += rotate(400) + count(grow(11)) + bits(4000) + fibonacci(18) + multiply(28) + words(150) + sort(400);
}
if (!Number.isFinite(checksum)) {
  throw new Error(`the suite computed ${checksum}`);
}
const foreground_ms = Number(process.hrtime.bigint() - begun) / 1e6;
console.log(JSON.stringify({ foreground_ms, switches: switches() }));
