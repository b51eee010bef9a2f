// A text that can be edited, with numbered lines and a sign at each.

class CodeArea {
  // `changed` is called after each change.
  constructor(text, label, changed) {
    this.gutter = element("pre", { "aria-hidden": "true", class: "gutter" });
    this.input = element("textarea", { spellcheck: "false", wrap: "off", "aria-label": label });
    this.input.value = text;
    this.input.addEventListener("input", changed);
    this.whole = element("div", { class: "code" }, this.gutter, this.input);
  }

  // Number the lines; `signOf` gives the sign of a line by its text and number.
  mark(signOf) {
    const lines = this.input.value.split("\n");
    const numbered = lines.map((line, number) => `${signOf(line, number)}${String(number + 1).padStart(4)}`);
    this.gutter.textContent = numbered.join("\n");
    this.input.rows = lines.length;
  }
}
