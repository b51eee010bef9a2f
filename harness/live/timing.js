// The clocks: the device's timestamps where it has any, else the host's, each with the shortest time it tells apart.

const RESOLUTIONS = 200; // a sample lasts so many times as long as its clock tells apart
const SUBMITTING = 1e-4; // seconds, about, that waiting for a batch takes beside the batch itself
const MARKS = 16;
const APART = 0.5; // the device's clock is not believed if it counts less than this part of the host's time

class Clock {
  constructor(gpu) {
    Object.assign(this, { gpu, own: gpu.has("timestamp-query"), resolution: SUBMITTING + hostResolution() });
  }

  static async of(gpu) {
    const clock = new Clock(gpu);
    if (clock.own) await clock.prepare();
    return clock;
  }

  get name() {
    return this.own ? "timestamp-query" : "performance.now";
  }

  // Seconds that a sample has to last.
  get leastSeconds() {
    return RESOLUTIONS * this.resolution;
  }

  async prepare() {
    const { device } = this.gpu;
    this.queries = device.createQuerySet({ type: "timestamp", count: MARKS });
    const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
    this.ticks = device.createBuffer({ size: 8 * MARKS, usage });
    const encoder = device.createCommandEncoder();
    for (let first = 0; first < MARKS; first += 2) {
      const writes = { querySet: this.queries, beginningOfPassWriteIndex: first, endOfPassWriteIndex: first + 1 };
      encoder.beginComputePass({ timestampWrites: writes }).end();
    }
    device.queue.submit([encoder.finish()]);
    const marks = await this.read();
    const divisor = marks.reduce(greatestDivisor);
    this.resolution = 1e-9 * Math.max(1, Number(divisor));
  }

  async read() {
    const { device } = this.gpu;
    const encoder = device.createCommandEncoder();
    encoder.resolveQuerySet(this.queries, 0, MARKS, this.ticks, 0);
    device.queue.submit([encoder.finish()]);
    const [content] = await this.gpu.read([this.ticks], "reading the device's clock");
    return [...new BigUint64Array(content)];
  }

  // Time dispatches that are submitted as a whole; return the seconds of all of them together.
  async seconds(dispatches) {
    await this.gpu.finished("what is timed");
    const began = performance.now();
    submitted(this.gpu, dispatches, this.own ? this.queries : null);
    await this.gpu.finished("what is timed");
    const host = (performance.now() - began) / 1000;
    if (!this.own) return host;
    const marks = await this.read();
    const device = 1e-9 * Number(marks[1] - marks[0]);
    // A clock that stands still or jumps, as some drivers' do, is left for the host's.
    if (host > this.leastSeconds && !(device > APART * host && device <= host + this.resolution)) {
      this.own = false;
      this.resolution = SUBMITTING + hostResolution();
      return host;
    }
    return Math.max(device, this.resolution);
  }
}

function greatestDivisor(first, second) {
  while (second) [first, second] = [second, first % second];
  return first;
}

// Return the smallest step of the host's clock in seconds: browsers make it coarse on purpose.
function hostResolution() {
  let smallest = Infinity;
  for (let turn = 0; turn < 5; turn += 1) {
    const began = performance.now();
    let now = began;
    while (now === began) now = performance.now();
    smallest = Math.min(smallest, now - began);
  }
  return smallest / 1000;
}
