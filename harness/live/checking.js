// The check of what a person wrote for an exercise: right for several numbers of bodies, then timed beside the rung.

const CHECKED_SIZES = [1, 31, 64, 129, 1000];
const MOST_CHECKED = 4097;
const LAUNCHES = 3; // on other bodies each, in every second one near to one another
const BESIDE = { warm_up_seconds: 0.2, budget_seconds: 1 };
const PAIRS = 2; // a kernel is slower if it is in each
const UNEXPLAINED = "no known mistake explains it";
const WIDEST = 0.1; // half of an interval, relative, that says how two times compare
const SEARCH = { seconds: 20 }; // for a place where a barrier is missing, at most
const LONGEST_EVALUATION = 1; // seconds that one is expected to take for so many bodies as are timed, at most

class Check {
  // `about` is the exercise, `tell` is told what is done, and throws Stopped.
  constructor({ gpu, clock, browser, about, text, tell }) {
    Object.assign(this, { gpu, clock, browser, about, text, tell });
    Object.assign(this, { largest: null, seconds: 0, facts: [], compiled: new Map() });
    this.rung = CONTENT.rungs.find(({ name }) => name === about.rung);
  }

  // Return the verdict, the sentence behind it, facts beside it, and the lines that it is about.
  async verdict() {
    try {
      this.head = headOf(this.text);
      const wrong = await this.firstWrong();
      if (wrong) return this.ended("wrong", wrong);
      return await this.beside();
    } catch (error) {
      if (!(error instanceof Refusal) || error.status === "skipped") throw error;
      return this.ended("wrong", error.message, error);
    } finally {
      this.gpu.release();
    }
  }

  ended(verdict, sentence, { lines = [], broken = false } = {}) {
    return { verdict, sentence, lines, broken, facts: this.facts };
  }

  // The numbers of bodies: few, a ragged end, and more than one tile.
  sizes() {
    const tiles = tilesOf(this.head, planOf(this.head, this.text, 1000));
    const more = Math.min(MOST_CHECKED, Math.max(...tiles) + 1);
    return [...CHECKED_SIZES, ...(more > 1000 ? [more] : [])];
  }

  // Say why the result is wrong, by the largest number of bodies for which the cause is known; null where it is right.
  async firstWrong() {
    const wrong = [];
    const sizes = this.sizes();
    for (const n of sizes) {
      this.tell(`${count(n)} ${n === 1 ? "body" : "bodies"}`);
      const mistake = await this.wrongWith(n);
      if (mistake) wrong.push(mistake);
    }
    if (!wrong.length) {
      const error = scientific(this.largest.error_magnitude_max);
      const words = `${sizes.map(count).join(", ")} bodies, each on ${LAUNCHES} sets`;
      this.facts.push(`Right for ${words}. Largest error: ${error} of the contributions' magnitudes.`);
      return null;
    }
    const isKnown = ({ cause }) => Boolean(cause) && !cause.endsWith("and the others right");
    const best = wrong.reduce((most, each) => (isKnown(each) >= isKnown(most) ? each : most));
    const barrier = isKnown(best) ? null : await this.missingBarrier(best.n);
    return `with ${count(best.n)} ${best.n === 1 ? "body" : "bodies"}, ${barrier || sentenceOfWrong(best)}`;
  }

  measuring(n, text, judge) {
    const plan = planOf(this.head, text, n);
    const known = this.rung.edited[n] || Object.values(this.rung.edited)[0];
    const template = { ...known, n, protocol: { ...known.protocol, ...BESIDE } };
    const rung = { plans: { [n]: plan }, edited: { [n]: template } };
    const { gpu, clock, browser, tell } = this;
    // One form of each text for all n.
    const compiled = text === this.text ? this.compiled : new Map();
    const limit = TURNS_A_BODY * Math.max(n, MOST_CHECKED) + MORE_TURNS;
    const { texts } = plan;
    return new Measuring({ gpu, clock, browser, judge, rung, n, texts, isEdited: true, tell, compiled, limit });
  }

