// The clocks: the device's timestamps where it has any, else the host's, each with the shortest time it tells apart.

const RESOLUTIONS = 200; // a sample lasts so many times as long as its clock tells apart
const SUBMITTING = 1e-4; // seconds, about, that waiting for a batch takes beside the batch itself
const MARKS = 16;
const ROUNDS = 8;
const COARSEST = 1e-4; // seconds to which browsers round timestamps
const APART = 0.5; // the device's clock contradicts the host's if it counts less than this part of the time
const LONG = 0.01; // seconds that a batch takes at least for the clocks to be comparable
const CONTRADICTIONS = 3; // in a row, after which the host's clock is used: one may be a pause of the host

class Clock {
  constructor(gpu) {
    Object.assign(this, { gpu, isOfDevice: gpu.has("timestamp-query"), resolution: SUBMITTING + hostResolution() });
  }

  static async of(gpu) {
    const clock = new Clock(gpu);
    if (clock.isOfDevice) await clock.prepare();
    return clock;
  }

  get name() {
    return this.isOfDevice ? "timestamp-query" : "performance.now";
  }

  // Seconds that a sample has to last.
  get leastSeconds() {
    return RESOLUTIONS * this.resolution;
  }

  async prepare() {
    const { device } = this.gpu;
    const usage = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
    this.contradictions = 0;
    this.queries = device.createQuerySet({ type: "timestamp", count: MARKS });
    this.ticks = device.createBuffer({ size: 8 * MARKS, usage });
    let smallest = COARSEST;
    for (let round = 0; round < ROUNDS; round += 1) smallest = Math.min(smallest, await this.smallestStep());
    this.resolution = smallest;
  }

  // Return the smallest step between timestamps in a row, in seconds; infinity where all are equal.
  async smallestStep() {
    const { device } = this.gpu;
    const encoder = device.createCommandEncoder();
    for (let first = 0; first < MARKS; first += 2) {
      const writes = { querySet: this.queries, beginningOfPassWriteIndex: first, endOfPassWriteIndex: first + 1 };
      encoder.beginComputePass({ timestampWrites: writes }).end();
    }
    device.queue.submit([encoder.finish()]);
    const marks = await this.read();
    const steps = marks.slice(1).map((mark, place) => 1e-9 * Number(mark - marks[place]));
    return Math.min(Infinity, ...steps.filter((step) => step > 0));
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
  //
  // `lead` are others that run just before, so that the device is at the clock of its work: an idle one lowers that.
  async seconds(dispatches, lead) {
    const [expected, expectedLead] = [expectedSeconds(dispatches), expectedSeconds(lead)];
    if (lead.length) submitted(this.gpu, lead);
    if (!this.isOfDevice) await this.gpu.finished("what is timed", expectedLead);
    const began = performance.now();
    submitted(this.gpu, dispatches, this.isOfDevice ? this.queries : null);
    await this.gpu.finished("what is timed", expected + expectedLead);
    const host = (performance.now() - began) / 1000;
    if (!this.isOfDevice) return host;
    const marks = await this.read();
    const device = 1e-9 * Number(marks[1] - marks[0]);
    const part = lead.length ? expected / (expected + expectedLead) : 1;
    this.compare(device, host, part);
    return this.isOfDevice ? Math.max(device, this.resolution) : part * host;
  }

  // Leave the device's clock for the host's if it stands still or jumps, as that of some drivers does. `part` is how
  // much of the host's time is of what the device's clock timed.
  compare(device, host, part) {
    const isWrong = device > host + 2 * this.resolution || (device <= 0 && host > LONG);
    const isShort = host > LONG && device < APART * part * host;
    this.contradictions = isShort ? this.contradictions + 1 : 0;
    if (!isWrong && this.contradictions < CONTRADICTIONS) return;
    this.isOfDevice = false;
    this.resolution = SUBMITTING + hostResolution();
  }
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
