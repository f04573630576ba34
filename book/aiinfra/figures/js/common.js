// Shared by the figures. First half: numbers, scales and text, each function the twin of
// one in _draw.py (the pictures must be the same strings). Second half: the page.

export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
const superscript = (n) =>
  String(n).replace(/[-0-9]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);

export const pow10 = (exponent) => Number(`1e${exponent}`);
export const exponent10 = (value) =>
  Number(Math.abs(value).toExponential(16).split("e")[1]);

export function fixed(value) {
  const tenths = Math.floor(value * 10 + 0.500001);
  return tenths ? (tenths / 10).toFixed(1).replace(/\.0$/, "") : "0";
}

function decimal(value, decimals) {
  const digits = String(
    BigInt(Math.floor(Math.abs(value) * pow10(decimals) + 0.5)),
  ).padStart(decimals + 1, "0");
  const whole = digits.slice(0, digits.length - decimals);
  const part = digits.slice(digits.length - decimals);
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
  return value < 0 && /[1-9]/.test(digits) ? `−${text}` : text;
}

function significant(value, digits, strip) {
  if (value === 0) return "0";
  const exponent = exponent10(value);
  if (exponent < -3 || exponent > 6) {
    const mantissa = significant(value / pow10(exponent), digits, strip);
    return `${mantissa}×10${superscript(exponent)}`;
  }
  const text = decimal(value, Math.max(0, digits - 1 - exponent));
  return strip && text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export const reading = (value) =>
  Number.isFinite(value) ? significant(value, 3, false) : "–";

export function num(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === Math.floor(value) && Math.abs(value) < 1e7) return decimal(value, 0);
  return significant(value, 4, true);
}

export const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);

export function linearTicks(low, high, most) {
  const raw = (high - low) / Math.max(1, most);
  const base = pow10(exponent10(raw));
  const lead = raw / base;
  const times = lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10;
  const step = times * base;
  const decimals = Math.max(0, -exponent10(step));
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  const ticks = [];
  for (let i = first; i <= last; i++) ticks.push(i * step);
  const plain =
    exponent10(Math.max(Math.abs(low), Math.abs(high))) <= 6 && decimals <= 4;
  return ticks.map((v) => [v, plain ? decimal(v, decimals) : num(v)]);
}

export function logTicks(low, high, most) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const stride = Math.ceil((last - first + 1) / Math.max(1, most));
  const ticks = [];
  if (stride <= 1 && (last - first + 2) * 3 <= most + 2) {
    for (let exponent = first - 1; exponent <= last; exponent++)
      for (const lead of [1, 2, 5]) {
        const value = lead * pow10(exponent);
        if (low * (1 - 1e-9) <= value && value <= high * (1 + 1e-9))
          ticks.push([value, num(value)]);
      }
    return ticks.length < 2 ? linearTicks(low, high, most) : ticks;
  }
  for (let exponent = first; exponent <= last; exponent += Math.max(1, stride)) {
    const plain = exponent >= -3 && exponent <= 4;
    const text = plain ? num(pow10(exponent)) : `10${superscript(exponent)}`;
    ticks.push([pow10(exponent), text]);
  }
  return ticks.length > 1 ? ticks : linearTicks(low, high, most);
}

export function position(value, low, high, start, end, log) {
  if (log) [value, low, high] = [value, low, high].map(Math.log10);
  return start + (end - start) * ((value - low) / (high - low));
}

export function textWidth(text, size = 12) {
  let em = 0;
  for (const char of text) {
    if ("iljtfrI.,:;'|!()[] -–·".includes(char)) em += 0.36;
    else if ("mwMW%@—→".includes(char)) em += 0.96;
    else if (/[A-Z0-9]/.test(char)) em += 0.64;
    else em += 0.6;
  }
  return em * size;
}

export function shorten(text, width, size = 12) {
  if (textWidth(text, size) <= width) return text;
  let kept = "";
  for (const char of text) {
    if (textWidth(`${kept}${char}…`, size) > width) break;
    kept += char;
  }
  return `${kept.replace(/ +$/, "")}…`;
}

