// Curves over x that sliders move. The table was computed in Python; _sweep.py draws the
// same picture, so a change here is a change there.
import {
  align, fixed, frame, label, line, linearTicks, logTicks, num, picture, place,
  pointer, position, reading, redraw, shorten, slider, speaker, textWidth, withUnit,
} from "./common.js";

const GAP = -32768;
// Keeps a text legible where a curve runs behind it.
const HALO =
  ' style="paint-order:stroke;stroke:var(--aifig-bg,transparent);stroke-width:3px"';
const decoded = new WeakMap();

export function decode(data) {
  if (decoded.has(data)) return decoded.get(data);
  const bytes = Uint8Array.from(atob(data.table), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const [low, step] = data.code;
  const single = data.dtype === "float32";
  const values = new Float64Array(bytes.length / (single ? 4 : 2));
  for (let i = 0; i < values.length; i++) {
    if (single) values[i] = view.getFloat32(4 * i, true);
    else {
      const code = view.getInt16(2 * i, true);
      const value = code === GAP ? NaN : low + (code + 32767) * step;
      values[i] = data.log_y ? 10 ** value : value;
    }
  }
  decoded.set(data, values);
  return values;
}

/** The curves at one slider position: [series][x]. */
export function curves(data, k, k2) {
  const [, inner, series, n] = data.shape;
  const start = (k * inner + k2) * series * n;
  const flat = decode(data);
  return Array.from({ length: series }, (_, i) =>
    flat.subarray(start + i * n, start + (i + 1) * n),
  );
}

const setting = (data, k, k2) =>
  data.sliders.map((s, i) => `${s.name} ${s.texts[[k, k2][i]]}`).join(", ");

const atText = (data, at) =>
  `${data.x_name} ${withUnit(num(data.x[at]), data.x_unit)}`;

const readings = (data, k, k2, at) =>
  curves(data, k, k2)
    .map((row, i) => `${data.labels[i]} ${withUnit(reading(row[at]), data.y_unit)}`)
    .join("; ");

export const summary = (data, k, k2, at) =>
  `${setting(data, k, k2)}. At ${atText(data, at)}: ${readings(data, k, k2, at)}.`;

export function layout(data, width, still) {
  const names = Math.max(...data.labels.map((name) => textWidth(name, 13)));
  const value = textWidth(withUnit("00,000", data.y_unit), 13);
  const column = 34 + names + 10 + value + 18;
  const columns = Math.max(
    1,
    Math.min(data.labels.length, Math.floor((width + 18) / column)),
  );
  const rows = Math.ceil(data.labels.length / columns);
  const top = still ? 24 : 0;
  const legend = top + 22;
  const yName = legend + rows * 20 + 16;
  const [low, high] = data.y_range;
  const height = Math.floor(Math.min(320, Math.max(210, width * 0.46)));
  const yTicks = (data.log_y ? logTicks : linearTicks)(low, high, 6);
  const left = Math.ceil(Math.max(...yTicks.map(([, t]) => textWidth(t, 11)))) + 10;
  const right = width - 8;
  const marks = [];
  const ends = [];
  const first = data.x[0];
  const last = data.x[data.x.length - 1];
  for (const [name, at] of data.x_marks) {
    const x = position(at, first, last, left, right, data.log_x);
    const wide = textWidth(name, 11);
    const start = x + 4 + wide <= width ? x + 4 : x - 4 - wide;
    let row = 0;
    while (row < ends.length && ends[row] > start) row++;
    ends[row] = start + wide + 10;
    marks.push([x, start, row]);
  }
  const plotTop = yName + 10 + ends.length * 15;
  const bottom = plotTop + height;
  return {
    column, columns, top, legend, yName, yTicks, left, right, plotTop, bottom, marks,
    height: bottom + 40,
  };
}

export function curve(data, row, box) {
  const [low, high] = data.y_range;
  const last = data.x[data.x.length - 1];
  let path = "";
  let pen = "M";
  data.x.forEach((x, i) => {
    if (Number.isNaN(row[i])) {
      pen = "M";
      return;
    }
    const px = position(x, data.x[0], last, 0, box.right - box.left, data.log_x);
    const py = position(row[i], low, high, box.bottom - box.plotTop, 0, data.log_y);
    path += `${pen}${fixed(px)} ${fixed(py)}`;
    pen = "L";
  });
  return path;
}

export function scene(data, k, k2, at, width, still) {
  const box = layout(data, width, still);
  const values = curves(data, k, k2);
  const { left, right, plotTop: top, bottom } = box;
  const [low, high] = data.y_range;
  const xLow = data.x[0];
  const xHigh = data.x[data.x.length - 1];
  const parts = [];
  if (still) {
    const text = shorten(setting(data, k, k2), width, 13);
    parts.push(label(0, 13, text, 13, "start", ' font-weight="600"'));
  }
  const muted = ' fill-opacity="0.75"';
  parts.push(label(0, box.top + 13, `at ${atText(data, at)}`, 12, "start", muted));
  data.labels.forEach((name, i) => {
    const x = (i % box.columns) * box.column;
    const y = box.legend + Math.floor(i / box.columns) * 20 + 13;
    const value = withUnit(reading(values[i][at]), data.y_unit);
    parts.push(
      `<path d="M${fixed(x)} ${fixed(y - 4)}h26" fill="none"` +
        ` stroke="${data.colours[i]}" stroke-width="2.5"` +
        ` stroke-dasharray="${data.dashes[i]}"/>`,
    );
    const room = width - 34 - 10 - textWidth(value, 13);
    parts.push(label(x + 34, y, shorten(name, room, 13), 13));
    const end = Math.min(x + box.column - 18, width);
    parts.push(label(end, y, value, 13, "end", ' font-weight="600"'));
  });
  const yText = withUnit(data.y_name, data.y_unit && `(${data.y_unit})`);
  parts.push(label(0, box.yName, yText, 11, "start", muted));
  for (const [value, text] of box.yTicks) {
    const y = position(value, low, high, bottom, top, data.log_y);
    parts.push(line(left, y, right, y, ' stroke-opacity="0.13"'));
    parts.push(label(left - 6, y + 4, text, 11, "end", muted));
  }
  const most = Math.floor((right - left) / 62);
  for (const [value, text] of (data.log_x ? logTicks : linearTicks)(xLow, xHigh, most)) {
    const x = position(value, xLow, xHigh, left, right, data.log_x);
    const half = textWidth(text, 11) / 2;
    parts.push(line(x, bottom, x, bottom + 4, ' stroke-opacity="0.6"'));
    parts.push(label(Math.min(x, width - half), bottom + 17, text, 11, "middle", muted));
  }
  parts.push(line(left, bottom, right, bottom, ' stroke-opacity="0.6"'));
  const xText = withUnit(data.x_name, data.x_unit && `(${data.x_unit})`);
  parts.push(label(right, bottom + 34, xText, 11, "end", muted));
  const dotted = ' stroke-opacity="0.55" stroke-dasharray="1 3" stroke-linecap="round"';
  data.x_marks.forEach(([name], i) => {
    const [x, start, row] = box.marks[i];
    const y = top - 5 - row * 15;
    parts.push(line(x, y - 9, x, bottom, dotted));
    parts.push(label(start, y, name, 11, "start", muted));
  });
  for (const [, value] of data.y_marks) {
    const y = position(value, low, high, bottom, top, data.log_y);
    parts.push(line(left, y, right, y, dotted));
  }
  // A nested svg clips the curves to the plot without needing an id.
  parts.push(
    `<svg x="${fixed(left)}" y="${fixed(top)}" width="${fixed(right - left)}"` +
      ` height="${fixed(bottom - top)}" overflow="hidden">`,
  );
  values.forEach((row, i) =>
    parts.push(
      `<path d="${curve(data, row, box)}" fill="none"` +
        ` stroke="${data.colours[i]}" stroke-width="2.5"` +
        ` stroke-dasharray="${data.dashes[i]}" stroke-linejoin="round"/>`,
    ),
  );
  parts.push("</svg>");
  for (const [name, value] of data.y_marks) {
    const y = position(value, low, high, bottom, top, data.log_y);
    parts.push(label(right, y - 5, name, 11, "end", muted + HALO));
  }
  const x = position(data.x[at], xLow, xHigh, left, right, data.log_x);
  parts.push(line(x, top, x, bottom, ' stroke-opacity="0.7"'));
  values.forEach((row, i) => {
    if (low <= row[at] && row[at] <= high) {
      const y = position(row[at], low, high, bottom, top, data.log_y);
      parts.push(
        `<circle cx="${fixed(x)}" cy="${fixed(y)}" r="4.5"` +
          ` fill="${data.colours[i]}" stroke-width="1.5"` +
          ' style="stroke:var(--aifig-bg,#fff)"/>',
      );
    }
  });
  return picture(width, box.height, data.alt, summary(data, k, k2, at), parts);
}

function render({ model, el }) {
  const data = model.get("data");
  const parts = frame(el, data.alt);
  const say = speaker(parts.spoken);
  const state = () => ["k", "k2", "at"].map((key) => model.get(key));
  const set = (key, value) => {
    if (model.get(key) === value) return;
    model.set(key, value);
    model.save_changes();
  };
  const sliders = data.sliders.map((s, i) =>
    slider(s.name, s.texts, (k) => set(["k", "k2"][i], k)),
  );
  parts.controls.append(...sliders.map((s) => s.element));
  if (sliders.length > 1) align(sliders);
  parts.note.remove();

  const last = data.x.length - 1;
  let box;
  const view = redraw(parts.stage, (width) => {
    const [k, k2, at] = state();
    box = layout(data, width, false);
    parts.picture.innerHTML = scene(data, k, k2, at, width, false);
    sliders.forEach((s, i) => s.update([k, k2][i]));
    place(parts.probe, {
      x: box.left, y: box.plotTop, w: box.right - box.left, h: box.bottom - box.plotTop,
    });
    parts.probe.setAttribute("aria-label", `Read the curves along ${data.x_name}`);
    parts.probe.setAttribute("aria-valuemin", 0);
    parts.probe.setAttribute("aria-valuemax", last);
    parts.probe.setAttribute("aria-valuenow", at);
    parts.probe.setAttribute(
      "aria-valuetext",
      `${atText(data, at)}: ${readings(data, k, k2, at)}`,
    );
    say(summary(data, k, k2, at));
  });
  pointer(parts.probe, (px) => {
    const distance = (x) =>
      Math.abs(
        position(x, data.x[0], data.x[last], box.left, box.right, data.log_x) - px,
      );
    let nearest = 0;
    data.x.forEach((x, i) => {
      if (distance(x) < distance(data.x[nearest])) nearest = i;
    });
    set("at", nearest);
  });
  parts.probe.addEventListener("keydown", (event) => {
    const at = model.get("at");
    const page = Math.max(1, Math.round(last / 10));
    const to = {
      ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1,
      PageDown: at - page, PageUp: at + page, Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    set("at", Math.min(last, Math.max(0, to)));
  });
  for (const key of ["k", "k2", "at"]) model.on(`change:${key}`, view.ask);
  return () => {
    for (const key of ["k", "k2", "at"]) model.off(`change:${key}`, view.ask);
    view.stop();
  };
}

export default { render };
