// What a kernel goes through: compile, a guarded launch if it was edited, verify, warm up, sample, verify again.

const MOST_GUARDED = 4096; // bodies up to which all blocks are launched guarded, beyond it the first and the last
const TURNS_A_BODY = 4; // turns that a loop of a guarded kernel may take, for each body
const MORE_TURNS = 1024;

class Measuring {
  // `rung` and `texts` are what is measured on n bodies; `tell` is told what it is busy with, and throws Stopped.
  // `compiled` keeps the pipelines of the texts, `limit` is how often
  // a loop may turn, in place of what is usual for n.
  constructor({ gpu, clock, browser, judge, rung, n, texts, isEdited, tell, compiled = new Map(), limit = null }) {
    Object.assign(this, { gpu, clock, browser, judge, rung, n, texts, isEdited, tell, compiled });
    this.limit = limit || TURNS_A_BODY * n + MORE_TURNS;
    this.plan = rung.plans[n];
    this.template = (isEdited ? rung.edited : rung.records)[n];
  }

  // Measure, and return the record whatever becomes of it; `refusal` is why it is not ok, null where it is.
  async record() {
    const record = { ...this.template, started: new Date().toISOString() };
    if (this.isEdited) record.code_sha256 = await sha256Of(this.texts);
    let refusal = null;
    try {
      Object.assign(record, await this.measured(), { status: "ok" });
    } catch (error) {
      if (error instanceof Stopped) throw error;
      refusal = error instanceof Refusal ? error : new Refusal(sentenceOf(error), { broken: true });
      Object.assign(record, refusal.errors || {}, { status: refusal.status, reason: refusal.message });
    } finally {
      this.gpu.release();
    }
    return { record: { ...record, ...fieldsOfDevice(this.gpu, this.clock, this.browser) }, refusal };
  }

  async measured() {
    this.tell("compiling", 0);
    const lines = this.texts.map((text) => unrolled(text, this.plan.before));
    if (this.isEdited) await this.tryGuarded(lines);
    const began = performance.now();
    const evaluation = await Evaluation.made(this.gpu, this.plan, lines, this.judge.sets, null, this.compiled);
    const compileSeconds = (performance.now() - began) / 1000;
    const errors = await this.verifyFirst(evaluation);
    const watch = (part) => this.tell("measuring", part);
    const sampler = new Sampler(evaluation, this.clock, this.template.protocol, watch);
    const batch = await sampler.warmedUp();
    const when = "right at first, but not between two samples: ";
    const taken = await sampler.sampled(batch, () => this.check(evaluation, sampler.lastSet, when));
    await this.verifyAgain(evaluation);
    return { compile_seconds: compileSeconds, ...errors, ...fieldsOfSamples(taken, this.template) };
  }

  // Launch a form of the kernel whose loops end: first one block of each dispatch, then others.
  //
  // Throws a Refusal where a loop did not end by itself.
  async tryGuarded(lines) {
    this.tell("trying whether its loops end", 0);
    const { limit, compiled } = this;
    // What does not compile is told by the lines of the text, so as it is.
    for (const text of lines) await new Evaluation(this.gpu).module(text.map((line) => line.text).join("\n"), text);
    const evaluation = await Evaluation.made(this.gpu, this.plan, lines, this.judge.sets, limit, compiled);
    for (const stage of evaluation.stages) {
      const { grid, isWhole } = stage.dispatch;
      await evaluation.secondsOf(stage, 0, 0, 1);
      await this.checkStopped(evaluation, limit);
      const first = this.n > MOST_GUARDED ? grid - 1 : isWhole ? 0 : 1;
      if (first < grid) await evaluation.secondsOf(stage, 0, first, grid - first);
      await this.checkStopped(evaluation, limit);
    }
    this.gpu.release();
  }

  async checkStopped(evaluation, limit) {
    const [content] = await this.gpu.read([evaluation.stopped], "reading whether a loop was stopped");
    if (new Uint32Array(content)[0]) {
      throw new Refusal(`stopped: a loop ran more than ${limit.toLocaleString("en")} times`);
    }
  }

  // Judge the first launch on each set; return the errors of that on the sphere.
  async verifyFirst(evaluation) {
    this.tell("verifying", 0);
    evaluation.spoil();
    await evaluation.launchFirst(0);
    const errors = await this.check(evaluation, 0, "");
    await this.launchAndCheck(evaluation, 1, "right for the first bodies, but for others: ");
    this.tell("verified", 0, errors);
    return errors;
  }

  async verifyAgain(evaluation) {
    this.tell("verifying again", 1);
    const when = "right at first, but not after the samples: ";
    for (let set = 0; set < SETS; set += 1) await this.launchAndCheck(evaluation, set, when);
    if (!(await evaluation.keptBodies())) {
      throw new Refusal("wrong: it changed the bodies that it was given", { status: "invalid" });
    }
  }

  async launchAndCheck(evaluation, set, when) {
    evaluation.spoil();
    const dispatches = evaluation.dispatchesOn(set);
    submitted(this.gpu, dispatches);
    await this.gpu.finished("a launch that is judged", expectedSeconds(dispatches));
    return this.check(evaluation, set, when);
  }

  // Judge what the last launch, on a set, left; return its errors.
  //
  // Throws a Refusal where they are too large; `when` begins its sentence.
  async check(evaluation, set, when) {
    const { errors, objection } = await this.judge.verdict(set, await evaluation.result());
    if (objection) throw new Refusal(`wrong: ${when}${objection}`, { status: "invalid", errors });
    return errors;
  }
}
