"use strict";
// Sorting, filtering and unfolding of tables, light and dark mode, download, and numbers by round.

const make = (name, attributes = {}, ...content) => {
  const element = Object.assign(document.createElement(name), attributes);
  element.append(...content);
  return element;
};
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Sorting. Numbers are read from the text of the cells; rows with equal numbers keep their order.
const number = (text) => {
  const found = parseFloat(text.replaceAll("−", "-").replaceAll(",", ""));
  return Number.isNaN(found) ? -Infinity : found;
};
const keys = {
  text: (text) => text.toLowerCase(),
  word: (text) => text.toLowerCase(),
  number,
  size: (text) => Math.abs(number(text)),
};

function sort(head) {
  const body = head.closest("table").tBodies[0];
  const key = keys[head.dataset.sort];
  const first = ["text", "word"].includes(head.dataset.sort) ? "ascending" : "descending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = head.getAttribute("aria-sort") === first ? other : first;
  for (const cell of head.parentElement.cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...body.rows].map((row) => [key(row.cells[head.cellIndex].textContent), row]);
  rows.sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0));
  body.append(...rows.map(([, row]) => row));
}

for (const head of all("th[data-sort]")) {
  const button = make("button", { type: "button" }, ...head.childNodes);
  button.addEventListener("click", () => sort(head));
  head.append(button);
}

// Long tables start folded, and can be filtered by name.
for (const box of all(".long")) {
  const rows = [...box.querySelector("tbody").rows];
  const noun = box.dataset.noun;
  const find = make("input", { type: "search", placeholder: `Find ${noun}` });
  find.setAttribute("aria-label", `Find ${noun} by name`);
  const shown = make("output");
  const fold = make("button", { type: "button" });
  const show = (folded) => {
    const wanted = find.value.trim().toLowerCase();
    let found = rows.length;
    if (wanted || rows.some((row) => row.hidden)) {
      for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
      found = rows.filter((row) => !row.hidden).length;
    }
    box.classList.toggle("folded", folded && !wanted);
    fold.hidden = wanted !== "";
    fold.textContent = folded ? `Show all ${rows.length.toLocaleString("en")}` : "Show 50";
    fold.setAttribute("aria-expanded", String(!folded));
    const count = (wanted || !folded ? found : 50).toLocaleString("en");
    shown.textContent = `${count} of ${rows.length.toLocaleString("en")} ${noun}`;
  };
  let folded = true;
  fold.addEventListener("click", () => show((folded = !folded)));
  find.addEventListener("input", () => show(folded));
  box.before(make("div", { className: "tools" }, find, fold, shown));
  show(folded);
}

// Light or dark mode: the system's until the user chooses one.
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
const theme = make("button", { type: "button", id: "theme" });
const say = () => {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} mode`);
};
try {
  const kept = localStorage.getItem("outrule-theme");
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;
} catch { /* browsers may forbid storage to pages opened from a file */ }
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("outrule-theme", root.dataset.theme); } catch { /* as above */ }
  say();
});
system.addEventListener("change", say);
say();
document.querySelector("header").append(theme);

// The summary as a file.
const source = document.getElementById("summary").textContent;
const save = make("button", { type: "button" }, "Save the numbers as JSON");
save.addEventListener("click", () => {
  const address = URL.createObjectURL(new Blob([source], { type: "application/json" }));
  make("a", { href: address, download: "outrule-summary.json" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
});
document.querySelector("footer").append(save);

// Rounds: the pointer or the arrow keys move along both lines.
const charts = all(".rounds");
if (charts.length) {
  const { rounds } = JSON.parse(source);
  const { first, last } = charts[0].parentElement.dataset;
  const across = (row) => (row.round - first) / Math.max(last - first, 1);
  const series = { error: (row) => row.squared_error, violation: (row) => Math.abs(row.violation) };
  let at = rounds.length - 1;
  const lines = charts.map((chart) => {
    const { low, high, decimals, series: name } = chart.dataset;
    const output = make("output");
    chart.querySelector("figcaption").append(" ", output);
    const canvas = chart.querySelector(".canvas");
    const spot = make("div", { className: "spot", hidden: true });
    canvas.append(spot);
    return { chart, canvas, spot, output, low: +low, high: +high, decimals: +decimals, of: series[name] };
  });
  const move = (index) => {
    at = Math.min(Math.max(index, 0), rounds.length - 1);
    const row = rounds[at];
    for (const { spot, output, low, high, decimals, of } of lines) {
      spot.hidden = false;
      spot.style.left = `${100 * across(row)}%`;
      spot.style.bottom = `${(100 * (of(row) - low)) / (high - low)}%`;
      const test = row.test === null ? "nothing flagged" : row.test;
      const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
      output.textContent = `${of(row).toLocaleString("en", digits)} in round ${row.round} (${test})`;
    }
  };
  for (const { canvas, chart } of lines) {
    const plot = chart.querySelector(".plot");
    plot.tabIndex = 0;
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: rounds.length - 1 };
      if (!(event.key in step)) return;
      event.preventDefault();
      move(step[event.key]);
    });
    plot.addEventListener("focus", () => move(at));
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const share = (event.clientX - box.left) / box.width;
      const away = rounds.map((row) => Math.abs(across(row) - share));
      move(away.indexOf(Math.min(...away)));
    });
  }
}
