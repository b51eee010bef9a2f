// The exercises as a person sees them: a text to edit, a check, hints, our solution, and what to do next.

const PARTS = ["ladder", "exercises"];

class ExerciseView {
  // `check` is called with this view when its text is to be checked, `shown` when its progress has changed.
  constructor(about, progress, { check, stop, changed }) {
    Object.assign(this, { about, progress, changed, wrong: new Set() });
    const button = (words, names, action) => {
      const made = element("button", { type: "button", class: names }, words);
      made.addEventListener("click", action);
      return made;
    };
    const { text } = progress.of(about.name);
    const label = `Your kernel for ${about.title}`;
    this.area = new CodeArea(text === null ? about.skeleton : text, label, () => this.edited());
    this.checks = button("Check", "check", () => check(this));
    this.stops = button("Stop", "stop", stop);
    this.checks.disabled = this.stops.disabled = true; // until there is a device
    this.undoes = button("Back to the skeleton", "undo", () => this.undo());
    this.hintsOn = button("", "hint", () => this.openHint());
    this.solves = button("", "solve", () => this.openSolution());
    this.status = element("p", { role: "status", class: "status" });
    this.facts = element("div", { class: "facts" });
    this.hints = element("ol", { class: "hints" });
    this.solution = element("pre", { class: "solution", hidden: "", tabindex: "0" });
    this.next = element("p", { class: "next" });
    byId(`exercise-${about.name}`).querySelector(".work").append(
      this.area.whole, element("p", {}, this.checks, " ", this.stops, " ", this.undoes), this.status, this.facts,
      element("p", {}, this.hintsOn, " ", this.solves), this.hints, this.solution, this.next,
    );
    this.show();
  }

  get text() {
    return this.area.input.value;
  }

  edited() {
    this.wrong.clear();
    this.progress.change(this.about.name, { text: this.text });
    this.mark();
  }

  undo() {
    this.area.input.value = this.about.skeleton;
    this.say("");
    this.edited();
  }

  mark() {
    const known = new Set(this.about.skeleton.split("\n"));
    this.undoes.disabled = this.text === this.about.skeleton;
    this.area.mark((line, number) => (this.wrong.has(number) ? WRONG_LINE : known.has(line) ? " " : OWN_LINE));
  }

  openHint() {
    this.progress.change(this.about.name, { hints: this.progress.of(this.about.name).hints + 1 });
    this.show();
  }

  openSolution() {
    this.solution.hidden = !this.solution.hidden;
    this.show();
  }

  say(words, { verdict = "", facts = [], lines = [] } = {}) {
    this.status.textContent = words;
    this.status.dataset.verdict = verdict;
    this.facts.replaceChildren(...facts.map((fact) => element("p", {}, fact)));
    this.wrong = new Set(lines);
    this.mark();
  }

  // Show what came of a check.
  answer({ verdict, sentence, facts, lines }) {
    this.progress.add(this.about.name, verdict);
    const end = /[.?]$/.test(sentence) ? "" : ".";
    this.say(`${CONTENT.exercises.beginnings[verdict]} ${sentence}${end}`, { verdict, facts, lines });
    this.show();
  }

  show() {
    const { attempts, best, hints } = this.progress.of(this.about.name);
    const all = this.about.hints;
    const opened = Math.min(hints, all.length);
    this.hints.replaceChildren(...all.slice(0, opened).map((hint) => {
      const made = element("li");
      made.innerHTML = hint; // made of the course's Markdown when the page was written
      return made;
    }));
    this.hintsOn.textContent = opened < all.length ? `Hint ${opened + 1} of ${all.length}` : "No more hints";
    this.hintsOn.disabled = opened >= all.length;
    this.solves.disabled = !attempts;
    this.solves.textContent = this.solution.hidden ? "Our solution" : "Close our solution";
    this.solves.title = attempts ? "" : "Opens after a first check";
    this.solution.textContent = this.solution.hidden ? "" : this.about.solution;
    this.next.replaceChildren("Next: ", ...this.nextWords(best, attempts, opened < all.length));
    this.mark();
    this.changed();
  }

  nextWords(best, attempts, hasHint) {
    if (best !== "good") {
      const help = hasHint ? "a hint" : "our solution";
      const again = `change the kernel and check it again; for help, open ${help}.`;
      return [attempts ? again : "write your part and press Check."];
    }
    const all = CONTENT.exercises.all;
    const following = all[all.findIndex(({ name }) => name === this.about.name) + 1];
    if (following) return [element("a", { href: `#exercises/${following.name}` }, following.title)];
    return [element("a", { href: "#ladder" }, "run the whole ladder, and change its kernels"), "."];
  }
}

class Exercises {
  constructor(actions) {
    this.progress = new Progress();
    const changed = () => this.list();
    this.views = [];
    for (const about of CONTENT.exercises.all) {
      this.views.push(new ExerciseView(about, this.progress, { ...actions, changed }));
    }
    byId("kept").textContent = this.progress.isKept
      ? "Your texts and results stay in this browser."
      : "This browser keeps nothing for this page: your texts and results are lost when you close it.";
    window.addEventListener("hashchange", () => this.go());
    this.go();
  }

  // Show the part of the page, and the exercise, that the address names.
  go() {
    const [part, name] = location.hash.slice(1).split("/");
    const shown = PARTS.includes(part) ? part : PARTS[0];
    for (const each of PARTS) {
      byId(`${each}-part`).hidden = each !== shown;
      const link = document.querySelector(`nav a[href="#${each}"]`);
      if (each === shown) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    for (const { about } of this.views) byId(`exercise-${about.name}`).hidden = about.name !== name;
    const opened = this.views.find(({ about }) => about.name === name);
    if (shown === "exercises" && opened) byId(`exercise-${name}`).scrollIntoView();
    this.list();
  }

  // Mark in the list how far each exercise is.
  list() {
    for (const { about } of this.views) {
      const { attempts, best } = this.progress.of(about.name);
      const link = byId("list").querySelector(`a[href="#exercises/${about.name}"]`);
      link.toggleAttribute("aria-current", location.hash === `#exercises/${about.name}`);
      const words = best ? CONTENT.exercises.words[best] : "";
      link.parentElement.querySelector(".reached").textContent = words && `(${words}; checks: ${attempts})`;
    }
  }
}
