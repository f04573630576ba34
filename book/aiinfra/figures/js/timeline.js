// Ranks over time, one frame of several. _timeline.py draws the same picture, so a change
// here is a change there.
import {
  button, fixed, frame, h, label, line, linearTicks, picture, place, pointer,
  position, reading, rect, redraw, shorten, slider, speaker, textWidth,
} from "./common.js";

const time = (data, seconds) => `${reading(seconds * data.per_s)} ${data.unit}`;

function eventText(data, [row, , name, start, end, kind]) {
  const [rank, lane] = data.rows[row];
  const [key, word] = data.kinds[kind];
  const what = ["compute", "comm"].includes(key) ? "" : ` (${word})`;
  return (
    `${rank}, ${lane}: ${data.names[name]}${what}, ` +
    `from ${time(data, start)}, for ${time(data, end - start)}`
  );
}

export function summary(data, frameAt, event) {
  const shown = data.frames[frameAt];
  const name = shown.label ? `${shown.label}: ` : "";
  const text = `${name}${time(data, shown.total_s)} in all.`;
  return event >= 0 ? `${text} ${eventText(data, shown.events[event])}.` : text;
}

export function layout(data, width, still) {
  const narrow = width < 520;
  const rankWidth = Math.max(...data.rows.map((row) => textWidth(row[0], 12))) + 12;
  const lanes = [...new Set(data.rows.map((row) => row[1]))];
  let laneWidth = Math.max(...lanes.map((lane) => textWidth(lane, 11))) + 10;
  if (lanes.length === 1) laneWidth = 0;
  const left = narrow ? laneWidth : rankWidth + laneWidth;
  const right = width - 2;
  const legend = [];
  let x = 0;
  let y = still && data.frames[0].label ? 24 : 0;
  for (const [, word] of data.kinds) {
    const wide = 28 + textWidth(word, 12) + 16;
    if (x && x + wide - 16 > width) {
      x = 0;
      y += 20;
    }
    legend.push([x, y + 13]);
    x += wide;
  }
  y += 20 + 20; // the total's label stands above the first row
  const plotTop = y;
  const tracks = data.rows.reduce((sum, row) => sum + row[2], 0);
  const laneHeight = tracks <= 20 ? 22 : 14;
  const rows = [];
  let before = null;
  for (const [rank, , count] of data.rows) {
    const head = before !== rank;
    if (head && before !== null) y += 8;
    if (head && narrow) y += 16;
    rows.push([y, laneHeight * count, head]);
    y += laneHeight * count + 3;
    before = rank;
  }
  const bottom = y + 1;
  return {
    narrow, left, right, rankWidth: narrow ? 0 : rankWidth, legend, plotTop, rows,
    laneHeight, bottom, height: bottom + 38,
  };
}

function bar(x, y, w, height, colour, pattern, name) {
  w = Math.max(w, 1);
  let parts = "";
  if (pattern === "bracket") {
    parts = rect(x, y + height - 3, w, 3, ` fill="${colour}"`);
    if (textWidth(name, 11) + 2 <= w) parts += label(x + 1, y + height - 6, name, 11);
    return parts;
  }
  let ink = pattern === "solid" ? ' fill="#fff"' : ' fill="#000"';
  if (pattern === "outline") {
    const shape =
      ` fill="${colour}" fill-opacity="0.12" stroke="${colour}"` +
      ' stroke-dasharray="3 2"';
    parts = rect(x + 0.5, y + 0.5, Math.max(w - 1, 0.5), height - 1, shape);
    ink = ' fill-opacity="0.75"';
  } else parts = rect(x, y, w, height, ` fill="${colour}"`);
  let path = "";
  const gap = 6;
  if ((pattern === "rising" || pattern === "falling") && w >= 2) {
    for (let s = Math.ceil((x - height) / gap) * gap; s < x + w; s += gap) {
      const x1 = Math.max(s, x);
      const x2 = Math.min(s + height, x + w);
      let [y1, y2] = [x1 - s, x2 - s];
      if (pattern === "rising") [y1, y2] = [height - y1, height - y2];
      path += `M${fixed(x1)} ${fixed(y + y1)}L${fixed(x2)} ${fixed(y + y2)}`;
    }
  } else if (pattern === "upright") {
    for (let s = Math.ceil((x + 1) / gap) * gap; s < x + w; s += gap)
      path += `M${fixed(s)} ${fixed(y)}v${fixed(height)}`;
  } else if (pattern === "level" && w >= 2) {
    for (let s = 3; s < height; s += gap)
      path += `M${fixed(x)} ${fixed(y + s)}h${fixed(w)}`;
  }
  if (path) parts += `<path d="${path}" stroke="#000" stroke-opacity="0.3"/>`;
  if (height >= 14 && textWidth(name, 11) + 8 <= w)
    parts += label(x + w / 2, y + height / 2 + 4, name, 11, "middle", ink);
  return parts;
}

