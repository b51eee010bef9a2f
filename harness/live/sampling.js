// The measuring protocol: warm-up, samples, when to stop. As gravbench.measuring.protocol, with waits for the browser.
//
// Launches alternate between the sets of bodies, within a batch and from one batch to the next, so that none can use
// what the one before it computed. Of two samples in a row, drawn by chance, the results that they leave are looked at.
// These are of both sets, so a kernel that leaves what it found shows.

const MOST_BATCH = 4096; // dispatches that are submitted together
const FEWEST_SAMPLES = 3;

class Stopped extends Error {}

class Sampler {
  // `watch` is called between batches, with the part of the time that has passed; it throws Stopped.
  constructor(evaluation, clock, settings, watch) {
    Object.assign(this, { evaluation, clock, settings, watch, launches: 0, spent: 0 });
  }

  // The set that the last launch was on.
  get lastSet() {
    return (this.launches - 1) % SETS;
  }

  // Time a batch of launches; return the seconds of one.
  async seconds(batch) {
    this.watch(this.spent / (this.settings.warm_up_seconds + this.settings.budget_seconds));
    // The next batch ends on the other set.
    if (batch % SETS === 0) this.launches += 1;
    const dispatches = [];
    for (let launch = 0; launch < batch; launch += 1) {
      dispatches.push(...this.evaluation.dispatchesOn(this.launches % SETS));
      this.launches += 1;
    }
    const began = performance.now();
    const seconds = (await this.clock.seconds(dispatches)) / batch;
    this.spent += (performance.now() - began) / 1000;
    return seconds;
  }

  // Evaluate until the device is warm; return how many evaluations a sample needs to last long enough.
  async warmedUp() {
    const mostBatch = Math.max(1, Math.floor(MOST_BATCH / this.evaluation.dispatchesOn(0).length));
    let batch = 1;
    for (;;) {
      const seconds = await this.seconds(batch);
      const least = Math.max(this.settings.sample_seconds, this.clock.leastSeconds);
      const wanted = Math.ceil(least / Math.max(seconds, 1e-9));
      if (wanted > batch && batch < mostBatch) batch = Math.min(wanted, mostBatch);
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
      if (samples.length === first || samples.length === first + 1) await look();
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
