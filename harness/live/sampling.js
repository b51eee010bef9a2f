// The measuring protocol: warm-up, samples, when to stop. As gravbench.measuring.protocol, with waits for the browser.
//
// Launches alternate between the sets of bodies, within a batch and from one batch to the next, so that none can use
// what the one before it computed. Of two samples in a row, drawn by chance, the results that they leave are looked at.
// These are of both sets, so a kernel that leaves what it found shows.

const MOST_BATCH = 4096; // dispatches that are submitted together
const FEWEST_SAMPLES = 3;
const GROWTH = 4; // times as many launches in the next batch, at most: a clock that stands still is noticed in time
const LEAD = 0.05; // seconds up to which a batch is preceded by another one, not timed: a longer one wakes the device
const WAKING = 0.3; // seconds for which a device works after a pause, before it is timed again

class Stopped extends Error {}

class Sampler {
  // `watch` is called between batches, with the part of the time that has passed; it throws Stopped.
  constructor(evaluation, clock, settings, watch) {
    Object.assign(this, { evaluation, clock, settings, watch, lastSet: 0, spent: 0, last: Infinity });
  }

  // Time a batch of launches; return the seconds of one. Batches end on the sets in turn, the last on `lastSet`.
  async seconds(batch) {
    this.watch(Math.min(1, this.spent / (this.settings.warm_up_seconds + this.settings.budget_seconds)));
    this.lastSet = (this.lastSet + 1) % SETS;
    const isLed = !this.evaluation.gpu.isSoftware && batch * this.last <= LEAD;
    const lead = isLed ? this.launchesTo(this.lastSet + batch, batch) : [];
    const began = performance.now();
    this.last = (await this.clock.seconds(this.launchesTo(this.lastSet, batch), lead)) / batch;
    this.spent += (performance.now() - began) / 1000;
    return this.last;
  }

  // Return the dispatches of launches on the sets in turn, of which the last is on `set`.
  launchesTo(set, count) {
    const dispatches = [];
    for (let left = count - 1; left >= 0; left -= 1) {
      dispatches.push(...this.evaluation.dispatchesOn((set + left) % SETS));
    }
    return dispatches;
  }

  // Let the device work again after a pause; that is no part of the budget, nor of the turns of the sets.
  async wake(batch) {
    const { spent, lastSet } = this;
    while (!this.evaluation.gpu.isSoftware && this.spent - spent < WAKING) await this.seconds(batch);
    Object.assign(this, { spent, lastSet });
  }

  // Evaluate until the device is warm; return how many evaluations a sample needs to last long enough.
  async warmedUp() {
    const mostBatch = Math.max(1, Math.floor(MOST_BATCH / this.evaluation.dispatchesOn(0).length));
    let batch = 1;
    for (;;) {
      const seconds = await this.seconds(batch);
      const least = Math.max(this.settings.sample_seconds, this.clock.leastSeconds);
      const wanted = Math.ceil(least / Math.max(seconds, 1e-9));
      if (wanted > batch && batch < mostBatch) batch = Math.min(wanted, GROWTH * batch, mostBatch);
      else if (this.spent >= this.settings.warm_up_seconds) return batch;
    }
  }

  // Sample until the median is known well enough or the budget is spent. `look` is called after each of two samples.
  async sampled(batch, look) {
    const samples = [];
    const first = 1 + Math.floor(Math.random() * (FEWEST_SAMPLES - 1));
    const before = this.spent;
    for (;;) {
      samples.push(await this.seconds(batch));
      if (samples.length === first || samples.length === first + 1) {
        await look();
        await this.wake(batch);
      }
      const reason = this.reasonToStop(samples, this.spent - before);
      if (reason) return { samples, batch, reason };
    }
  }

  reasonToStop(samples, spent) {
    const { min_samples: wanted, half_width: narrow, budget_seconds: budget } = this.settings;
    const fewest = Math.max(wanted, FEWEST_SAMPLES);
    if (samples.length >= fewest && medianInterval(samples).halfWidth <= narrow) return "interval";
    if (samples.length < FEWEST_SAMPLES || spent < budget) return null;
    return `budget of ${budget} s spent${samples.length < fewest ? ` after ${samples.length} samples` : ""}`;
  }
}