export function scene(data, frameAt, event, timeS, width, still) {
  const box = layout(data, width, still);
  const shown = data.frames[frameAt];
  const { left, right, plotTop: top, bottom } = box;
  const at = (seconds) => position(seconds, 0, data.end_s, left, right, false);
  const parts = [];
  const muted = ' fill-opacity="0.75"';
  const bold = ' font-weight="600"';
  if (still) parts.push(label(0, 13, shorten(shown.label, width, 13), 13, "start", bold));
  data.kinds.forEach(([, word, colour, pattern], i) => {
    const [x, y] = box.legend[i];
    parts.push(bar(x, y - 10, 22, 12, colour, pattern, ""), label(x + 28, y, word, 12));
  });
  const most = Math.floor((right - left) / 62);
  for (const [value, text] of linearTicks(0, data.end_s * data.per_s, most)) {
    const x = at(value / data.per_s);
    const half = textWidth(text, 11) / 2;
    parts.push(line(x, top, x, bottom + 4, ' stroke-opacity="0.13"'));
    parts.push(label(Math.min(x, width - half), bottom + 17, text, 11, "middle", muted));
  }
  data.rows.forEach(([rank, lane], i) => {
    const [y, height, head] = box.rows[i];
    parts.push(rect(left, y, right - left, height, ' fill-opacity="0.05"'));
    if (head) parts.push(label(0, box.narrow ? y - 5 : y + 15, rank, 12, "start", bold));
    if (left > box.rankWidth)
      parts.push(label(left - 8, y + height / 2 + 4, lane, 11, "end", muted));
  });
  for (const [row, track, name, start, end, kind] of shown.events) {
    const [, , colour, pattern] = data.kinds[kind];
    const y = box.rows[row][0] + track * box.laneHeight;
    const x = at(start);
    const w = at(end) - x - 0.6;
    const text = data.names[name];
    parts.push(bar(x, y + 1, w, box.laneHeight - 2, colour, pattern, text));
  }
  parts.push(line(left, bottom, right, bottom, ' stroke-opacity="0.6"'));
  const axis = `${data.x_name} (${data.unit})`;
  parts.push(label(right, bottom + 33, axis, 11, "end", muted));
  let x = at(shown.total_s);
  let text = `total ${time(data, shown.total_s)}`;
  const anchor = x - textWidth(text, 12) > 0 ? "end" : "start";
  const dash = ' stroke-opacity="0.7" stroke-dasharray="4 3"';
  parts.push(line(x, top - 6, x, bottom, dash));
  const from = anchor === "end" ? Math.min(x, width) : 0;
  parts.push(label(from, top - 9, text, 12, anchor, bold));
  if (event >= 0) {
    const [row, track, , start, end] = shown.events[event];
    const y = box.rows[row][0] + track * box.laneHeight;
    x = at(start);
    const w = Math.max(at(end) - x, 1);
    const ring = ' fill="none" stroke="currentColor" stroke-width="2"';
    parts.push(rect(x - 0.5, y, w + 0.4, box.laneHeight, ring));
  }
  if (timeS > 0) {
    x = at(timeS);
    text = time(data, timeS);
    const half = textWidth(text, 11) / 2 + 4;
    const middle = Math.min(Math.max(x, half), width - half);
    parts.push(line(x, top, x, bottom, ' stroke-opacity="0.7"'));
    const plate = ' rx="3" fill="currentColor"';
    parts.push(rect(middle - half, bottom + 4, 2 * half, 18, plate));
    const ink = ' style="fill:var(--aifig-bg,#fff)"';
    parts.push(label(middle, bottom + 17, text, 11, "middle", ink));
  }
  return picture(width, box.height, data.alt, summary(data, frameAt, event), parts);
}

