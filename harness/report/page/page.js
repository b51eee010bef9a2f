"use strict";

// What is in the page as html.py compresses it.
const embedded = (name) => {
  const bytes = Uint8Array.from(atob(document.getElementById(name).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
};
const made = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

// A name that has no room where it is drawn may stand below or above its point, and on the other side of it.
function waysOf(text, width) {
  const { dx, dy } = text.__data__;
  if (text.getAttribute("font-weight") !== "bold" || !dx || !dy) return [[0, 0]];
  const across = -2 * dx - Math.sign(dx) * width;
  return [[0, 0], [across, 0], [0, -2 * dy], [across, -2 * dy]];
}

// Of labels that would lie on each other the first stays, as do axes, legends and markers. A name that a narrow figure
// would cut short is left to the legend. Tooltips have all of them.
function declutter(chart) {
  const whole = chart.getBoundingClientRect();
  const boxes = (selector) => [...chart.querySelectorAll(selector)].map((one) => one.getBoundingClientRect());
  const kept = boxes(".role-axis-label text, .role-axis-title text, .role-legend text, .mark-symbol.role-mark path");
  const free = (box) => box.left >= whole.left - 1 && box.right <= whole.right + 1
    && !kept.some((one) => box.left < one.right - 1 && one.left < box.right - 1
      && box.top < one.bottom - 2 && one.top < box.bottom - 2);
  for (const text of chart.querySelectorAll(".mark-text.role-mark text")) {
    if (!text.textContent) continue;
    const at = ([x, y]) => {
      text.setAttribute("dx", x);
      text.setAttribute("dy", y);
      return text.getBoundingClientRect();
    };
    const way = text.textContent.endsWith("…") ? undefined
      : waysOf(text, at([0, 0]).width).find((one) => free(at(one)));
    text.style.visibility = way ? "" : "hidden";
    if (way) kept.push(at(way));
  }
}

// Figures: drawn when they come near the window, so that the page opens at once.
function drawFigures(specs, config) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const options = { renderer: "svg", actions: false, tooltip: { theme: dark ? "dark" : "light" } };
  const draw = (chart) => {
    if (chart.dataset.drawn) return;
    chart.dataset.drawn = "yes";
    const spec = { ...specs[chart.dataset.figure], config: structuredClone(config) };
    if (chart.clientWidth < 420) {
      spec.config.axis.labelFontSize = 10;
      spec.config.text.fontSize = 9.5;
      spec.config.legend.columns = 1;
      spec.config.text.limit = 150;
      spec.config.axisX = { ...spec.config.axisX, titleLimit: chart.clientWidth - 40 };
    }
    window.vegaEmbed(chart, spec, options).then(
      () => {
        chart.style.minHeight = "";
        let asked = 0;
        const again = () => { cancelAnimationFrame(asked); asked = requestAnimationFrame(() => declutter(chart)); };
        // Another n, or another width, draws the labels anew.
        if (chart.querySelector(".vega-bindings select")) new MutationObserver(again).observe(chart, { childList: true, subtree: true });
        window.addEventListener("resize", again);
        declutter(chart);
      },
      (error) => { chart.textContent = `This figure cannot be drawn: ${error.message}`; console.error(error); },
    );
  };
  const charts = [...document.querySelectorAll(".chart")];
  const near = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      near.unobserve(entry.target);
      draw(entry.target);
    }),
    { rootMargin: "300px" },
  );
  charts.forEach((chart) => near.observe(chart));
  window.addEventListener("beforeprint", () => charts.forEach(draw));
}

