// Who holds what, step by step. _holds.py draws the same picture, so a change here is a
// change there; only here the messages also travel.
import {
  button, fixed, frame, h, label, picture, place, pointer, rect, redraw, shorten, slider,
  speaker, textWidth, wrap,
} from "./common.js";

const cellText = (data, cell) =>
  (typeof cell === "string" ? cell : cell.map((i) => data.sources[i]).join("+")) ||
  "nothing";

function readCell(data, step, cell) {
  const row = Math.floor(cell / data.columns.length);
  const column = cell % data.columns.length;
  const text = cellText(data, data.steps[step][row][column]);
  return `${data.rows[row]}, ${data.columns[column]}: ${text}`;
}

const stepText = (data, step) =>
  `Step ${step} of ${data.steps.length - 1}. ${data.captions[step]}`.trim();

export function summary(data, step, cell) {
  const text = stepText(data, step);
  return cell >= 0 ? `${text} ${readCell(data, step, cell)}.` : text;
}

export function layout(data, width, still, step) {
  const lines = still ? wrap(stepText(data, step), width, 13) : [];
  const top = still ? 18 * lines.length + 8 : 0;
  const legend = [];
  let x = 0;
  let y = top;
  data.sources.forEach((source, i) => {
    const head = i === 0 ? textWidth(data.legend, 12) + 10 : 0;
    const wide = head + 18 + textWidth(source, 12) + 12;
    if (x && x + wide - 12 > width) {
      x = 0;
      y += 20;
    }
    legend.push([x + head, y + 13]);
    x += wide;
  });
  if (legend.length) y += 20 + 8;
  const columns = data.columns.length;
  const sources = data.sources.length;
  const left = Math.ceil(Math.max(...data.rows.map((name) => textWidth(name, 12)))) + 16;
  const pitch = Math.floor(Math.min((width - left) / columns, 148));
  const gap = Math.floor(Math.min(36, Math.max(9, pitch * 0.26)));
  const cell = pitch - gap;
  let lanes = 1;
  while (lanes < sources && (cell - 8) / Math.ceil(sources / lanes) < 9) lanes++;
  const perLane = sources ? Math.ceil(sources / lanes) : 1;
  const slot = Math.min(20, Math.floor((cell - 8) / perLane));
  const tall = sources ? Math.max(32, lanes * slot + 12) : 34;
  const names = data.columns.map((name) => shorten(name, pitch - 2, 12));
  const gridTop = y + 22;
  const stepY = tall + 16;
  return {
    lines, legend, left, pitch, gap, cell, tall, slot, perLane, names, gridTop, stepY,
    height: gridTop + stepY * data.rows.length - 8,
  };
}

/** The curve of one message: start, two controls, end; and the head's direction. */
export function arrow(box, [row, column, toRow, toColumn]) {
  const x = (c) => box.left + c * box.pitch;
  const y = (r) => box.gridTop + r * box.stepY + box.tall / 2;
  const { cell, gap } = box;
  const shift = Math.min(7, box.tall / 4) * Math.sign(toRow - row);
  const y0 = y(row) + shift;
  const y1 = y(toRow) - shift;
  if (toColumn > column) {
    const x0 = x(column) + cell;
    const x1 = x(toColumn) - 1;
    const bend = Math.max(gap, (x1 - x0) / 2);
    return { points: [x0, y0, x0 + bend, y0, x1 - bend, y1, x1, y1], head: -1 };
  }
  if (toColumn < column) {
    const x0 = x(column);
    const x1 = x(toColumn) + cell + 1;
    const bend = Math.max(gap, (x0 - x1) / 2);
    return { points: [x0, y0, x0 - bend, y0, x1 + bend, y1, x1, y1], head: 1 };
  }
  // Same column: an arc in the gap to the right, wider the farther it goes.
  const far = Math.min(1, (Math.abs(toRow - row) - 1) / 2);
  const bend = gap * (0.7 + 0.3 * far);
  const x0 = x(column) + cell;
  const x1 = x(column) + cell + 1;
  return { points: [x0, y0, x0 + bend, y0, x1 + bend, y1, x1, y1], head: 1 };
}

const EMPTY = ' rx="2" fill="none" stroke="currentColor" stroke-opacity="0.22"';

function contents(data, box, x, y, cell) {
  if (typeof cell === "string") {
    const text = shorten(cell, box.cell - 4, 13);
    return label(x + box.cell / 2, y + box.tall / 2 + 5, text, 13, "middle");
  }
  const { slot, perLane } = box;
  const lanes = Math.ceil(data.sources.length / perLane);
  const x0 = x + (box.cell - slot * perLane) / 2;
  const y0 = y + (box.tall - slot * lanes) / 2;
  let parts = "";
  data.sources.forEach((source, i) => {
    const sx = x0 + (i % perLane) * slot + 1;
    const sy = y0 + Math.floor(i / perLane) * slot + 1;
    if (!cell.includes(i)) {
      parts += rect(sx + 0.5, sy + 0.5, slot - 3, slot - 3, EMPTY);
      return;
    }
    parts += rect(sx, sy, slot - 2, slot - 2, ` rx="2" fill="${data.colours[i]}"`);
    if (slot >= 15 && textWidth(source, 11) <= slot - 2) {
      const ink = ` fill="${data.inks[i]}" font-weight="600"`;
      const [cx, cy] = [sx + slot / 2 - 1, sy + slot / 2 + 3];
      parts += label(cx, cy, source, 11, "middle", ink);
    }
  });
  return parts;
}

