// What a person has done in the exercises, kept by the browser where it keeps anything for this page.

const KEPT = "gravbench.exercises";
const BETTER = ["wrong", "right", "good"];

class Progress {
  constructor() {
    this.works = {};
    try {
      // A page from a disk may have no storage; what another version left may be anything.
      this.works = JSON.parse(localStorage.getItem(KEPT)) || {};
      localStorage.setItem(KEPT, JSON.stringify(this.works));
      this.isKept = true;
    } catch {
      this.isKept = false;
    }
  }

  // Return what was done in an exercise: attempts, the best verdict, hints that were opened, and the text.
  of(name) {
    const { attempts = 0, best = null, hints = 0, text = null } = Object(this.works[name]);
    return { attempts, best, hints, text };
  }

  change(name, changes) {
    this.works[name] = { ...this.of(name), ...changes };
    try {
      if (this.isKept) localStorage.setItem(KEPT, JSON.stringify(this.works));
    } catch {
      this.isKept = false;
    }
  }

  // Count an attempt.
  add(name, verdict) {
    const { attempts, best } = this.of(name);
    const isBetter = BETTER.indexOf(verdict) > BETTER.indexOf(best);
    this.change(name, { attempts: attempts + 1, best: isBetter ? verdict : best });
  }
}