/** The event that an arrow key leads to: along the row, or to the nearest in another. */
export function neighbour(data, events, event, key) {
  if (event < 0) return 0;
  const [row, , , start] = events[event];
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (step) {
    const next = events[event + step];
    return next && next[0] === row ? event + step : event;
  }
  if (key === "Home" || key === "End") {
    const same = events.map((e, i) => i).filter((i) => events[i][0] === row);
    return key === "Home" ? same[0] : same[same.length - 1];
  }
  const down = key === "ArrowDown" ? 1 : -1;
  for (let to = row + down; to >= 0 && to < data.rows.length; to += down) {
    let best = -1;
    events.forEach(([r, , , s], i) => {
      if (r !== to) return;
      if (best < 0 || Math.abs(s - start) < Math.abs(events[best][3] - start)) best = i;
    });
    if (best >= 0) return best;
  }
  return event;
}

function render({ model, el }) {
  const data = model.get("data");
  const parts = frame(el, data.alt);
  const say = speaker(parts.spoken);
  const keys = ["frame", "event", "time_s"];
  const last = data.frames.length - 1;
  const set = (changes) => {
    const changed = Object.entries(changes).filter(([k, v]) => model.get(k) !== v);
    for (const [key, value] of changed) model.set(key, value);
    if (changed.length) model.save_changes();
  };
  const state = () => {
    const at = model.get("frame");
    const event = model.get("event");
    return [at, event < data.frames[at].events.length ? event : -1, model.get("time_s")];
  };
  const go = (to) =>
    set({ event: -1, frame: Math.min(last, Math.max(0, to)) });
  const chooser = slider(data.slider, data.frames.map((f) => f.label), go);
  const previous = button("previous", `Previous ${data.slider}`, () =>
    go(model.get("frame") - 1),
  );
  const next = button("next", `Next ${data.slider}`, () => go(model.get("frame") + 1));
  if (last > 0)
    parts.controls.append(
      h("div", { class: "aifig-buttons" }, previous.element, next.element),
      chooser.element,
    );
  else if (data.frames[0].label) parts.controls.append(h("b", {}, data.frames[0].label));
  else parts.controls.remove();

  let box;
  const view = redraw(parts.stage, (width) => {
    const [at, event, timeS] = state();
    const shown = data.frames[at];
    box = layout(data, width, false);
    parts.picture.innerHTML = scene(data, at, event, timeS, width, false);
    chooser.update(at);
    previous.update("previous", `Previous ${data.slider}`, at === 0);
    next.update("next", `Next ${data.slider}`, at === last);
    place(parts.probe, {
      x: box.left, y: box.plotTop, w: box.right - box.left, h: box.bottom - box.plotTop,
    });
    const read =
      event >= 0
        ? eventText(data, shown.events[event])
        : timeS > 0
          ? `At ${time(data, timeS)}`
          : "Point at a bar, or press an arrow key here, to read it.";
    parts.note.textContent = read;
    parts.probe.setAttribute("aria-label", "Read the events");
    parts.probe.setAttribute("aria-valuemin", 0);
    parts.probe.setAttribute("aria-valuemax", shown.events.length - 1);
    parts.probe.setAttribute("aria-valuenow", Math.max(0, event));
    parts.probe.setAttribute("aria-valuetext", read);
    say(summary(data, at, event));
  });
  pointer(parts.probe, (x, y) => {
    const [at] = state();
    const share = (x - box.left) / (box.right - box.left);
    const timeS = Math.min(1, Math.max(0, share)) * data.end_s;
    const slack = (2 / (box.right - box.left)) * data.end_s;
    const hit = data.frames[at].events.findLastIndex(([row, track, , start, end]) => {
      const top = box.rows[row][0] + track * box.laneHeight;
      const inside = y >= top && y < top + box.laneHeight;
      return inside && timeS >= start - slack && timeS <= end + slack;
    });
    set({ event: hit, time_s: timeS });
  });
  parts.probe.addEventListener("keydown", (event) => {
    if (!/^(Arrow|Home$|End$)/.test(event.key)) return;
    event.preventDefault();
    const [at, now] = state();
    const { events } = data.frames[at];
    const to = neighbour(data, events, now, event.key);
    set({ event: to, time_s: events[to][3] });
  });
  for (const key of keys) model.on(`change:${key}`, view.ask);
  return () => {
    for (const key of keys) model.off(`change:${key}`, view.ask);
    view.stop();
  };
}

export default { render };
