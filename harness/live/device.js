// A device of WebGPU: how it is opened, what it says of itself, its buffers, and what is said where it refuses.

const LIMITS = [
  ...["maxBufferSize", "maxStorageBufferBindingSize", "maxComputeWorkgroupStorageSize"],
  ...["maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX", "maxStorageBuffersPerShaderStage"],
];
const FEATURES = ["timestamp-query", "subgroups"];
const WITHOUT = {
  device: "This browser has WebGPU, but no device for it; chrome://gpu or about:support says why.",
  subgroups: "this device, or this browser, has no subgroups",
};
const SLOWEST = 20; // seconds that anything on the device may take beside the time that it is known to need
const PATIENCE = 4; // times as long as is known that it may take

// Why a kernel is not measured, in a sentence. `status` is that of its record, `lines` are those of the text, from 0.
class Refusal extends Error {
  constructor(sentence, { status = "failed", lines = [], broken = false, errors = null } = {}) {
    super(sentence);
    Object.assign(this, { status, lines, broken, errors });
  }
}

class Gpu {
  constructor(adapter, device) {
    Object.assign(this, { adapter, device, info: adapter.info || {}, lost: null });
    this.buffers = new Set();
    device.lost.then((reason) => {
      this.lost = reason.message || reason.reason || "no reason was given";
    });
    // What an error scope does not catch is a mistake of this page: shown, not hidden.
    device.addEventListener("uncapturederror", (event) => console.error(event.error.message));
  }

  // Open the device that the browser prefers, with all that it allows.
  static async opened() {
    const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw new Refusal(WITHOUT.device);
    const requiredFeatures = FEATURES.filter((name) => adapter.features.has(name));
    const known = LIMITS.filter((name) => adapter.limits[name] !== undefined);
    const requiredLimits = Object.fromEntries(known.map((name) => [name, adapter.limits[name]]));
    return new Gpu(adapter, await adapter.requestDevice({ requiredFeatures, requiredLimits }));
  }

  get isSoftware() {
    const words = `${this.info.vendor} ${this.info.architecture} ${this.info.device} ${this.info.description}`;
    return Boolean(this.info.isFallbackAdapter) || /swiftshader|llvmpipe|lavapipe|basic render/i.test(words);
  }

  get name() {
    const { vendor, architecture, device, description } = this.info;
    const described = description || [vendor, architecture, device].filter(Boolean).join(" ");
    const name = described || "a GPU that its browser does not name";
    return this.isSoftware ? `${name}, ${CONTENT.software}` : name;
  }

  has(feature) {
    return this.device.features.has(feature);
  }

  // Make a buffer, from numbers or of a size in bytes, which `release` destroys.
  buffer(content, usage) {
    const size = typeof content === "number" ? content : content.byteLength;
    const most = usage & GPUBufferUsage.STORAGE ? this.device.limits.maxStorageBufferBindingSize : Infinity;
    if (size > most) {
      const sizes = `${size.toLocaleString("en")} bytes; this device takes at most ${most.toLocaleString("en")}`;
      throw new Refusal(`it needs an array of ${sizes}`, { status: "skipped" });
    }
    const made = this.device.createBuffer({ size, usage: usage | GPUBufferUsage.COPY_DST });
    this.buffers.add(made);
    if (typeof content !== "number") this.device.queue.writeBuffer(made, 0, content);
    return made;
  }

  release() {
    for (const buffer of this.buffers) buffer.destroy();
    this.buffers.clear();
  }

  // Do something that the device may refuse; `what` begins the sentence that says so.
  async tried(what, action) {
    const { device } = this;
    for (const filter of ["validation", "out-of-memory", "internal"]) device.pushErrorScope(filter);
    let result = null;
    let thrown = null;
    try {
      result = await this.unlessLost((async () => action())(), what);
    } catch (error) {
      thrown = error;
    }
    const scopes = [device.popErrorScope(), device.popErrorScope(), device.popErrorScope()];
    const errors = (await this.within(Promise.all(scopes), what)).filter(Boolean);
    if (thrown instanceof Refusal) throw thrown;
    if (errors.length) throw new Refusal(`${what}: ${errors.map(sentenceOf).join("; ")}`);
    if (thrown) throw new Refusal(`${what}: ${sentenceOf(thrown)}`, { broken: Boolean(this.lost) });
    return result;
  }

  // Wait for a promise of the device. Once that is lost, a promise may stay open for ever.
  async unlessLost(promise, what) {
    const gone = this.device.lost.then((reason) => {
      const why = firstLine(reason.message || "it was reset");
      throw new Refusal(`${what}: the device was lost (${why}); the next kernel gets a new one`, { broken: true });
    });
    // A loss aborts what is being read before it is announced.
    const answer = promise.catch((error) => (error.name === "AbortError" ? gone : Promise.reject(error)));
    return Promise.race([answer, gone]);
  }

  // Wait for a promise of something that takes so many seconds. A device that does not answer is given up.
  async within(promise, what, seconds = 0) {
    const longest = SLOWEST + PATIENCE * seconds;
    let timer = null;
    const late = new Promise((_, reject) => {
      const sentence = `${what}: stopped, because the device did not answer within ${longest.toFixed(0)} s`;
      timer = setTimeout(() => reject(new Refusal(sentence, { broken: true })), 1000 * longest);
    });
    try {
      return await Promise.race([this.unlessLost(promise, what), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async finished(what, seconds = 0) {
    await this.within(this.device.queue.onSubmittedWorkDone(), what, seconds);
  }

  // Copy buffers to the host: one ArrayBuffer each.
  async read(buffers, what) {
    const staged = buffers.map((buffer) =>
      this.device.createBuffer({ size: buffer.size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST }),
    );
    const encoder = this.device.createCommandEncoder();
    buffers.forEach((buffer, place) => encoder.copyBufferToBuffer(buffer, 0, staged[place], 0, buffer.size));
    this.device.queue.submit([encoder.finish()]);
    const contents = [];
    for (const copy of staged) {
      await this.within(copy.mapAsync(GPUMapMode.READ), what);
      contents.push(copy.getMappedRange().slice(0));
      copy.destroy();
    }
    return contents;
  }
}

function firstLine(text) {
  return String(text).trim().split("\n")[0].trim();
}

function sentenceOf(error) {
  const memory = typeof GPUOutOfMemoryError !== "undefined" && error instanceof GPUOutOfMemoryError;
  return memory ? "the device has too little memory" : firstLine(error.message || error);
}
