// The judge, in a worker: adds direct sums up in float64 and in float32, and compares with them what a kernel computed.
//
// It is told of a set of bodies once, and then judges accelerations of it. Messages: { set, rows, eps2, judging } and
// { number, set, sums }, answered by { number, errors, objection }. With { explain: { former, tiles } }, the numbers of
// the set of the launch before and of bodies that a kernel may work on together, the answer has the likely cause and
// the wrong rows of what is wrong.

const sets = new Map();
const f = Math.fround;

onmessage = ({ data }) => {
  const { number, set, rows, eps2, judging, sums, explain } = data;
  if (rows) sets.set(set, { ...columnsOf(rows), rows: Float64Array.from(rows), eps2, judging, all: null });
  else postMessage({ number, ...verdict(sets.get(set), sums), ...explained(sets.get(set), sums, explain) });
};

function columnsOf(rows) {
  const column = (lane) => Float64Array.from({ length: rows.length / 4 }, (_, body) => rows[4 * body + lane]);
  return { n: rows.length / 4, x: column(0), y: column(1), z: column(2), mass: column(3) };
}

// Return the errors of accelerations, three numbers for each body, and why they are wrong; null when they are right.
function verdict(bodies, sums) {
  const rows = comparedRows(bodies);
  const comparesAll = rows.length === bodies.n;
  // Once for all verdicts on a set whose bodies are all compared.
  const reference = (comparesAll && bodies.all) || referenceOf(bodies, rows);
  if (comparesAll) bodies.all = reference;
  const computed = new Float64Array(3 * rows.length);
  rows.forEach((body, row) => {
    for (let axis = 0; axis < 3; axis += 1) computed[3 * row + axis] = sums[3 * body + axis];
  });
  const { scale, ...errors } = errorsOf(computed, reference);
  let objection = objectionTo({ ...errors, scale }, reference.limits);
  objection = objection || notFinite(sums, bodies.n);
  if (!objection && !comparesAll) objection = sumOfForces(bodies, sums, reference);
  return { errors, objection };
}

// Return why accelerations of few bodies are wrong, and which; nothing where they are right, or nobody asks.
function explained(bodies, sums, explain) {
  if (!explain || !verdict(bodies, sums).objection) return {};
  const { former, tiles } = explain;
  const { exact, magnitudes, limits } = bodies.all;
  const wrong = rowsWhere(sums, (at) => sums[at] !== exact[at]).map((isOther, row) => {
    const [at, axes] = [3 * row, [0, 1, 2]];
    const apart = over(Math.hypot(...axes.map((axis) => sums[at + axis] - exact[at + axis])), lengthAt(magnitudes, at));
    return isOther && !(apart <= limits.max);
  });
  const named = wrong.includes(true);
  const rows = named ? wrong : wrong.map(() => true);
  const before = sets.get(former);
  const cause = causeOf({ bodies, former: before, tiles, computed: sums, exact, magnitudes, wrong: rows });
  return { cause, rows: named ? rangesOf(wrong) : "" };
}

// Return the bodies that are compared: all of few, else one of each of equal parts, and the first and the last.
function comparedRows({ n, judging }) {
  if (n <= judging.allRowsUpTo) return Int32Array.from({ length: n }, (_, body) => body);
  const edge = (part) => Math.floor((n * part) / judging.sampledRows);
  const drawn = Array.from({ length: judging.sampledRows }, (_, part) => {
    return edge(part) + Math.floor(Math.random() * (edge(part + 1) - edge(part)));
  });
  return Int32Array.from(new Set([0, ...drawn, n - 1])).sort();
}

function referenceOf(bodies, rows) {
  const reference = {
    exact: new Float64Array(3 * rows.length),
    magnitudes: new Float64Array(3 * rows.length),
    plain: new Float64Array(3 * rows.length),
  };
  rows.forEach((body, row) => {
    addExactly(bodies, body, reference, 3 * row);
    addPlainly(bodies, body, reference, 3 * row);
  });
  reference.limits = limitsOf(reference, bodies.judging);
  return reference;
}

function addExactly({ n, x, y, z, mass, eps2 }, i, { exact, magnitudes }, at) {
  let [ax, ay, az, sizeX, sizeY, sizeZ] = [0, 0, 0, 0, 0, 0];
  for (let j = 0; j < n; j += 1) {
    const dx = x[j] - x[i];
    const dy = y[j] - y[i];
    const dz = z[j] - z[i];
    const inverse = 1 / Math.sqrt(dx * dx + (dy * dy + (dz * dz + eps2)));
    const strength = mass[j] * inverse * (inverse * inverse);
    ax += strength * dx;
    ay += strength * dy;
    az += strength * dz;
    sizeX += Math.abs(strength * dx);
    sizeY += Math.abs(strength * dy);
    sizeZ += Math.abs(strength * dz);
  }
  exact.set([ax, ay, az], at);
  magnitudes.set([sizeX, sizeY, sizeZ], at);
}

// The same in float32: each operation is rounded.
function addPlainly({ n, x, y, z, mass, eps2 }, i, { plain }, at) {
  let [ax, ay, az] = [f(0), f(0), f(0)];
  for (let j = 0; j < n; j += 1) {
    const dx = f(x[j] - x[i]);
    const dy = f(y[j] - y[i]);
    const dz = f(z[j] - z[i]);
    const squared = f(f(dx * dx) + f(f(dy * dy) + f(f(dz * dz) + eps2)));
    const inverse = f(1 / f(Math.sqrt(squared)));
    const strength = f(f(mass[j] * inverse) * f(inverse * inverse));
    ax = f(ax + f(strength * dx));
    ay = f(ay + f(strength * dy));
    az = f(az + f(strength * dz));
  }
  plain.set([ax, ay, az], at);
}

function notFinite(sums, n) {
  let bad = 0;
  for (let body = 0; body < n; body += 1) {
    if (!Number.isFinite(sums[3 * body] + sums[3 * body + 1] + sums[3 * body + 2])) bad += 1;
  }
  return bad ? `${bad.toLocaleString("en")} accelerations are NaN or infinite, or were not written` : null;
}

// Judge what no sample of bodies shows: forces that do not sum to zero.
function sumOfForces({ n, mass, judging }, sums, { exact, magnitudes, limits }) {
  const rows = exact.length / 3;
  let [longest, whole] = [0, 0];
  for (let row = 0; row < rows; row += 1) {
    longest += lengthAt(magnitudes, 3 * row);
    whole += lengthAt(exact, 3 * row);
  }
  const cancellation = whole ? longest / whole : 0;
  const total = [0, 0, 0];
  let [sizes, squares] = [0, 0];
  for (let body = 0; body < n; body += 1) {
    for (let axis = 0; axis < 3; axis += 1) total[axis] += mass[body] * sums[3 * body + axis];
    const size = mass[body] * lengthAt(sums, 3 * body) * cancellation;
    sizes += size;
    squares += size * size;
  }
  const accepted = limits.rms * (judging.together * sizes + judging.deviations * Math.sqrt(squares));
  const length = Math.hypot(...total);
  if (length <= accepted) return null;
  return `the forces on all bodies sum to ${digits(length / sizes)} of their magnitudes, where they have to cancel`;
}
