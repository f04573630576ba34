// The page *Planner*: a form, and what plan.js makes of it. The address holds the form,
// so that a link to it shows the same plan. Without this script the page keeps the
// example that is printed on paper.

import { defaultBatch, defaultSequence, defaultTokens, Refused, train } from "./plan.js";

const host = document.querySelector(".planner");
const data = await (await fetch(new URL("data.json", import.meta.url))).json();

// The form --------------------------------------------------------------------------

const ZERO = ["0: nothing is cut", "1: optimizer", "2: and gradients", "3: and weights"];
// Fields by group. `name` is Python's, which messages use; `type` says how its text is
// read: a choice, a flag, a count, or an amount such as 15.6T. `open`: may be left out.
const GROUPS = {
  Run: [
    { name: "model", label: "Model", choices: Object.keys(data.models) },
    { name: "tokens", label: "Tokens to train on", type: "amount", open: true },
    { name: "global_batch", label: "Sequences per batch", type: "amount", open: true },
    { name: "sequence", label: "Sequence length", type: "amount", open: true },
    { name: "precision", label: "Matrix products in", choices: data.precisions },
  ],
  Cluster: [
    { name: "accelerator", label: "Accelerator", choices: Object.keys(data.accelerators) },
    { name: "accelerators", label: "How many", type: "count" },
    { name: "price_per_hour", label: "USD an hour", type: "amount", open: true },
  ],
  Layout: [
    { name: "tp", label: "Tensor parallel", type: "count" },
    { name: "pp", label: "Pipeline stages", type: "count" },
    { name: "cp", label: "Context parallel", type: "count" },
    { name: "ep", label: "Expert parallel", type: "count" },
    { name: "dp", label: "Data parallel", type: "derived" },
    { name: "zero", label: "ZeRO", choices: ["0", "1", "2", "3"], words: ZERO },
    { name: "micro_batch", label: "Micro-batch", type: "count" },
    { name: "recompute", label: "Recomputation", choices: data.recompute },
    { name: "schedule", label: "Schedule", choices: data.schedules },
    { name: "virtual_stages", label: "Chunks per rank", type: "count" },
    { name: "sequence_parallel", label: "Sequence parallel", type: "flag" },
  ],
};
const FIELDS = Object.values(GROUPS).flat().filter((field) => field.type !== "derived");
const LAYOUT = Object.keys(data.layout);
const control = (name) => document.getElementById(`planner-${name}`);

/** The form's texts for a run as plan.js takes it. */
function texts(run) {
  const flat = { precision: "bf16", ...run, ...data.layout, ...run.layout };
  return Object.fromEntries(FIELDS.map(({ name }) => [name, String(flat[name] ?? "")]));
}

/** The form's texts as they are now. */
const state = () =>
  Object.fromEntries(
    FIELDS.map(({ name, type }) => {
      const { value, checked } = control(name);
      return [name, type === "flag" ? String(checked) : value.trim()];
    }),
  );

/** A number where the text is one, else the text, which plan.js refuses by name. */
function read(text, type) {
  if (type === "flag") return text === "true";
  const plain = text.replace(/(\d)[,_](?=\d{3})/g, "$1");
  if (/^[+-]?\d+$/.test(plain)) {
    const value = Number(plain);
    return Number.isSafeInteger(value) || type === "amount" ? value : BigInt(plain);
  }
  const suffix = { "": 1, k: 1e3, M: 1e6, B: 1e9, G: 1e9, T: 1e12 };
  const amount = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([kMBGT]?)$/.exec(plain);
  return type === "amount" && amount ? Number(amount[1]) * suffix[amount[2]] : text;
}

