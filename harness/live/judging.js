// Sets of bodies to launch on, and the worker that judges what kernels computed of them.

const SETS = 2;
const HEAVY = 6; // bodies drawn to be heavy, beside the first and the last
const USUAL_SOFTENING = 0.05; // each drawn set has its own, up to twice or down to half of it

class Judge {
  // Start a worker that knows sets of rows and eps2: the sphere of n bodies and another one, drawn anew, or those
  // that are given.
  constructor(n, sets = setsOfSphere(n)) {
    const text = document.getElementById("worker").textContent;
    this.address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    this.worker = new Worker(this.address);
    this.waiting = new Map();
    this.number = 0;
    this.worker.onmessage = ({ data }) => {
      this.waiting.get(data.number).resolve(data);
      this.waiting.delete(data.number);
    };
    this.worker.onerror = (event) => this.fail(event.message);
    this.sets = sets;
    sets.forEach(({ rows, eps2 }, set) => this.worker.postMessage({ set, rows, eps2, judging: CONTENT.judging }));
  }

  fail(message) {
    for (const { reject } of this.waiting.values()) reject(new Refusal(`the judge failed: ${message}`));
    this.waiting.clear();
  }

  // Return the errors of accelerations of a set, and why they are wrong; null when they are right. `explain` is
  // as judge.js says.
  verdict(set, sums, explain = null) {
    this.number += 1;
    const { number } = this;
    return new Promise((resolve, reject) => {
      this.waiting.set(number, { resolve, reject });
      this.worker.postMessage({ number, set, sums, explain }, [sums.buffer]);
    });
  }

  close() {
    this.worker.terminate();
    URL.revokeObjectURL(this.address);
  }
}

function setsOfSphere(n) {
  const sphere = numbersOf(CONTENT.bodies[n]);
  return [sphere, otherBodies(sphere)].map((rows) => ({ rows, eps2: CONTENT.eps2 }));
}

// Draw n of the bodies of the largest sphere, as gravbench.judging.judgement: about half of the mass is in a few, the
// first and the last among them. With `isNear` their distances are about the softening length.
function drawnSet(n, isNear) {
  const sphere = numbersOf(CONTENT.bodies[Math.max(...CONTENT.sizes)]);
  const order = shuffled(sphere.length / 4).subarray(0, n);
  const rows = otherBodies(Float32Array.from({ length: 4 * n }, (_, at) => sphere[4 * order[at >> 2] + (at & 3)]));
  const heavy = [0, n - 1, ...Array.from({ length: HEAVY }, () => Math.floor(Math.random() * n))];
  for (const body of new Set(heavy)) rows[4 * body + 3] *= Math.max(1, n / (2 + HEAVY));
  const eps = USUAL_SOFTENING * 2 ** (2 * Math.random() - 1);
  const whole = rows.reduce((sum, value, at) => (at % 4 === 3 ? sum + value : sum), 0);
  const squares = rows.reduce((sum, value, at) => (at % 4 < 3 ? sum + value * value : sum), 0);
  const size = isNear ? eps / Math.sqrt(squares / (3 * n)) : 1;
  return { rows: rows.map((value, at) => (at % 4 === 3 ? value / whole : size * value)), eps2: Math.fround(eps * eps) };
}

function numbersOf(encoded) {
  const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, place) => view.getFloat32(4 * place, true));
}

// Return as many bodies in another order, turned about a random axis, with other masses of the same sum.
function otherBodies(rows) {
  const n = rows.length / 4;
  const order = shuffled(n);
  const turn = randomRotation();
  const weights = Float64Array.from({ length: n }, () => 0.5 + Math.random());
  const whole = weights.reduce((sum, weight) => sum + weight, 0);
  const mass = rows.reduce((sum, value, place) => (place % 4 === 3 ? sum + value : sum), 0);
  const made = new Float32Array(rows.length);
  order.forEach((from, to) => {
    const position = rows.subarray(4 * from, 4 * from + 3);
    turn.forEach((row, axis) => {
      made[4 * to + axis] = row.reduce((sum, factor, k) => sum + factor * position[k], 0);
    });
    made[4 * to + 3] = (mass * weights[to]) / whole;
  });
  return made;
}

function shuffled(n) {
  const order = Int32Array.from({ length: n }, (_, place) => place);
  for (let place = n - 1; place > 0; place -= 1) {
    const other = Math.floor(Math.random() * (place + 1));
    [order[place], order[other]] = [order[other], order[place]];
  }
  return order;
}

// Return the rows of a rotation: that of a random quaternion.
function randomRotation() {
  const drawn = [0, 1, 2, 3].map(() => Math.random() - 0.5);
  const length = Math.hypot(...drawn) || 1;
  const [w, x, y, z] = drawn.map((value) => value / length);
  return [
    [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
    [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
    [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
  ];
}
