// The page: choose N and rungs, run, stop, download; check an exercise.

const CONTENT = JSON.parse(document.getElementById("content").textContent);
const WITHOUT_WEBGPU =
  "This browser has no WebGPU here: Chrome and Edge have it from version 113 on, Safari from 26 and Firefox from " +
  "141, on Linux and older systems perhaps behind a setting, and on a page from a server only with https.";
const ON_SOFTWARE = 1024;
const ON_HARDWARE = 16384;
const SECONDS_A_RUNG = 6; // about, until a rung has shown how long it takes

const byId = (id) => document.getElementById(id);

class Page {
  constructor() {
    this.ladder = new Ladder(byId("rows"), byId("picture"));
    this.editors = CONTENT.rungs.map((rung) => new Editor(rung, (editor) => this.run([editor])));
    this.gpu = this.clock = null;
    this.isStopping = false;
    this.exercises = new Exercises({ check: (view) => this.check(view), stop: () => this.stop() });
    byId("kernels").append(...this.editors.map((editor) => editor.whole));
    byId("rungs").append(...CONTENT.rungs.map(choiceOf));
    byId("n").append(...CONTENT.sizes.map((n) => element("option", { value: n }, count(n))));
    byId("n").addEventListener("change", () => this.showTexts());
    byId("run").addEventListener("click", () => this.run(this.chosen()));
    byId("stop").addEventListener("click", () => this.stop());
    byId("records").addEventListener("click", () => this.downloadRecords());
    byId("environment").addEventListener("click", () => this.downloadEnvironment());
  }

  get n() {
    return Number(byId("n").value);
  }

  // Open a device, and say which; the page is ready then.
  async begin() {
    if (!navigator.gpu) {
      this.showTexts();
      byId("device").textContent = WITHOUT_WEBGPU;
      this.offer(true, false);
      return;
    }
    try {
      this.browser = await browserName();
      await this.open();
    } catch (error) {
      byId("device").textContent = error.message;
      this.showTexts();
      this.offer(true, false);
      return;
    }
    byId("n").value = this.gpu.isSoftware ? ON_SOFTWARE : ON_HARDWARE;
    this.showTexts();
    this.enable(true);
  }

  async open() {
    this.gpu = await Gpu.opened();
    this.clock = await Clock.of(this.gpu);
    const microseconds = (1e6 * this.clock.resolution).toPrecision(2);
    const clock = `${this.clock.name}, which tells ${microseconds} microseconds apart`;
    const slow = this.gpu.isSoftware ? " It computes on the processor: its times say nothing of a GPU." : "";
    byId("device").textContent = `Device: ${this.gpu.name}, in ${this.browser}. Clock: ${clock}.${slow}`;
  }

  showTexts() {
    for (const editor of this.editors) editor.show(this.n);
  }

  chosen() {
    return this.editors.filter((editor) => byId(`choose-${editor.rung.name}`).checked);
  }

  // Let checks be begun or stopped.
  offer(isIdle, hasDevice = true) {
    for (const control of document.querySelectorAll(".check")) control.disabled = !(isIdle && hasDevice);
    for (const control of document.querySelectorAll(".stop")) control.disabled = isIdle;
  }

  enable(isIdle) {
    this.offer(isIdle);
    for (const control of document.querySelectorAll("#run, #n, .run-this, #rungs input")) control.disabled = !isIdle;
    byId("stop").disabled = isIdle;
    const has = this.ladder.all.length > 0;
    for (const id of ["records", "environment"]) byId(id).disabled = !(isIdle && has);
  }

  stop() {
    this.isStopping = true;
    byId("progress-words").textContent = "stopping";
  }

  // Run kernels one after another; what goes wrong with one of them does not end the others.
  async run(editors) {
    const { n } = this;
    const judge = new Judge(n);
    const began = performance.now();
    this.isStopping = false;
    this.enable(false);
    let ended = 0;
    try {
      for (const editor of editors) {
        await this.runOne(editor, n, judge, (words, part) => this.progress(words, ended + part, editors.length, began));
        ended += 1;
      }
      byId("progress-words").textContent = `ended: ${ended} of ${editors.length}`;
    } catch (error) {
      byId("progress-words").textContent = error instanceof Stopped ? "stopped" : error.message;
    } finally {
      judge.close();
      byId("progress").value = editors.length ? ended / editors.length : 0;
      this.enable(true);
    }
  }

  async runOne(editor, n, judge, progress) {
    const { rung, texts, isEdited } = editor;
    const { variant: name } = (isEdited ? rung.edited : rung.records)[n];
    const tell = (words, part, errors) => {
      if (this.isStopping) throw new Stopped();
      if (errors || words !== "measuring") this.ladder.busy(name, n, words, errors);
      progress(`${name}: ${words}`, part);
    };
    editor.say("");
    try {
      const { gpu, clock, browser } = this;
      const measuring = new Measuring({ gpu, clock, browser, judge, rung, n, texts, isEdited, tell });
      const { record, refusal } = await measuring.record();
      this.ladder.show(record);
      if (refusal) editor.say(refusal.message, refusal.lines);
      else editor.say(`verified: ${(1000 * record.median_seconds).toPrecision(4)} ms`);
      if (this.gpu.lost || (refusal && refusal.broken)) await this.replace();
    } catch (error) {
      this.ladder.forget(name, n);
      throw error;
    }
  }

  // Check what was written for an exercise.
  async check(view) {
    const { gpu, clock, browser } = this;
    const tell = (words) => {
      if (this.isStopping) throw new Stopped();
      view.say(`checking: ${words}`);
    };
    this.isStopping = false;
    this.enable(false);
    try {
      const answer = await new Check({ gpu, clock, browser, about: view.about, text: view.text, tell }).verdict();
      view.answer(answer);
      if (this.gpu.lost || answer.broken) await this.replace();
    } catch (error) {
      view.say(error instanceof Stopped ? "stopped" : `not checked: ${error.message}`);
    } finally {
      this.enable(true);
    }
  }

  // Go on with a new device.
  async replace() {
    this.gpu.device.destroy();
    await this.open();
  }

  progress(words, done, all, began) {
    const passed = (performance.now() - began) / 1000;
    const left = Math.ceil(done > 0.5 ? (passed * (all - done)) / done : SECONDS_A_RUNG * all - passed);
    byId("progress").value = done / all;
    byId("progress-words").textContent = `${words}; about ${Math.max(1, left)} s left`;
  }

  downloadRecords() {
    download("records.jsonl", `${this.ladder.all.map(jsonLine).join("\n")}\n`);
  }

  downloadEnvironment() {
    download("environment.json", environmentOf(this.ladder.all[0]));
  }
}

function choiceOf(rung) {
  const input = element("input", { type: "checkbox", id: `choose-${rung.name}`, checked: "" });
  return element("label", { title: rung.summary }, input, ` ${rung.name}`);
}

const page = new Page();
page.begin();