// The table of records: a page of rows at a time, made from columns.
function showRecords({ count, shown, columns, hints }) {
  const perPage = 50;
  const of = (name, row) => columns[name][row];
  const numeric = Object.fromEntries(Object.keys(columns).map((name) =>
    [name, columns[name].some((value) => typeof value === "number")]));
  const written = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value !== "number") return String(value);
    const size = Math.abs(value);
    if (size && (size < 1e-3 || size >= 1e9)) return value.toExponential(2);
    return value.toLocaleString("en-US", Number.isInteger(value) || size >= 1e4 ? { maximumFractionDigits: 0 }
      : { minimumSignificantDigits: 4, maximumSignificantDigits: 4 });
  };
  const names = Object.keys(shown);
  const searched = [...names, ...hints].filter((name) => name in columns && !numeric[name]);
  const texts = [];
  const text = (row) => texts[row] ??= [...searched.map((name) => of(name, row)), `n=${of("n", row)}`]
    .join(" ").toLowerCase();

  const head = document.querySelector("#table thead tr");
  const body = document.querySelector("#table tbody");
  const filter = document.getElementById("filter");
  const status = document.getElementById("found");
  const [back, on] = [document.getElementById("back"), document.getElementById("on")];
  const tip = document.getElementById("configuration");
  const state = { by: null, down: false, page: 0, rows: Array.from({ length: count }, (_, row) => row) };

  const compare = (a, b) => {
    const [x, y] = [of(state.by, a), of(state.by, b)];
    const missing = (value) => value === null || value === "" || (numeric[state.by] && typeof value !== "number");
    // What is missing stands last whichever way it is sorted.
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a - b;
    const order = numeric[state.by] ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return (state.down ? -order : order) || a - b;
  };
  const choose = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    state.rows = [];
    for (let row = 0; row < count; row++) {
      if (words.every((word) => text(row).includes(word))) state.rows.push(row);
    }
    if (state.by) state.rows.sort(compare);
    state.page = 0;
    show();
  };
  const hint = (row) => [`${of("variant", row)} by ${of("toolkit", row)}: n=${of("n", row)}`,
    ...hints.filter((name) => name in columns && of(name, row) !== null && of(name, row) !== "")
      .map((name) => name === "configuration" ? of(name, row) : `${name} ${written(of(name, row))}`)].join(", ");
  const openRow = (button, row) => {
    const line = button.closest("tr");
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) { line.nextSibling.remove(); return; }
    tip.hidden = true;
    const facts = made("dl");
    for (const name of Object.keys(columns)) {
      const value = of(name, row);
      if (name === "command" || value === null || value === "") continue;
      const small = typeof value === "number" && value && Math.abs(value) < 1e-3;
      const pair = made("div");
      pair.append(made("dt", shown[name] ?? name.replaceAll("_", " ")));
      pair.append(made("dd", small ? value.toExponential() : String(value)));
      facts.append(pair);
    }
    const again = made("pre", undefined, { tabindex: "0" });
    again.append(made("code", of("command", row)));
    const cell = made("td", undefined, { colspan: names.length });
    cell.append(made("strong", "To measure it again:"), again, facts);
    const whole = made("tr", undefined, { class: "whole" });
    whole.append(cell);
    line.after(whole);
  };
  const show = () => {
    const pages = Math.max(1, Math.ceil(state.rows.length / perPage));
    const first = state.page * perPage;
    const visible = state.rows.slice(first, first + perPage);
    body.replaceChildren(...visible.map((row) => {
      const line = made("tr", undefined, { "data-row": row });
      names.forEach((name, place) => {
        const cell = made("td", undefined, numeric[name] ? { class: "number" } : name === "configuration" ? { class: "wide" } : {});
        if (place) {
          cell.textContent = written(of(name, row));
        } else {
          const button = made("button", of(name, row), { type: "button", "aria-expanded": "false" });
          button.setAttribute("aria-describedby", tip.id);
          button.addEventListener("click", () => openRow(button, row));
          cell.append(button);
        }
        line.append(cell);
      });
      return line;
    }));
    const range = visible.length ? `${(first + 1).toLocaleString("en-US")} to ${(first + visible.length).toLocaleString("en-US")} of ` : "";
    status.textContent = `${range}${state.rows.length.toLocaleString("en-US")} records`;
    back.disabled = state.page === 0;
    on.disabled = state.page >= pages - 1;
    tip.hidden = true;
  };
  names.forEach((name) => {
    const cell = made("th", undefined, { scope: "col", "aria-sort": "none", ...(numeric[name] ? { class: "number" } : {}) });
    const button = made("button", shown[name], { type: "button" });
    button.addEventListener("click", () => {
      state.down = state.by === name ? !state.down : false;
      state.by = name;
      for (const other of head.children) other.setAttribute("aria-sort", "none");
      cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      choose();
    });
    cell.append(button);
    head.append(cell);
  });
  let pointed = false;
  let line = null;
  const place = (left) => {
    const box = line.getBoundingClientRect();
    const below = box.bottom + tip.offsetHeight + 12 < window.innerHeight;
    tip.style.top = `${below ? box.bottom + 4 : box.top - tip.offsetHeight - 4}px`;
    tip.style.left = `${Math.max(8, Math.min(left ?? box.left + 8, window.innerWidth - tip.offsetWidth - 8))}px`;
  };
  const point = (event) => {
    line = event.target.closest("tr[data-row]");
    tip.hidden = !line;
    if (!line) return;
    pointed = event.type === "mouseover";
    tip.textContent = hint(Number(line.dataset.row));
    place(pointed ? event.clientX : undefined);
  };
  body.addEventListener("mouseover", point);
  body.addEventListener("focusin", point);
  body.addEventListener("mouseleave", () => { tip.hidden = true; });
  body.addEventListener("focusout", () => { tip.hidden = true; });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  document.addEventListener("scroll", () => {
    tip.hidden ||= pointed;
    if (!tip.hidden) place();
  }, { passive: true });
  filter.addEventListener("input", choose);
  back.addEventListener("click", () => { state.page -= 1; show(); });
  on.addEventListener("click", () => { state.page += 1; show(); });
  show();
}

(async () => {
  try {
    const { specs, config, records } = JSON.parse(await embedded("data"));
    showRecords(records);
    document.body.append(made("script", await embedded("vega")));
    drawFigures(specs, config);
  } catch (error) {
    document.getElementById("unread").hidden = false;
    console.error(error);
  }
})();