  // Do something with a judge of n bodies that are drawn.
  async judged(n, action) {
    const judge = new Judge(n, Array.from({ length: LAUNCHES }, (_, turn) => drawnSet(n, turn % 2 === 1)));
    try {
      return await action(judge);
    } finally {
      judge.close();
    }
  }

  // Launch for n bodies, at first the guarded form; return what is wrong, null where nothing is.
  wrongWith(n) {
    return this.judged(n, async (judge) => {
      const measuring = this.measuring(n, this.text, judge);
      await measuring.tryGuarded(measuring.texts.map((each) => unrolled(each, measuring.plan.before)));
      return this.wrongOf(measuring, true);
    });
  }

  // Launch on each set, and on the first again without clearing what the last one left.
  async wrongOf({ judge, n, plan, texts, compiled }, explains) {
    const lines = texts.map((each) => unrolled(each, plan.before));
    const evaluation = await Evaluation.made(this.gpu, plan, lines, judge.sets, null, compiled);
    for (const [turn, set] of [...judge.sets.keys(), 0].entries()) {
      if (turn < LAUNCHES) evaluation.spoil();
      if (turn === 0) await evaluation.launchFirst(0);
      const dispatches = evaluation.dispatchesOn(set);
      const began = performance.now();
      if (turn) submitted(this.gpu, dispatches);
      await this.gpu.finished("a launch that is judged", expectedSeconds(dispatches));
      if (turn) this.seconds = (performance.now() - began) / 1000;
      const explain = explains ? { former: turn ? (turn - 1) % LAUNCHES : -1, tiles: tilesOf(this.head, plan) } : null;
      const { errors, objection, cause, rows } = await judge.verdict(set, await evaluation.result(), explain);
      if (objection) return { n, objection, cause, rows };
      if (!this.largest || errors.error_magnitude_max > this.largest.error_magnitude_max) this.largest = errors;
    }
    this.checked = n;
    const isKept = await evaluation.keptBodies();
    this.gpu.release();
    if (isKept) return null;
    const objection = "it changed the bodies that it was given";
    return { n, objection, cause: objection, rows: "" };
  }

  // Say where a barrier makes the result right; null where none does.
  missingBarrier(n) {
    return this.judged(n, (judge) => this.barrierIn(n, judge));
  }

  async barrierIn(n, judge) {
    const began = performance.now();
    for (const place of placesForBarriers(this.text, this.head.kernels.map(({ name }) => name))) {
      if (performance.now() - began > 1000 * SEARCH.seconds) return null;
      this.tell("is a barrier missing?");
      try {
        const isWrong = await this.wrongOf(this.measuring(n, withBarrier(this.text, place), judge), false);
        if (!isWrong) {
          return `workgroupBarrier() is missing behind line ${place.line + 1}: with one there, the result is right`;
        }
      } catch (error) {
        // A place where not all threads come, or where a barrier cannot stand.
        if (!(error instanceof Refusal) || error.broken) throw error;
      }
    }
    return null;
  }

  // Set a right kernel beside the rung: by what the exercise is about, and by time.
  async beside() {
    const { error, threads_per_body: threads } = this.about.limits;
    if (!new RegExp(this.about.needs, "m").test(this.text)) return this.ended("right", this.about.lacks);
    if (error && this.about.errorAt) {
      const n = this.about.errorAt;
      this.largest = null;
      const wrong = await this.wrongWith(n);
      if (wrong) return this.ended("wrong", `with ${count(n)} bodies, ${sentenceOfWrong(wrong)}`);
      const rms = this.largest.error_magnitude_rms;
      if (rms > error) {
        const words = `the rms error for ${count(n)} bodies is ${scientific(rms)}; accepted: ${scientific(error)}`;
        return this.ended("right", words);
      }
    }
    const n = this.timedSize();
    if (threads) {
      const threadsOf = ({ dispatches }) => Math.max(...dispatches.map((each) => each.grid * each.threads)) / n;
      const [mine, rungs] = [threadsOf(planOf(this.head, this.text, n)), threadsOf(this.rung.plans[n])];
      if (mine < threads * rungs) {
        const words = `it has ${mine.toFixed(2)} threads for each of ${count(n)} bodies, where ${this.about.rung} has`;
        return this.ended("right", `${words} ${rungs.toFixed(2)}`);
      }
    }
    return this.timed(n);
  }