/** What plan.js is to evaluate. */
function asked(from) {
  const given = { layout: {} };
  for (const { name, type, choices, open } of FIELDS) {
    if (open && from[name] === "") continue;
    const plain = choices && name !== "zero";
    const value = plain ? from[name] : read(from[name], type ?? "count");
    (LAYOUT.includes(name) ? given.layout : given)[name] = value;
  }
  return given;
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function formField({ name, label, choices, words, type }) {
  const id = `planner-${name}`;
  let input;
  if (choices) {
    const options = choices.map((value, i) =>
      make("option", { value }, words?.[i] ?? value),
    );
    input = make("select", { id, name }, ...options);
  } else if (type === "derived") {
    input = make("output", { id, for: "planner-accelerators planner-tp planner-pp" });
  } else {
    const kind = type === "flag" ? "checkbox" : "text";
    const inputmode = type === "count" ? "numeric" : undefined;
    input = make("input", { id, name, type: kind, inputmode, autocomplete: "off" });
  }
  // What Python and messages call it, where the label does not.
  const same = label.toLowerCase().replace(/\W/g, "_") === name;
  const code = same ? [] : [" ", make("code", {}, name)];
  const caption = make("label", { for: id }, label, ...code);
  const order = type === "flag" ? [input, caption] : [caption, input];
  return make("div", { class: "planner-field", "data-type": type }, ...order);
}

// Figures as people read them -------------------------------------------------------

/** Three digits, thousands with commas: 0.0123, 17.7, 473,000. */
function short(value) {
  if (!Number.isFinite(value)) return "∞";
  if (value === 0) return "0";
  if (value >= 1e15 || value < 1e-6) return value.toExponential(1);
  const rounded = Number(value.toPrecision(3));
  return rounded < 1000 ? String(rounded) : rounded.toLocaleString("en");
}

/** A value in the largest of some units that leaves it at 1 or more. */
function scaled(value, units) {
  const [size, unit] = units.find(([least]) => value >= least) ?? units.at(-1);
  return `${short(value / size)} ${unit}`;
}

const whole = (value) => value.toLocaleString("en");
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const gib = (bytes) => {
  const digits = { minimumFractionDigits: 1, maximumFractionDigits: 1 };
  return `${(bytes / 2 ** 30).toLocaleString("en", digits)} GiB`;
};
const seconds = (value) => scaled(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]);
const watts = [[1e9, "TWh"], [1e6, "GWh"], [1e3, "MWh"], [1, "kWh"]];
const energy = (joules) => scaled(joules / 3.6e6, watts);
const count = (value) =>
  value < 1e6
    ? whole(value)
    : scaled(value, [[1e12, "T"], [1e9, "B"], [1e6, "M"]]).replace(" ", "");
const dollars = (value) =>
  value < 1e6
    ? `${short(value)} USD`
    : scaled(value, [[1e9, "billion USD"], [1e6, "million USD"]]);

// Results ---------------------------------------------------------------------------

const KINDS = ["weights", "gradients", "optimizer", "activations", "buffers"];
// What time goes into: arithmetic and memory, unless it is one of these.
const GROUP = {
  tensor_s: "message",
  context_s: "message",
  expert_s: "message",
  pipeline_s: "message",
  data_s: "message",
  bubble_s: "idle",
};

function verdict(plan) {
  const held = gib(plan.memory_bytes);
  const own = gib(plan.memory_available_bytes);
  const room = gib(plan.memory_room_bytes);
  return plan.fits
    ? ["Fits", `${held} of ${own} on the fullest accelerator`]
    : ["Does not fit", `needs ${held}; an accelerator has ${own}, ${room} of it usable`];
}

function keyFigures(plan) {
  const late =
    plan.goodput < 1e-3
      ? "failures leave no time to train"
      : `${short(plan.days_with_failures)} with failures`;
  const { energy_j, cost_usd, price_per_hour } = plan;
  const rows = [
    ["Step", seconds(plan.step_time_s),
      `${whole(plan.global_batch)} × ${whole(plan.sequence)} tokens`],
    ["Speed", `${short(plan.tokens_per_s)} /s`, "tokens, whole cluster"],
    ["MFU", percent(plan.mfu), "useful FLOP"],
    ["HFU", percent(plan.hfu), "and recomputed"],
    [`${count(plan.tokens)} tokens`, `${short(plan.days)} days`, late],
    energy_j === null
      ? ["Energy", "–", "no power in the registry"]
      : ["Energy", energy(energy_j), "at most, with the building"],
    cost_usd === null
      ? ["Cost", "–", "no price in the registry"]
      : ["Cost", dollars(cost_usd), `at ${short(price_per_hour)} USD an hour, each`],
  ];
  return rows.map(([name, value, note]) =>
    make("div", {},
      make("dt", {}, name),
      make("dd", {}, value),
      make("dd", { class: "planner-note" }, note)),
  );
}

function memoryBar(plan) {
  const scale = 100 / Math.max(plan.memory_bytes, plan.memory_available_bytes);
  const parts = KINDS.map((kind) => {
    const style = `width: ${plan.memory[kind] * scale}%`;
    return make("span", { class: "planner-part", "data-kind": kind, style });
  });
  const spare = plan.memory_available_bytes - plan.memory_room_bytes;
  const style = `left: ${plan.memory_room_bytes * scale}%; width: ${spare * scale}%`;
  const margin = make("span", { class: "planner-margin", "data-kind": "spare", style });
  const said = KINDS.map((kind) => `${kind} ${gib(plan.memory[kind])}`).join(", ");
  const own = gib(plan.memory_available_bytes);
  const label = `${said}; usable are ${gib(plan.memory_room_bytes)} of ${own}`;
  const attributes = { class: "planner-bar", role: "img", "aria-label": label };
  return make("div", attributes, ...parts, margin);
}

