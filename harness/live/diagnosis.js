// What is likely wrong with a result: each known mistake is a hypothesis about what was computed instead.
//
// As gravbench.judging.diagnosis, with its sentences: a hypothesis computes in float64 what a kernel with that mistake
// would. The one that is nearest to the result explains it, if it is far nearer than what was expected.

const NEARER = 0.05; // times as far from a hypothesis as from what was expected
const NEAR = 0.3; // and at most so far from it, relative to the contributions
const MOST_RANGES = 3;

// Add up m d / (d^2 + eps2)^power over all sources for each target; both are rows of x, y, z, mass. `reaches` tells
// which sources a target meets.
function contributionsOf(targets, sources, eps2, power = 1.5, reaches = null) {
  const n = targets.length / 4;
  const [sums, magnitudes] = [new Float64Array(3 * n), new Float64Array(3 * n)];
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < sources.length / 4; j += 1) {
      if (reaches && !reaches(i, j)) continue;
      const dx = sources[4 * j] - targets[4 * i];
      const dy = sources[4 * j + 1] - targets[4 * i + 1];
      const dz = sources[4 * j + 2] - targets[4 * i + 2];
      const squared = dx * dx + dy * dy + dz * dz + eps2;
      if (!(squared > 0)) continue;
      const weight = sources[4 * j + 3] / (power === 1.5 ? squared * Math.sqrt(squared) : squared ** power);
      sums[3 * i] += weight * dx;
      sums[3 * i + 1] += weight * dy;
      sums[3 * i + 2] += weight * dz;
      magnitudes[3 * i] += Math.abs(weight * dx);
      magnitudes[3 * i + 1] += Math.abs(weight * dy);
      magnitudes[3 * i + 2] += Math.abs(weight * dz);
    }
  }
  return { sums, magnitudes };
}

// Rows of bodies in another order, or some of them again.
function pickedRows(rows, places) {
  return Float64Array.from({ length: 4 * places.length }, (_, at) => rows[4 * places[at >> 2] + (at & 3)]);
}

function counted(length, from = 0) {
  return Array.from({ length }, (_, place) => from + place);
}

function withMasses(rows, mass) {
  return rows.map((value, at) => (at % 4 === 3 ? mass(at >> 2) : value));
}

function scaled({ sums, magnitudes }, factor) {
  return {
    sums: sums.map((value, at) => factor(Math.floor(at / 3)) * value),
    magnitudes: magnitudes.map((value, at) => Math.abs(factor(Math.floor(at / 3))) * value),
  };
}

function* leftOut({ rows, n, tiles, pulled }) {
  for (const tile of tiles) {
    const rest = n % tile;
    const sentence = `the last tile of ${tile}, which has ${rest}, is left out`;
    if (rest) yield [sentence, pulled(rows.subarray(0, 4 * (n - rest)))];
  }
  if (n < 2) return;
  yield ["the last body is left out", pulled(rows.subarray(0, 4 * (n - 1)))];
  yield ["the first body is left out", pulled(rows.subarray(4))];
}

function* filledUp({ rows, n, tiles, pulled }) {
  for (const tile of tiles) {
    const rest = n % tile;
    if (!rest) continue;
    const last = [...counted(n), ...Array(tile - rest).fill(n - 1)];
    yield [`the last body fills up the last tile of ${tile}, which has ${rest}`, pulled(pickedRows(rows, last))];
    if (tile >= n) continue;
    const former = [...counted(n), ...counted(tile - rest, n - tile)];
    yield [`the end of the last tile of ${tile} is what the tile before left there`, pulled(pickedRows(rows, former))];
  }
}

function* oneTile({ rows, n, tiles, pulled }) {
  for (const tile of tiles.filter((each) => each < n)) {
    yield [`only the first ${tile} bodies pull`, pulled(rows.subarray(0, 4 * tile))];
    const again = counted(n).map((place) => place % tile);
    yield [`the first tile of ${tile} is read again in the place of the others`, pulled(pickedRows(rows, again))];
  }
}

