// Two sets of bodies to launch on, and the worker that judges what kernels computed of them.

const SETS = 2;

class Judge {
  // Start a worker that knows the sphere of n bodies and another set, drawn anew.
  constructor(n) {
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
    const sphere = numbersOf(CONTENT.bodies[n]);
    this.sets = [{ rows: sphere }, { rows: otherBodies(sphere) }];
    this.sets.forEach(({ rows }, set) => {
      this.worker.postMessage({ set, rows, eps2: CONTENT.eps2, judging: CONTENT.judging });
    });
  }

  fail(message) {
    for (const { reject } of this.waiting.values()) reject(new Refusal(`the judge failed: ${message}`));
    this.waiting.clear();
  }

  // Return the errors of accelerations of a set, and why they are wrong; null when they are right.
  verdict(set, sums) {
    this.number += 1;
    const { number } = this;
    return new Promise((resolve, reject) => {
      this.waiting.set(number, { resolve, reject });
      this.worker.postMessage({ number, set, sums }, [sums.buffer]);
    });
  }

  close() {
    this.worker.terminate();
    URL.revokeObjectURL(this.address);
  }
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
