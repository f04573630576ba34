// A heading sorts its table. Without this script the table is plain and complete.
(() => {
  const STYLE = `
    .sortable th > button { all: unset; display: inline-flex; gap: .3em; min-height: 1.5rem;
      align-items: end; cursor: pointer; text-align: left; }
    .sortable th > button:hover { text-decoration: underline; text-underline-offset: .2em; }
    .sortable th > button:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; }
    .sortable th > button::after { content: "↕" / ""; font-weight: 400;
      color: var(--pst-color-text-muted); }
    .sortable th[aria-sort=ascending] > button::after { content: "↑" / ""; color: inherit; }
    .sortable th[aria-sort=descending] > button::after { content: "↓" / ""; color: inherit; }
    .sortable td > p > [data-sort] { white-space: nowrap; }
    .sortable :is(th, td):first-child { position: sticky; left: 0; z-index: 1;
      background: var(--pst-color-on-background) !important; }
    .sortable :is(thead th, tr:nth-child(odd) > td):first-child {
      background: var(--pst-color-surface) !important; }
    @media (min-width: 40rem) {
      .sortable td:first-child > p { white-space: nowrap; text-wrap: nowrap; }
    }
  `;
  const NEXT = { none: "first", first: "second", second: "none" };

  // What a cell is sorted by: its number, else its text; null where there is a dash.
  const key = cell => {
    const number = cell.querySelector("[data-sort]");
    if (number) return Number(number.dataset.sort);
    const text = cell.textContent.trim();
    return text === "–" ? null : text;
  };

  // Dashes last, whichever the direction.
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  };

  const enhance = table => {
    const headings = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const original = [...body.rows];
    let column = -1, state = "none";

    const sort = index => {
      state = index === column ? NEXT[state] : "first";
      column = index;
      const keys = new Map(original.map(row => [row, key(row.cells[index])]));
      const numbers = [...keys.values()].some(one => typeof one === "number");
      const down = numbers === (state === "first"); // numbers: the largest first
      const rows = [...original];
      if (state !== "none") rows.sort((a, b) => compare(keys.get(a), keys.get(b), down ? -1 : 1));
      body.append(...rows);
      headings.forEach((heading, i) => {
        if (i !== index || state === "none") heading.removeAttribute("aria-sort");
        else heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      });
    };

    headings.forEach((heading, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent.trim();
      button.addEventListener("click", () => sort(index));
      heading.replaceChildren(button);
    });
  };

  const tables = document.querySelectorAll(".sortable table");
  if (!tables.length) return;
  document.head.append(Object.assign(document.createElement("style"), { textContent: STYLE }));
  tables.forEach(enhance);
})();