function* halfOfThePairs({ rows, eps2 }) {
  for (const [what, reaches] of [["before", (i, j) => j <= i], ["after", (i, j) => j >= i]]) {
    const sentence = `a body is pulled only by those ${what} it: pairs count for one of their bodies`;
    yield [sentence, contributionsOf(rows, rows, eps2, 1.5, reaches)];
  }
}

function* otherSoftening({ rows, eps2, former, computed, exact, pulled }) {
  yield ["the softening is left out", pulled(rows, 0)];
  yield ["the softening is squared twice: eps2 is the softening length squared already", pulled(rows, eps2 ** 2)];
  yield ["the softening is the root of eps2, which has to be added as it is", pulled(rows, eps2 ** 0.5)];
  const more = pulled(rows, 1.001 * eps2).sums;
  let [along, square] = [0, 0];
  more.forEach((value, at) => {
    along += (computed[at] - exact[at]) * (value - exact[at]);
    square += (value - exact[at]) ** 2;
  });
  const factor = 1 + (0.001 * along) / square;
  if (factor > 0.5 && factor < 2) {
    yield [`eps2 is ${sixDigits(factor)} times as large as it should be`, pulled(rows, factor * eps2)];
  }
  if (former) yield ["the softening is that of the launch before", pulled(rows, former.eps2)];
}

function* otherMasses({ rows, exact, magnitudes, pulled }) {
  const own = (body) => rows[4 * body + 3];
  const without = pulled(withMasses(rows, () => 1));
  yield ["the masses are left out", without];
  yield ["the mass is that of the body that is pulled", scaled(without, own)];
  yield ["it is the force: accelerations times the body's own mass", scaled({ sums: exact, magnitudes }, own)];
  yield ["the first mass counts for all bodies", pulled(withMasses(rows, () => own(0)))];
}

function* otherPowers({ rows, eps2 }) {
  for (const [power, what] of [[0.5, "1 / r"], [1, "1 / r^2"], [2, "1 / r^4"]]) {
    const sentence = `a contribution is the distance times ${what} instead of 1 / r^3`;
    yield [sentence, contributionsOf(rows, rows, eps2, power)];
  }
}

function* otherDirections({ exact, magnitudes }) {
  yield ["the sign is wrong: bodies are pushed instead of pulled", scaled({ sums: exact, magnitudes }, () => -1)];
  for (const order of [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]) {
    const turned = (values) => values.map((_, at) => values[at - (at % 3) + order[at % 3]]);
    const names = order.map((axis) => `a${"xyz"[axis]}`).join(", ");
    yield [`ax, ay, az are in the order ${names}`, { sums: turned(exact), magnitudes: turned(magnitudes) }];
  }
}

function* movedRows({ exact, magnitudes, n }) {
  for (const [step, what] of [[n - 1, "behind"], [1, "before"]]) {
    const moved = (values) => values.map((_, at) => values[(at + 3 * step) % (3 * n)]);
    const sentence = `each acceleration is in the row ${what} that of its body`;
    yield [sentence, { sums: moved(exact), magnitudes: moved(magnitudes) }];
  }
}

function* formerBodies({ eps2, former, pulled }) {
  if (!former) return;
  const all = contributionsOf(former.rows, former.rows, former.eps2);
  yield ["it is the result for the bodies of the launch before", all];
  yield ["the bodies are those of the launch before", contributionsOf(former.rows, former.rows, eps2)];
  yield ["the bodies that pull are those of the launch before", pulled(former.rows)];
}

function* otherScale({ computed, exact, magnitudes }) {
  let [along, square] = [0, 0];
  exact.forEach((value, at) => {
    along += value * computed[at];
    square += value * value;
  });
  const factor = along / square;
  if (factor > 0 && Number.isFinite(factor)) {
    const sentence = `all accelerations are ${sixDigits(factor)} times as large as they should be`;
    yield [sentence, scaled({ sums: exact, magnitudes }, () => factor)];
  }
}

const HYPOTHESES = [
  leftOut, filledUp, oneTile, halfOfThePairs, otherSoftening, otherMasses, otherPowers, otherDirections, movedRows,
  formerBodies, otherScale,
];

function sixDigits(value) {
  return String(Number(value.toPrecision(6)));
}