function table(caption, head, rows) {
  const cells = (tag, scope, contents) =>
    contents.map((content) => make(tag, { scope }, ...[content].flat()));
  const lines = rows.map(({ sum, cells: [first, ...rest] }) =>
    make("tr", { class: sum ? "planner-sum" : undefined },
      ...cells("th", "row", [first]),
      ...cells("td", undefined, rest)),
  );
  return make("table", { class: "planner-table" },
    make("caption", { class: "visually-hidden" }, caption),
    make("thead", {}, make("tr", {}, ...cells("th", "col", head))),
    make("tbody", {}, ...lines));
}

function memoryTable(plan) {
  const row = (first, bytes, sum) => ({
    sum,
    cells: [first, gib(bytes), percent(bytes / plan.memory_available_bytes)],
  });
  const swatch = (kind) => make("span", { class: "planner-swatch", "data-kind": kind });
  return table("Memory on the fullest accelerator", ["kind", "memory", "of its memory"], [
    ...KINDS.map((kind) => row([swatch(kind), kind], plan.memory[kind])),
    row("in all", plan.memory_bytes, true),
    row([swatch("spare"), "usable, up to here"], plan.memory_room_bytes),
  ]);
}

function timeTable(plan) {
  const most = Math.max(...Object.values(plan.breakdown));
  const rows = Object.entries(data.causes)
    .filter(([cause]) => plan.breakdown[cause] > 0)
    .map(([cause, name]) => {
      const value = plan.breakdown[cause];
      const style = `width: ${(100 * value) / most}%`;
      const bar = make("span", { class: "planner-line", "data-kind": GROUP[cause] ?? "compute", style });
      return { cells: [[name, bar], seconds(value), percent(value / plan.step_time_s)] };
    });
  rows.push({ sum: true, cells: ["in all", seconds(plan.step_time_s), percent(1)] });
  return table("Time of a step", ["cause", "time", "of the step"], rows);
}

// The same plan in Python -----------------------------------------------------------

const quoted = (text) => (/^[\w.,=-]+$/.test(text) ? text : `'${text}'`);
const pythonic = (value) => {
  if (typeof value === "string") return `"${value}"`;
  return typeof value === "boolean" ? (value ? "True" : "False") : String(value);
};

/** The layout's fields that say something; tp and pp always do. */
const layoutSaid = (layout) =>
  LAYOUT.filter((name) => /^[tp]p$/.test(name) || layout[name] !== data.layout[name])
    .map((name) => [name, pythonic(layout[name])]);

function command(given) {
  const cluster = `${given.accelerator} x${given.accelerators}`;
  const options = [
    ["tokens", given.tokens],
    ["batch", given.global_batch],
    ["seq", given.sequence],
    ["price", given.price_per_hour],
    ["precision", given.precision === "bf16" ? undefined : given.precision],
  ];
  const some = options.filter(([, value]) => value !== undefined)
    .map(([name, value]) => `--${name} ${value}`);
  const layout = layoutSaid(given.layout)
    .map(([name, value]) => `${name}=${value.replaceAll('"', "")}`);
  const lines = [
    `aiinfra plan train --model ${quoted(given.model)} --cluster ${quoted(cluster)}`,
    ...(some.length ? [some.join(" ")] : []),
    `--layout ${layout.join(",")}`,
  ];
  return lines.join(" \\\n    ");
}

function call(given) {
  const cluster = pythonic(`${given.accelerator} x${given.accelerators}`);
  const price = given.price_per_hour;
  const lines = [
    pythonic(given.model),
    price === undefined ? cluster : `plan.cluster(${cluster}, price_per_hour=${price})`,
  ];
  for (const name of ["tokens", "global_batch", "sequence"])
    if (given[name] !== undefined) lines.push(`${name}=${given[name]}`);
  if (given.precision !== "bf16") lines.push(`precision=${pythonic(given.precision)}`);
  const layout = layoutSaid(given.layout).map((pair) => `        "${pair[0]}": ${pair[1]},`);
  lines.push(`layout={\n${layout.join("\n")}\n    }`);
  const body = lines.map((line) => `    ${line},`).join("\n");
  return `from aiinfra import plan\n\nplan.train(\n${body}\n)`;
}

// The page --------------------------------------------------------------------------

const button = (label) => make("button", { type: "button", class: "planner-button" }, label);

function copying(label, text) {
  const element = button(label);
  element.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text());
    element.textContent = "Copied";
    setTimeout(() => { element.textContent = label; }, 1500);
  });
  return element;
}