  // How many bodies are timed: fewer where an evaluation would take long, because it is one dispatch.
  timedSize() {
    const most = this.gpu.isSoftware ? ON_SOFTWARE : Math.min(ON_HARDWARE, this.about.n);
    const isShort = (n) => this.seconds * (n / this.checked) ** 2 <= LONGEST_EVALUATION;
    return Math.max(CONTENT.sizes[0], ...CONTENT.sizes.filter((n) => n <= most && isShort(n)));
  }

  async timed(n) {
    const judge = new Judge(n);
    try {
      for (let round = 0; ; round += 1) {
        const { mine, rungs, refusal } = await this.times(n, judge);
        if (refusal) return this.ended("wrong", refusal.message.replace(/^wrong: /, ""), refusal);
        const { verdict, sentence } = besideRung(mine, rungs, this.about.rung, this.gpu);
        if (verdict === "good" || round + 1 === PAIRS) {
          const words = `Medians for ${count(n)} bodies on ${this.gpu.name}`;
          this.facts.push(`${timeOf(mine)}; ${this.about.rung}: ${timeOf(rungs)}. ${words}.`);
          return this.ended(verdict, sentence);
        }
      }
    } finally {
      judge.close();
    }
  }

  // Time the rung and this kernel, one after the other.
  async times(n, judge) {
    const { gpu, clock, browser, rung, tell } = this;
    const watch = (what) => () => tell(`timing ${what}`);
    const texts = rung.plans[n].texts;
    const records = { ...rung.records[n], protocol: { ...rung.records[n].protocol, ...BESIDE } };
    const short = { ...rung, records: { [n]: records } };
    const options = { gpu, clock, browser, judge, n, tell: watch(rung.name) };
    const ofRung = new Measuring({ ...options, rung: short, texts, isEdited: false });
    const { record: rungs, refusal: failed } = await ofRung.record();
    if (failed) throw new Refusal(`${rung.name} cannot be timed here: ${failed.message}`, { status: "skipped" });
    const mine = this.measuring(n, this.text, judge);
    mine.tell = watch("yours");
    const { record, refusal } = await mine.record();
    return { mine: record, rungs, refusal };
  }
}

// Say what is wrong with a result, and with which rows.
function sentenceOfWrong({ objection, cause, rows }) {
  if (!cause) return `${objection}${rows && `; wrong rows: ${rows}`}; ${UNEXPLAINED}`;
  if (cause.startsWith("rows")) return cause;
  return rows ? `${cause}; wrong rows: ${rows}` : cause;
}

// Set the record of a kernel against that of the rung. The times of a software adapter are not graded.
function besideRung(mine, rungs, name, gpu) {
  if (gpu.isSoftware) {
    const sentence = `it does what ${name} does; not graded by time, because ${gpu.name} is no GPU`;
    return { verdict: "good", sentence };
  }
  const ratio = mine.median_seconds / rungs.median_seconds;
  const isWithin = [mine, rungs].every((each) => halfWidthOf(each) <= WIDEST) && mine.ci_low <= rungs.ci_high;
  if (isWithin || ratio <= CONTENT.exercises.asFast) {
    const within = isWithin ? "within its interval" : `${ratio.toFixed(2)} times its time`;
    return { verdict: "good", sentence: `as good as ${name}, ${within}` };
  }
  return { verdict: "right", sentence: `${ratio.toFixed(2)} times slower than ${name}` };
}

function halfWidthOf({ median_seconds: median, ci_low: low, ci_high: high }) {
  return low === null ? Infinity : (high - low) / (2 * median);
}

function timeOf(record) {
  const half = halfWidthOf(record);
  const words = Number.isFinite(half) ? ` ± ${(100 * half).toPrecision(2)} %` : "";
  return `${(1000 * record.median_seconds).toPrecision(4)} ms${words}`;
}