/** A point on a cubic curve at t from 0 to 1. */
export function along([x0, y0, xa, ya, xb, yb, x1, y1], t) {
  const u = 1 - t;
  const mix = (a, b, c, e) =>
    u * u * u * a + 3 * u * u * t * b + 3 * u * t * t * c + t * t * t * e;
  return [mix(x0, xa, xb, x1), mix(y0, ya, yb, y1)];
}

/** `travelled` < 1: the messages of this step are under way, the grid is still old. */
export function scene(data, step, cell, width, still, travelled = 1) {
  const box = layout(data, width, still, step);
  const parts = [];
  const muted = ' fill-opacity="0.75"';
  box.lines.forEach((text, i) => parts.push(label(0, 13 + 18 * i, text, 13)));
  box.legend.forEach(([x, y], i) => {
    if (i === 0) parts.push(label(0, y, data.legend, 12, "start", muted));
    parts.push(rect(x, y - 10, 12, 12, ` rx="2" fill="${data.colours[i]}"`));
    parts.push(label(x + 18, y, data.sources[i], 12));
  });
  box.names.forEach((name, column) => {
    const x = box.left + column * box.pitch + box.cell / 2;
    parts.push(label(x, box.gridTop - 8, name, 12, "middle", muted));
  });
  const before = data.steps[Math.max(0, step - 1)];
  const grid = travelled < 1 ? before : data.steps[step];
  data.rows.forEach((name, row) => {
    const y = box.gridTop + row * box.stepY;
    const bold = ' font-weight="600"';
    parts.push(label(0, y + box.tall / 2 + 4, name, 12, "start", bold));
    grid[row].forEach((held, column) => {
      const x = box.left + column * box.pitch;
      const full = typeof held !== "string" && held.length === data.sources.length;
      const fill = full ? ' fill="currentColor" fill-opacity="0.09"' : ' fill="none"';
      const edge =
        cellText(data, before[row][column]) !== cellText(data, held)
          ? ' stroke="currentColor" stroke-width="2"'
          : ' stroke="currentColor" stroke-opacity="0.3"';
      parts.push(rect(x, y, box.cell, box.tall, ` rx="5"${fill}${edge}`));
      parts.push(contents(data, box, x, y, held));
    });
  });
  for (const message of data.messages[step]) {
    const { points, head } = arrow(box, message);
    const [x0, y0, xa, ya, xb, yb, x1, y1] = points;
    parts.push(
      `<path d="M${fixed(x0)} ${fixed(y0)}C${fixed(xa)} ${fixed(ya)}` +
        ` ${fixed(xb + 5 * head)} ${fixed(yb)} ${fixed(x1 + 5 * head)}` +
        ` ${fixed(y1)}" fill="none" stroke="currentColor" stroke-width="1.5"/>`,
    );
    parts.push(`<path d="M${fixed(x1)} ${fixed(y1)}l${7 * head} -4v8z"/>`);
  }
  if (travelled < 1)
    for (const message of data.messages[step]) {
      const [x, y] = along(arrow(box, message).points, travelled);
      const held = before[message[0]][message[1]];
      const squares = typeof held === "string" ? [] : held;
      const side = Math.max(8, Math.min(12, box.slot - 4));
      const wide = side * Math.max(1, squares.length);
      const plate =
        ' rx="3" style="fill:var(--aifig-bg,#fff)" stroke="currentColor"';
      const [left, top] = [x - wide / 2, y - side / 2];
      parts.push(rect(left - 3, top - 3, wide + 6, side + 6, plate));
      if (typeof held === "string")
        parts.push(rect(left, top, side, side, ' rx="2"'));
      squares.forEach((source, i) =>
        parts.push(
          rect(left + i * side + 0.5, top, side - 1, side,
            ` rx="1" fill="${data.colours[source]}"`),
        ),
      );
    }
  if (cell >= 0) {
    const row = Math.floor(cell / data.columns.length);
    const column = cell % data.columns.length;
    const x = box.left + column * box.pitch - 3;
    const y = box.gridTop + row * box.stepY - 3;
    const ring =
      ' rx="8" fill="none" stroke="currentColor" stroke-width="1.5"' +
      ' stroke-dasharray="4 3"';
    parts.push(rect(x, y, box.cell + 6, box.tall + 6, ring));
  }
  return picture(width, box.height, data.alt, summary(data, step, cell), parts);
}