const copies = (...pairs) =>
  navigator.clipboard ? pairs.map(([label, text]) => copying(label, text)) : [];

function address() {
  const url = new URL(location.href);
  url.search = new URLSearchParams(state());
  url.hash = "";
  return url.href;
}

const form = make("form", { class: "planner-form", "aria-label": "A training run" });
for (const [name, fields] of Object.entries(GROUPS))
  form.append(make("fieldset", {}, make("legend", {}, name), ...fields.map(formField)));
const head = make("strong");
const detail = make("span", { id: "planner-message" });
const bar = make("p", { class: "planner-verdict" }, head, detail);
const spoken = make("div", { class: "visually-hidden", role: "status" });
const reset = button("Start again");
const figures = make("dl", { class: "planner-figures" });
const memoryBox = make("div");
const timeBox = make("div");
const shell = make("code");
const python = make("code");
const listing = (label, code) => {
  const attributes = { class: "planner-code", role: "region", tabindex: "0" };
  return make("pre", { ...attributes, "aria-label": label }, code);
};
const results = make("div", { class: "planner-results" },
  figures,
  make("div", { class: "planner-columns" },
    make("section", {}, make("h2", {}, "Memory"), memoryBox),
    make("section", {}, make("h2", {}, "Time of a step"), timeBox)),
  make("h2", {}, "The same in Python"),
  make("p", {}, "The command or the call. Without the layout, both try every one there is."),
  listing("Command", shell),
  listing("Call", python),
  make("div", { class: "planner-actions" },
    ...copies(
      ["Copy command", () => shell.textContent],
      ["Copy call", () => python.textContent],
    )));
const actions = make("div", { class: "planner-actions" },
  ...copies(["Copy link", address]), reset);

let speaking;
function say(title, text) {
  head.textContent = title;
  detail.textContent = text;
  clearTimeout(speaking); // a screen reader hears it once typing has stopped
  speaking = setTimeout(() => { spoken.textContent = `${title}: ${text}`; }, 700);
}

/** What a field that is left empty stands for. */
function hint(given) {
  const model = data.models[given.model];
  const price = data.accelerators[given.accelerator]?.price_per_hour;
  const hints = { price_per_hour: price ?? "none known" };
  if (model) {
    const usual = defaultSequence(model, data);
    const layout = { ...data.layout, ...given.layout };
    const sequence = given.sequence ?? usual;
    let batch = NaN;
    if ([given.accelerators, ...Object.values(layout)].every((v) => typeof v !== "bigint"))
      batch = defaultBatch(given.accelerators, sequence, layout, data);
    hints.tokens = count(defaultTokens(model, data));
    hints.sequence = usual;
    hints.global_batch = Number.isFinite(batch) && batch > 0 ? batch : "";
  }
  for (const { name, open } of FIELDS)
    if (open) control(name).placeholder = hints[name] ?? "";
}

function update() {
  const given = asked(state());
  for (const { name } of FIELDS) {
    control(name).removeAttribute("aria-invalid");
    control(name).removeAttribute("aria-describedby");
  }
  hint(given);
  let plan = null;
  try {
    plan = train(data, given);
    say(...verdict(plan));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const culprit = control(error.field === "dp" ? "accelerators" : error.field);
    culprit.setAttribute("aria-invalid", "true");
    culprit.setAttribute("aria-describedby", "planner-message");
    say("No such layout", error.message);
  }
  bar.dataset.verdict = plan ? (plan.fits ? "fits" : "misses") : "refused";
  results.hidden = !plan;
  control("dp").textContent = plan ? whole(plan.layout.dp) : "–";
  if (!plan) return;
  figures.replaceChildren(...keyFigures(plan));
  memoryBox.replaceChildren(memoryBar(plan), memoryTable(plan));
  timeBox.replaceChildren(timeTable(plan));
  shell.textContent = command(given);
  python.textContent = call(given);
}

function fill(from) {
  for (const { name, type } of FIELDS) {
    if (type === "flag") control(name).checked = from[name] === "true";
    else control(name).value = from[name];
  }
  update();
}

const start = texts(data.example);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", () => {
  update();
  try {
    history.replaceState(null, "", address());
  } catch {
    // browsers limit how often an address may change; the next change sets it
  }
});
reset.addEventListener("click", () => {
  fill(start);
  history.replaceState(null, "", location.pathname);
});
host.prepend(form, bar, spoken, actions, results);
for (const still of host.querySelectorAll(".planner-still")) still.hidden = true;
const shared = [...new URLSearchParams(location.search)].filter(([name]) => name in start);
fill({ ...start, ...Object.fromEntries(shared) });
host.dataset.ready = "";
