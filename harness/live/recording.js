// Records: what Python knew of a case, and what was found here. They are lines of records.jsonl.

// Return the name of the browser with its version, as it says of itself.
async function browserName() {
  const data = navigator.userAgentData;
  if (data && data.getHighEntropyValues) {
    const { fullVersionList } = await data.getHighEntropyValues(["fullVersionList"]);
    const known = (fullVersionList || data.brands).filter(({ brand }) => !/not.?a.?brand/i.test(brand));
    const named = known.find(({ brand }) => brand !== "Chromium") || known[0];
    if (named) return `${named.brand} ${named.version}`;
  }
  const firefox = /Firefox\/([\d.]+)/.exec(navigator.userAgent);
  const safari = /Version\/([\d.]+).*Safari/.exec(navigator.userAgent);
  if (firefox) return `Firefox ${firefox[1]}`;
  return safari ? `Safari ${safari[1]}` : navigator.userAgent.slice(0, 200);
}

// Return what identifies the device and the browser in a record.
function fieldsOfDevice(gpu, clock, browser) {
  const { vendor, architecture, device, description } = gpu.info;
  const facts = { vendor, architecture, device, description, browser };
  facts.type = gpu.isSoftware ? "CPU" : "GPU";
  facts.clock = clock.name;
  facts.features = FEATURES.filter((name) => gpu.has(name)).join(", ");
  for (const name of LIMITS) facts[name] = gpu.device.limits[name];
  const known = Object.entries(facts).filter(([, value]) => value !== undefined && value !== "");
  return {
    device: gpu.name,
    driver: browser,
    toolkit_version: `WebGPU of ${browser}`,
    compiler: browser,
    adapter: Object.fromEntries(known.map(([name, value]) => [name, String(value)])),
    clock_resolution_seconds: clock.resolution,
  };
}

// Return the fields that follow from the samples.
function fieldsOfSamples({ samples, batch, reason }, template) {
  const { median, low, high, halfWidth } = medianInterval(samples);
  const isBounded = Number.isFinite(halfWidth) && low > 0;
  const interactions = (template.n * template.n) / median;
  return {
    samples_seconds: samples,
    processes: samples.map(() => 1),
    batch,
    median_seconds: median,
    ci_low: isBounded ? low : null,
    ci_high: isBounded ? high : null,
    stop_reason: reason,
    interactions_per_second: interactions,
    gflops: (interactions * template.flops_per_interaction) / 1e9,
  };
}

// JSON has no NaN and no infinity: a record has them as words.
function jsonLine(record) {
  return JSON.stringify(record, (_, value) => {
    return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
  });
}

// Return the text of environment.json: the start of a run on this device. What Python knows of it stays as Python wrote
// it: JSON.parse takes 3.0 for 3, and the hash of the sweep is another then.
function environmentOf(record) {
  const { device: name, driver } = record;
  const devices = [{ selector: "wgpu:0", name, uuid: null, driver }];
  return `[{"devices": ${JSON.stringify(devices)}, ${CONTENT.start.slice(1)}]\n`;
}

async function sha256Of(texts) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(texts.join("\0")));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Have the browser save a text.
function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