const TRAVEL_MS = 700;
const REST_MS = 1300;

function render({ model, el }) {
  const data = model.get("data");
  const parts = frame(el, data.alt);
  const say = speaker(parts.spoken);
  const last = data.steps.length - 1;
  const [rows, columns] = [data.rows.length, data.columns.length];
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let timer = 0;
  let began = null; // when the messages on their way left, in ms
  let shown = model.get("step");
  const set = (key, value) => {
    if (model.get(key) === value) return;
    model.set(key, value);
    model.save_changes();
  };
  const state = () => {
    const cell = model.get("cell");
    return [model.get("step"), cell < rows * columns ? cell : -1];
  };
  const pause = () => {
    clearTimeout(timer);
    timer = 0;
    view?.ask();
  };
  const go = (to) => set("step", Math.min(last, Math.max(0, to)));
  const advance = () => {
    if (model.get("step") >= last) return pause();
    go(model.get("step") + 1);
    timer = setTimeout(advance, REST_MS + (still.matches ? 0 : TRAVEL_MS));
  };
  const press = (action) => () => {
    pause();
    action();
  };
  const play = button("play", "Play", () => {
    if (timer) return pause();
    if (model.get("step") === last) go(0);
    timer = setTimeout(advance, 150);
    view.ask();
  });
  const previous = button("previous", "Previous step",
    press(() => go(model.get("step") - 1)));
  const next = button("next", "Next step", press(() => go(model.get("step") + 1)));
  const chooser = slider("step", data.steps.map((_, i) => `${i} of ${last}`), (step) => {
    pause();
    go(step);
  });
  parts.controls.append(
    h("div", { class: "aifig-buttons" }, play.element, previous.element, next.element),
    chooser.element,
  );
  // All captions share one place, the tallest sets its height: the page doesn't jump.
  const captions = data.captions.map((text) => h("div", {}, text));
  const read = h("div", { class: "aifig-note aifig-muted" });
  parts.note.replaceWith(read);
  parts.note.append(...captions);
  parts.note.classList.add("aifig-caption");
  parts.root.insertBefore(parts.note, parts.stage);

  let box;
  let view;
  view = redraw(parts.stage, (width) => {
    const [step, cell] = state();
    if (step !== shown) {
      const forward = step === shown + 1 && data.messages[step].length > 0;
      began = forward && !still.matches ? performance.now() : null;
      shown = step;
    }
    let travelled = 1;
    if (began !== null) {
      const t = (performance.now() - began) / TRAVEL_MS;
      if (t >= 1) began = null;
      else travelled = t < 0.5 ? 2 * t * t : 1 - 2 * (1 - t) * (1 - t);
    }
    box = layout(data, width, false, step);
    parts.picture.innerHTML = scene(data, step, cell, width, false, travelled);
    chooser.update(step);
    previous.update("previous", "Previous step", step === 0);
    next.update("next", "Next step", step === last);
    play.update(timer ? "pause" : "play", timer ? "Pause" : "Play", last === 0);
    place(parts.probe, {
      x: box.left, y: box.gridTop, w: columns * box.pitch - box.gap,
      h: rows * box.stepY - 16,
    });
    const text = cell >= 0 ? readCell(data, step, cell) : "";
    captions.forEach((caption, i) => {
      caption.style.visibility = i === step ? "visible" : "hidden";
    });
    read.textContent = text || "Point at a cell, or press an arrow key on the grid.";
    parts.probe.setAttribute("aria-label", "Read the cells");
    parts.probe.setAttribute("aria-valuemin", 0);
    parts.probe.setAttribute("aria-valuemax", rows * columns - 1);
    parts.probe.setAttribute("aria-valuenow", Math.max(0, cell));
    parts.probe.setAttribute("aria-valuetext", text || "no cell chosen");
    say(summary(data, step, cell));
    if (began !== null) view?.ask();
  });
  pointer(parts.probe, (x, y) => {
    const column = Math.floor((x - box.left) / box.pitch);
    const row = Math.floor((y - box.gridTop) / box.stepY);
    const inside = row >= 0 && row < rows && column >= 0 && column < columns;
    set("cell", inside ? row * columns + column : -1);
  });
  parts.probe.addEventListener("keydown", (event) => {
    const move = {
      ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns,
    }[event.key];
    if (!move) return;
    event.preventDefault();
    const [, cell] = state();
    const to = cell < 0 ? 0 : cell + move;
    if (to >= 0 && to < rows * columns) set("cell", to);
  });
  const keys = ["step", "cell"];
  for (const key of keys) model.on(`change:${key}`, view.ask);
  return () => {
    for (const key of keys) model.off(`change:${key}`, view.ask);
    clearTimeout(timer);
    view.stop();
  };
}

export default { render };
