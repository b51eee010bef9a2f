"use strict";
// Filters the rows of a table by words and by what its fields choose. Without it, all rows are shown.

function filtered(form) {
  const rows = [...form.nextElementSibling.querySelectorAll("tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());

  function show() {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fields = [...form.querySelectorAll("select")].filter((field) => field.value);
    let shown = 0;
    rows.forEach((row, place) => {
      const fits = fields.every((field) => row.dataset[field.name] === field.value);
      row.hidden = !(fits && words.every((word) => texts[place].includes(word)));
      shown += !row.hidden;
    });
    form.querySelector("output").textContent = `${shown} of ${rows.length} rows`;
  }

  form.addEventListener("input", show);
  form.addEventListener("change", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
}

document.querySelectorAll("form.tools").forEach(filtered);