// Return what is likely wrong, null where no known mistake explains it. `bodies` and `former` are rows and eps2 of a
// launch and of the one before, `computed` the result, three numbers a body, and `wrong` tells which rows are wrong.
function causeOf({ bodies, former, tiles, computed, exact, magnitudes, wrong }) {
  const seen = notWritten(computed, bodies.judging.unwritten) || notNumbers(computed);
  if (seen) return seen;
  const { rows, eps2 } = bodies;
  const pulled = (sources, other = eps2) => contributionsOf(rows, sources, other);
  const result = { rows, eps2, n: rows.length / 4, former, tiles, computed, exact, magnitudes, pulled };
  const expected = spreadOf(computed, { sums: exact, magnitudes }, wrong);
  let [best, nearest] = ["", Math.min(NEARER * expected, NEAR)];
  for (const hypothesis of HYPOTHESES) {
    for (const [sentence, alternative] of hypothesis(result)) {
      const apart = spreadOf(computed, alternative, wrong);
      if (apart < nearest) [best, nearest] = [sentence, apart];
    }
  }
  return best || oneCoordinate(computed, exact) || someRows(wrong);
}

// `unwritten` are the bits of a NaN that no arithmetic makes.
function notWritten(computed, unwritten) {
  const bits = new Uint32Array(computed.buffer, computed.byteOffset, computed.length);
  const rows = rowsWhere(computed, (at) => bits[at] === unwritten);
  const none = "the kernel writes no accelerations yet, or all threads end before";
  const why = rows.includes(false) ? "does the grid reach them?" : none;
  return rows.includes(true) ? `rows ${rangesOf(rows)} were not written: ${why}` : "";
}

function notNumbers(computed) {
  const rows = rowsWhere(computed, (at) => !Number.isFinite(computed[at]));
  if (!rows.includes(true)) return "";
  const rest = rows.includes(false) ? "overflows" : "without softening the contribution of a body to itself is 0 / 0";
  return `rows ${rangesOf(rows)} are NaN or infinite: something is read that was not written, or ${rest}`;
}

function rowsWhere(computed, isSo) {
  return counted(computed.length / 3).map((row) => [0, 1, 2].some((axis) => isSo(3 * row + axis)));
}

function oneCoordinate(computed, exact) {
  const apart = [0, 0, 0];
  exact.forEach((value, at) => {
    apart[at % 3] = Math.max(apart[at % 3], Math.abs(computed[at] - value));
  });
  const names = ["ax", "ay", "az"].filter((_, axis) => !(apart[axis] < NEARER * NEARER * Math.max(...apart)));
  if (names.length === 3 || !names.length) return "";
  return `only ${names.join(" and ")} ${names.length === 1 ? "is" : "are"} wrong`;
}

function someRows(wrong) {
  return wrong.includes(false) ? `rows ${rangesOf(wrong)} are wrong, and the others right` : null;
}

// Return the distance within which nearly all of the wrong rows are: a few may differ by an accident.
function spreadOf(computed, { sums, magnitudes }, wrong) {
  const apart = wrong.flatMap((isWrong, row) => {
    if (!isWrong) return [];
    const at = 3 * row;
    const distance = Math.hypot(...[0, 1, 2].map((axis) => computed[at + axis] - sums[at + axis]));
    const relative = over(distance, lengthAt(magnitudes, at));
    return [Number.isNaN(relative) ? Infinity : relative];
  });
  return Float64Array.from(apart).sort()[Math.ceil(0.95 * (apart.length - 1))];
}

// Name the rows that are true as ranges: 0-127, 999 (129 of 1000).
function rangesOf(rows) {
  const edges = [];
  rows.forEach((isTrue, row) => {
    if (isTrue && !rows[row - 1]) edges.push([row, row]);
    if (isTrue) edges[edges.length - 1][1] = row;
  });
  const named = edges.slice(0, MOST_RANGES).map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`));
  if (edges.length > MOST_RANGES) named.push(`and ${edges.length - MOST_RANGES} more ranges`);
  return `${named.join(", ")} (${rows.filter(Boolean).length} of ${rows.length})`;
}
