// What bounds the median of samples that may depend on each other: as gravbench.model.statistics, number for number.

const NORMAL_MEDIAN = Math.sqrt(Math.PI / 2);

function medianOf(values) {
  const ordered = Float64Array.from(values).sort();
  const middle = ordered.length >> 1;
  return ordered.length % 2 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2;
}

// Return the median and the interval that holds it; `low` and `high` are not finite where the samples are too few.
function medianInterval(samples) {
  const [low, high] = boundsOf(samples, effective(samples)) || [0, Infinity];
  const median = medianOf(samples);
  return { median, low, high, halfWidth: median > 0 ? (high - low) / (2 * median) : Infinity };
}

function boundsOf(samples, count) {
  const { length } = samples;
  if (!rankOf(length)) return null;
  const ordered = Float64Array.from(samples).sort();
  const independent = Math.floor(Math.min(count, length));
  const place = rankOf(independent);
  if (place) {
    const at = Math.max(1, Math.floor((place * length) / independent));
    return [ordered[at - 1], ordered[length - at]];
  }
  const middle = medianOf(ordered);
  const squares = ordered.reduce((sum, sample) => sum + (sample - middle) ** 2, 0);
  const deviation = Math.sqrt(squares / (length - 1));
  const worth = Math.max(count || 1, 1);
  if (worth <= 1 && deviation) return [-Infinity, Infinity];
  const half = deviation ? (studentQuantile(worth - 1) * NORMAL_MEDIAN * deviation) / Math.sqrt(worth) : 0;
  return [middle - half, middle + half];
}

// Return which smallest and which largest of so many samples bound the median, by the binomial distribution.
function rankOf(samples) {
  const tail = (1 - CONTENT.confidence.level) / 2;
  let chance = 0.5 ** samples;
  let below = 0;
  let rank = 0;
  for (let k = 0; k < (samples + 1) >> 1; k += 1) {
    below += chance;
    if (below > tail) break;
    rank += 1;
    chance *= (samples - k) / (k + 1);
  }
  return rank;
}

// Return how many independent samples say as much of the median as these, in the order they were taken.
function effective(samples) {
  const ranks = ranksOf(samples);
  const n = ranks.length;
  const correlation = (lag) => ranks.reduce((sum, rank, k) => (k < lag ? sum : sum + rank * ranks[k - lag]), 0);
  const squares = correlation(0);
  if (n < 4 || squares === 0) return n;
  if ((correlation(1) / squares + 1 / n) * Math.sqrt(n) <= CONTENT.confidence.dependent) return n;
  let least = Infinity;
  let total = 0;
  for (let lag = 0; lag + 1 < n; lag += 2) {
    least = Math.min(least, (correlation(lag) + correlation(lag + 1)) / squares + 2 / n);
    if (least > 0) total += least;
  }
  return n / Math.min(Math.max(2 * total - 1, 1), n);
}

// Return the place of each sample among all, about their middle; equal samples share their mean place.
function ranksOf(samples) {
  return samples.map((sample) => {
    const below = samples.reduce((count, other) => count + (other < sample), 0);
    const upTo = samples.reduce((count, other) => count + (other <= sample), 0);
    return (below + upTo - samples.length) / 2;
  });
}

// Return how many standard errors to either side hold a mean (Student's t), by bisection.
function studentQuantile(freedom) {
  const wanted = CONTENT.confidence.level;
  const within = (t) => 1 - incompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t));
  let [low, high] = [0, 1];
  while (within(high) < wanted && high < 1e300) high *= 2;
  for (let turn = 0; turn < 200; turn += 1) {
    const middle = (low + high) / 2;
    if (within(middle) < wanted) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

// The regularized incomplete beta function, by its continued fraction (Lentz).
function incompleteBeta(a, b, x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(b, a, 1 - x);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  const apart = (value) => (Math.abs(value) < 1e-300 ? 1e-300 : value);
  let c = 1;
  let d = 1 / apart(1 - ((a + b) * x) / (a + 1));
  let fraction = d;
  for (let m = 1; m < 10000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    const before = fraction;
    for (const term of [even, odd]) {
      d = 1 / apart(1 + term * d);
      c = apart(1 + term / c);
      fraction *= c * d;
    }
    if (Math.abs(fraction / before - 1) < 1e-16) break;
  }
  return (front * fraction) / a;
}

// The logarithm of the gamma function (Lanczos, nine coefficients).
function logGamma(x) {
  const coefficients = [
    ...[0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059],
    ...[12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7],
  ];
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const t = x + 6.5;
  const series = coefficients.reduce((sum, value, k) => (k ? sum + value / (x - 1 + k) : value), 0);
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(series);
}
