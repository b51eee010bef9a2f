// What was measured, as a table and as a picture of bars; both grow as kernels end.

const BAR = { height: 26, label: 190, width: 900, numbers: 210 };
const SVG = "http://www.w3.org/2000/svg";

// Make an element with attributes and children, which are elements or texts.
function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...children);
  return made;
}

class Ladder {
  constructor(body, picture) {
    Object.assign(this, { body, picture, rows: new Map(), records: new Map() });
  }

  get all() {
    return [...this.records.values()];
  }

  // Say what a kernel is busy with, in its row.
  busy(name, n, words, errors = null) {
    const error = errors ? scientific(errors.error_max) : "";
    this.row(name, n).replaceChildren(...cells([name, count(n), words, "", "", "", "", error]));
  }

  // Show a record, instead of an earlier one of the same kernel and n.
  show(record) {
    this.records.set(`${record.variant}/${record.n}`, record);
    const isOk = record.status === "ok";
    const words = isOk ? "verified" : `${record.status}: ${record.reason}`;
    const numbers = isOk ? this.numbersOf(record) : ["", "", "", ""];
    const row = this.row(record.variant, record.n);
    row.replaceChildren(...cells([record.variant, count(record.n), words, ...numbers, errorOf(record)]));
    row.className = record.status;
    this.draw(record.n);
  }

  numbersOf(record) {
    const median = record.median_seconds;
    const percent = (50 * (record.ci_high - record.ci_low)) / median;
    const half = record.ci_low === null ? "not known" : percent.toPrecision(2);
    const first = this.records.get(`${CONTENT.rungs[0].name}/${record.n}`);
    const times = first && first.status === "ok" ? `${(first.median_seconds / median).toFixed(2)}` : "";
    return [(1000 * median).toPrecision(4), half, (record.interactions_per_second / 1e9).toPrecision(4), times];
  }

  // Forget the row of what was stopped before it had a record.
  forget(name, n) {
    const key = `${name}/${n}`;
    const record = this.records.get(key);
    if (record) this.show(record);
    else if (this.rows.has(key)) this.rows.get(key).remove();
    if (!record) this.rows.delete(key);
  }

  row(name, n) {
    const key = `${name}/${n}`;
    if (!this.rows.has(key)) {
      this.rows.set(key, element("tr", { "data-kernel": name, "data-n": n }));
      this.body.append(this.rows.get(key));
    }
    return this.rows.get(key);
  }

  // Draw the interactions per second of all that is right at one n.
  draw(n) {
    const shown = this.all.filter((record) => record.n === n && record.status === "ok");
    const fastest = Math.max(...shown.map((record) => record.interactions_per_second));
    const title = `Interactions per second at N = ${count(n)}: longer is faster`;
    const bars = shown.map((record, place) => barOf(record, place, fastest));
    this.picture.setAttribute("viewBox", `0 0 ${BAR.width} ${BAR.height * Math.max(1, shown.length) + 4}`);
    this.picture.replaceChildren(drawn("title", {}, title), ...bars);
    this.picture.previousElementSibling.textContent = title;
  }
}

function barOf(record, place, fastest) {
  const middle = BAR.height * (place + 0.5);
  const longest = BAR.width - BAR.label - BAR.numbers;
  const width = Math.max(1, (longest * record.interactions_per_second) / fastest);
  const milliseconds = (1000 * record.median_seconds).toPrecision(3);
  const numbers = `${(record.interactions_per_second / 1e9).toPrecision(3)}e9/s, ${milliseconds} ms`;
  const isEdited = record.variant.endsWith("_edited");
  return drawn(
    "g", { class: isEdited ? "edited" : "built-in" },
    drawn("text", { x: BAR.label - 8, y: middle, "text-anchor": "end" }, record.variant),
    drawn("rect", { x: BAR.label, y: middle - BAR.height * 0.36, width, height: BAR.height * 0.72 }),
    drawn("text", { x: BAR.label + width + 8, y: middle }, numbers),
  );
}

function cells(words) {
  return words.map((word, place) => element(place ? "td" : "th", place ? {} : { scope: "row" }, word));
}

function count(number) {
  return number.toLocaleString("en");
}

function scientific(number) {
  return Number(number).toExponential(1);
}

function errorOf(record) {
  return record.error_max === undefined || record.error_max === null ? "" : scientific(record.error_max);
}
