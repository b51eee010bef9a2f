// A rung with the text of its kernel, which can be edited and run; lines that the rung before lacks are marked.

const NEW_LINE = "+";
const OWN_LINE = "*";
const WRONG_LINE = "!";

class Editor {
  // `run` is called with this editor when its kernel is to run.
  constructor(rung, run) {
    Object.assign(this, { rung, edits: new Map(), n: 0, areas: [], wrong: new Set() });
    this.status = element("p", { role: "status", class: "status" });
    this.place = element("div");
    this.runs = element("button", { type: "button", class: "run-this" }, "Run this");
    this.undoes = element("button", { type: "button", class: "undo" }, "Undo my changes");
    this.runs.addEventListener("click", () => run(this));
    this.undoes.addEventListener("click", () => this.undo());
    this.whole = element(
      "details", { id: `rung-${rung.name}` },
      element("summary", {}, element("strong", {}, rung.name), ` ${rung.summary}`),
      ...rung.explanation.split("\n\n").slice(1).map((words) => element("p", {}, words)),
      element("p", { class: "axes" }, this.introduction()),
      this.place, element("p", {}, this.runs, " ", this.undoes), this.status,
    );
  }

  introduction() {
    const axes = Object.entries(this.rung.axes).map(([name, value]) => `${name} = ${value}`).join(", ");
    const marks = this.rung.parent ? ` ${NEW_LINE} marks lines that ${this.rung.parent} does not have.` : "";
    return `${axes}.${marks} ${OWN_LINE} marks lines that you changed, ${WRONG_LINE} those that do not compile.`;
  }

  get plan() {
    return this.rung.plans[this.n];
  }

  // The texts as they stand there now.
  get texts() {
    return this.plan.texts.map((text, place) => {
      const edit = this.edits.get(this.key(place));
      return edit === undefined ? text : edit;
    });
  }

  get isEdited() {
    return this.texts.some((text, place) => text !== this.plan.texts[place]);
  }

  key(place) {
    return `${this.n}/${place}`;
  }

  // Show the texts for n bodies; changes to those for another n are kept.
  show(n) {
    this.n = n;
    this.wrong.clear();
    this.areas = this.texts.map((text, place) => this.area(text, place));
    this.place.replaceChildren(...this.areas.map(({ whole }) => whole));
    this.mark();
  }

  area(text, place) {
    const area = new CodeArea(text, `The kernel of ${this.rung.name} in WGSL`, () => {
      this.edits.set(this.key(place), area.input.value);
      this.wrong.clear();
      this.mark();
    });
    return area;
  }

  undo() {
    this.plan.texts.forEach((_, place) => this.edits.delete(this.key(place)));
    this.say("");
    this.show(this.n);
  }

  say(words, lines = []) {
    this.status.textContent = words;
    this.wrong = new Set(lines);
    this.mark();
  }

  // Number the lines, and mark them.
  mark() {
    this.undoes.disabled = !this.isEdited;
    this.areas.forEach((area, place) => {
      const original = this.plan.texts[place].split("\n");
      const known = new Set(original);
      const changed = new Set(this.plan.changed[place].map((number) => original[number]));
      area.mark((line, number) => {
        if (this.wrong.has(number)) return WRONG_LINE;
        if (!known.has(line)) return OWN_LINE;
        return changed.has(line) ? NEW_LINE : " ";
      });
    });
  }
}