export function wrap(text, width, size = 12) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1];
    const longer = last ? `${last} ${word}` : word;
    if (last && textWidth(longer, size) > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
export const esc = (text) => text.replace(/[&<>"]/g, (c) => ENTITIES[c]);

export const label = (x, y, text, size = 12, anchor = "start", extra = "") =>
  `<text x="${fixed(x)}" y="${fixed(y)}" font-size="${fixed(size)}"` +
  ` text-anchor="${anchor}"${extra}>${esc(text)}</text>`;

export const line = (x1, y1, x2, y2, extra = "") =>
  `<path d="M${fixed(x1)} ${fixed(y1)}L${fixed(x2)} ${fixed(y2)}"` +
  ` stroke="currentColor"${extra}/>`;

export const rect = (x, y, w, h, extra) =>
  `<rect x="${fixed(x)}" y="${fixed(y)}" width="${fixed(w)}"` +
  ` height="${fixed(h)}"${extra}/>`;

export const picture = (width, height, alt, state, parts) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${fixed(width)}` +
  ` ${fixed(height)}" width="${fixed(width)}" height="${fixed(height)}"` +
  ` style="max-width:100%;height:auto" role="img" aria-label="${esc(alt)}"` +
  ` font-family="${FONT}" fill="currentColor"><title>${esc(state)}</title>` +
  `${parts.join("")}</svg>`;

// ---- the page --------------------------------------------------------------------

// Colours come from the page (pydata theme, JupyterLab) with a fallback for neither.
const STYLE = `
.aifig { --aifig-bg: var(--pst-color-background, var(--jp-layout-color0, Canvas));
  --aifig-accent: var(--pst-color-primary, var(--jp-brand-color1, #0072B2));
  --aifig-line: color-mix(in srgb, currentColor 28%, transparent);
  font: 13px/1.45 ${FONT}; font-variant-numeric: tabular-nums;
  max-width: 760px; margin: .5em 0 1em; box-sizing: border-box; }
.aifig *, .aifig *::before { box-sizing: border-box; }
.aifig-controls { display: flex; flex-wrap: wrap; align-items: center;
  gap: 6px 24px; margin-bottom: 10px; }
.aifig-range { flex: 1 1 220px; max-width: 460px; display: grid; align-items: center;
  grid-template-columns: auto minmax(60px, 1fr) auto; gap: 0 10px; margin: 0;
  font-weight: 400; }
.aifig-range input { appearance: none; width: 100%; min-width: 0; height: 28px;
  margin: 0; background: none; cursor: pointer; touch-action: pan-y;
  border-radius: 6px; }
.aifig-range input::-webkit-slider-runnable-track { height: 4px; border-radius: 2px;
  background: linear-gradient(to right, var(--aifig-accent) var(--filled),
    var(--aifig-line) var(--filled)); }
.aifig-range input::-moz-range-track { height: 4px; border-radius: 2px;
  background: var(--aifig-line); }
.aifig-range input::-moz-range-progress { height: 4px; border-radius: 2px;
  background: var(--aifig-accent); }
.aifig-range input::-webkit-slider-thumb { appearance: none; width: 18px; height: 18px;
  margin-top: -7px; border-radius: 50%; background: var(--aifig-accent);
  border: 3px solid var(--aifig-bg); box-shadow: 0 0 0 1px var(--aifig-line); }
.aifig-range input::-moz-range-thumb { width: 12px; height: 12px; border-radius: 50%;
  background: var(--aifig-accent); border: 3px solid var(--aifig-bg);
  box-shadow: 0 0 0 1px var(--aifig-line); }
.aifig-range output { font-weight: 600; padding: 0; margin: 0; white-space: nowrap; }
.aifig-long { max-width: none; display: flex; flex-wrap: wrap; }
.aifig-long input { flex: 1 1 80px; max-width: 400px; }
.aifig-long output { flex: 1 0 100%; white-space: normal; }
.aifig-muted { opacity: .75; font-size: 12px; }
.aifig-buttons { display: flex; gap: 6px; }
.aifig button { font: inherit; line-height: 1; color: inherit; cursor: pointer;
  min-width: 32px; height: 32px; padding: 0 10px; border-radius: 6px;
  border: 1px solid var(--aifig-line); background: transparent; }
.aifig button:hover:not(:disabled) { border-color: currentColor; }
.aifig button:disabled { opacity: .4; cursor: default; }
.aifig button svg { display: block; width: 12px; height: 12px; margin: auto; }
.aifig-stage { position: relative; }
.aifig-stage svg { display: block; overflow: visible; }
.aifig-probe { position: absolute; cursor: crosshair; touch-action: pan-y;
  border-radius: 3px; outline-offset: 2px; }
.aifig :is(button, input, .aifig-probe):focus-visible {
  outline: 2px solid var(--aifig-accent); }
.aifig-note { min-height: 1.45em; margin: 8px 0 0; }
.aifig-caption { margin: 0 0 10px; display: grid; text-wrap: pretty; }
.aifig-caption > * { grid-area: 1 / 1; }
.aifig-quiet { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }
@media print { .aifig-controls { display: none; } }
html[data-theme=dark] .bd-content div.cell_output
  .text_html:has(.bookfig):not(:has(table.dataframe)) {
  background: none; color: inherit; padding: 0; }
`;

export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const KEYS = /^(Arrow|Home$|End$|Page|Enter$| $)/;

/** The figure's frame: controls, stage (picture and probe), note, spoken summary. */
export function frame(el, alt) {
  if (!document.head.querySelector("style[data-aifig]"))
    document.head.append(h("style", { "data-aifig": "" }, STYLE));
  const parts = {
    controls: h("div", { class: "aifig-controls" }),
    stage: h("div", { class: "aifig-stage" }),
    picture: h("div"),
    probe: h("div", { class: "aifig-probe", role: "slider", tabindex: "0" }),
    note: h("div", { class: "aifig-note" }),
    spoken: h("div", { class: "aifig-quiet", "aria-live": "polite" }),
  };
  parts.stage.append(parts.picture, parts.probe);
  // JupyterLab would take the arrow keys for moving between cells.
  parts.root = h(
    "div",
    {
      class: "aifig",
      role: "group",
      "aria-label": alt,
      "data-lm-suppress-shortcuts": "true",
      onkeydown: (event) => KEYS.test(event.key) && event.stopPropagation(),
    },
    parts.controls,
    parts.stage,
    parts.note,
    parts.spoken,
  );
  el.append(parts.root);
  return parts;
}

/** A labelled slider over texts; set(i) is called as it moves. */
export function slider(name, texts, set) {
  const input = h("input", {
    type: "range",
    min: 0,
    max: texts.length - 1,
    step: 1,
    oninput: () => set(Number(input.value)),
  });
  const output = h("output", { "aria-hidden": "true" }); // it is aria-valuetext
  // The widest text reserves the room, so that the slider keeps its length; long texts
  // get a line of their own.
  const widest = Math.ceil(Math.max(...texts.map((text) => textWidth(text, 13))));
  const long = widest > 120;
  if (!long) output.style.minWidth = `${widest}px`;
  const element = h(
    "label",
    { class: long ? "aifig-range aifig-long" : "aifig-range" },
    h("span", {}, name),
    input,
    output,
  );
  const update = (i) => {
    input.value = i;
    element.style.setProperty("--filled", `${(100 * i) / Math.max(1, texts.length - 1)}%`);
    input.setAttribute("aria-valuetext", texts[i]);
    output.textContent = texts[i];
  };
  return { element, update };
}

const ICONS = {
  previous: "M9 1v10L2 6z",
  next: "M3 1v10l7-5z",
  play: "M2 1v10l9-5z",
  pause: "M2 1h3v10H2zM7 1h3v10H7z",
};

export function button(icon, name, press) {
  const element = h("button", { type: "button", onclick: press });
  const update = (newIcon, newName, disabled = false) => {
    element.innerHTML =
      `<svg viewBox="0 0 12 12" aria-hidden="true"><path d="${ICONS[newIcon]}"` +
      ` fill="currentColor"/></svg>`;
    element.setAttribute("aria-label", newName);
    element.title = newName;
    element.disabled = disabled;
  };
  update(icon, name);
  return { element, update };
}

/** Calls draw(width) now, when the width changes, and at most once a screen frame. */
export function redraw(element, draw) {
  let width = 0;
  let due = 0;
  const paint = () => {
    due = 0;
    draw(width || 640);
  };
  const ask = () => {
    due ||= requestAnimationFrame(paint);
  };
  const measure = () => {
    const now = Math.floor(element.clientWidth);
    if (now && now !== width) {
      width = Math.max(now, 260);
      paint();
    }
  };
  const observer = new ResizeObserver(measure);
  observer.observe(element);
  width = Math.floor(element.clientWidth);
  paint();
  return {
    ask,
    paint,
    stop() {
      observer.disconnect();
      cancelAnimationFrame(due);
    },
  };
}

/** Says a text to screen readers once the state has rested for half a second. */
export function speaker(element) {
  let timer = 0;
  let first = true;
  return (text) => {
    clearTimeout(timer);
    if (!first) timer = setTimeout(() => (element.textContent = text), 500);
    first = false;
  };
}

/** Sliders one below the other start and end at the same places. */
export function align(sliders) {
  for (const part of ["span", "output"]) {
    const elements = sliders.map((s) => s.element.querySelector(part));
    const widths = elements.map((element) =>
      part === "span"
        ? Math.ceil(textWidth(element.textContent, 13))
        : parseInt(element.style.minWidth, 10) || 0,
    );
    for (const element of elements) element.style.minWidth = `${Math.max(...widths)}px`;
  }
}

/** Puts the probe over a rectangle of the picture. */
export function place(probe, { x, y, w, h: height }) {
  Object.assign(probe.style, {
    left: `${x}px`,
    top: `${y}px`,
    width: `${w}px`,
    height: `${height}px`,
  });
}

/** Pointer position over an element, in px of the picture, which a slide may scale. */
export function pointer(probe, move) {
  const handle = (event) => {
    const box = probe.getBoundingClientRect();
    const scale = box.width / probe.offsetWidth || 1;
    move(
      (event.clientX - box.left) / scale + probe.offsetLeft,
      (event.clientY - box.top) / scale + probe.offsetTop,
    );
  };
  probe.addEventListener("pointermove", handle);
  probe.addEventListener("pointerdown", handle);
}
