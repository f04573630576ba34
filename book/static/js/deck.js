// Starts a deck. Keys beyond reveal.js's own: D switches between light and dark.
Reveal.initialize({
  width: 1280,
  height: 720,
  margin: onPaper ? 0 : 0.02,
  center: false,
  hash: true,
  slideNumber: "c/t",
  controlsLayout: "edges",
  controlsTutorial: false,
  navigationMode: "linear",
  transition: "none",
  backgroundTransition: "none",
  pdfMaxPagesPerSlide: 1,
  pdfSeparateFragments: false,
  scrollActivationWidth: null,
  plugins: [RevealNotes],
  keyboard: {
    68: () => {
      const { dataset } = document.documentElement;
      dataset.theme = dataset.theme === "dark" ? "light" : "dark";
    },
  },
});

// A slider keeps the keyboard after it was dragged, and the lecturer's next key would
// move the slider instead of the slides: give the keyboard back.
document.addEventListener("pointerup", () => {
  const { activeElement } = document;
  if (activeElement?.matches(".bookfig *")) activeElement.blur();
});
