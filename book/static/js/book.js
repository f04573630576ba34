// Copy buttons, and keyboard access to what scrolls sideways. No library.
(() => {
  const ready = run =>
    document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", run) : run();

  // What a reader pastes: an interactive session without its prompts and results.
  const source = text => {
    if (!/^(>>>|\$) /m.test(text)) return text;
    return text.split("\n").filter(line => /^(>>>|\.\.\.|\$)( |$)/.test(line))
      .map(line => line.replace(/^(>>>|\.\.\.|\$) ?/, "")).join("\n");
  };

  const addCopyButtons = () => {
    if (!navigator.clipboard) return; // needs https or this machine
    for (const block of document.querySelectorAll(".cell_input .highlight, div[class*=highlight-]:not(.cell_input *, .cell_output *) > .highlight")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(source(block.querySelector("pre").textContent.trimEnd()));
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
      block.append(button);
    }
  };

  // Formulas that are wider than the page scroll; the arrow keys must reach them.
  const markScrollers = () => {
    for (const box of document.querySelectorAll("mjx-container[display=true], div.math, .scrolls, .pst-scrollable-table-container, dialog")) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };

  ready(() => {
    addCopyButtons();
    markScrollers();
    window.MathJax?.startup?.promise?.then(markScrollers);
    addEventListener("load", () => window.MathJax?.startup?.promise?.then(markScrollers) ?? markScrollers());
    let waiting;
    addEventListener("resize", () => {
      clearTimeout(waiting);
      waiting = setTimeout(markScrollers, 150);
    });
  });
})();
