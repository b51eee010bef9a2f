// How far accelerations are from expected ones, and how far they may be: as gravbench.verifying.comparing.
//
// A reference has, for each compared body, three numbers of each: exact sums in float64, the sums of the magnitudes of
// the same terms, and plain sums in float32. Errors are judged relative to the length of the vector of magnitudes.

const TINY = 2.2250738585072014e-308;

// Measure the errors of `computed`, three numbers for each row of a reference.
//
// `scale` is how much too long all vectors are together.
function errorsOf(computed, reference) {
  const { exact, magnitudes } = reference;
  const rows = exact.length / 3;
  const [relative, weighed] = [new Float64Array(rows), new Float64Array(rows)];
  let [along, length] = [0, 0];
  for (let row = 0; row < rows; row += 1) {
    const at = 3 * row;
    const size = lengthAt(exact, at);
    const weight = lengthAt(magnitudes, at);
    const difference = [0, 1, 2].map((axis) => computed[at + axis] - exact[at + axis]);
    relative[row] = over(Math.hypot(...difference), size);
    weighed[row] = over(Math.hypot(...difference), weight);
    if (weight < TINY) continue;
    for (let axis = 0; axis < 3; axis += 1) {
      along += (difference[axis] / weight) * (exact[at + axis] / weight);
      length += (exact[at + axis] / weight) ** 2;
    }
  }
  const scale = length ? Math.abs(along / length) : 0;
  return { ...summaries(relative), ...named(weighed), scale };
}

function lengthAt(vectors, at) {
  return Math.hypot(vectors[at], vectors[at + 1], vectors[at + 2]);
}

function over(distance, length) {
  return distance === 0 && length === 0 ? 0 : distance / length;
}

function rms(values) {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0) / values.length);
}

// The largest of numbers, a NaN if there is one.
function largest(values) {
  return values.reduce((most, value) => (value > most || Number.isNaN(value) ? value : most), -Infinity);
}

function summaries(relative) {
  const ordered = Float64Array.from(relative).sort();
  const at = (part) => ordered[Math.ceil(part * (ordered.length - 1))];
  const middle = ordered.length >> 1;
  return {
    error_max: largest(relative),
    error_rms: rms(relative),
    error_median: ordered.length % 2 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2,
    error_p90: at(0.9),
    error_p99: at(0.99),
    error_rows: relative.length,
  };
}

function named(weighed) {
  return { error_magnitude_max: largest(weighed), error_magnitude_rms: rms(weighed) };
}

// Return the largest accepted errors: a direct sum is held to what plain sums of the same terms reach.
function limitsOf(reference, judging) {
  const { unit, floor, worse, deviations } = judging;
  const plain = errorsOf(reference.plain, reference);
  const chance = (deviations * plain.error_magnitude_rms) / Math.sqrt(plain.error_rows);
  return {
    max: floor.max * unit + worse.max * plain.error_magnitude_max,
    rms: floor.rms * unit + worse.rms * plain.error_magnitude_rms,
    scale: floor.scale * unit + worse.rms * (plain.scale + chance),
  };
}

// Say in a sentence why accelerations with these errors are wrong; null when they are right.
function objectionTo(errors, limits) {
  const of = "of the sum of the contributions' magnitudes";
  const [most, mean] = [errors.error_magnitude_max, errors.error_magnitude_rms];
  if (Number.isNaN(most)) return "some accelerations are NaN, or were not written";
  const exceeding = (error, limit) => `error ${digits(error)} ${of} exceeds the tolerance of ${digits(limit)}`;
  if (!(most <= limits.max)) return `largest ${exceeding(most, limits.max)}`;
  if (!(mean <= limits.rms)) return `rms ${exceeding(mean, limits.rms)}`;
  if (!(errors.scale <= limits.scale)) {
    return `all accelerations together are wrong by ${digits(errors.scale)}, accepted: ${digits(limits.scale)}`;
  }
  return null;
}

function digits(value) {
  return Number.isFinite(value) ? value.toPrecision(2) : String(value);
}
