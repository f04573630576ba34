// Host for static pages: gives every <div class="bookfig"> the model that its module
// expects (anywidget's get, set, on), with no kernel behind it. Without this script, or
// if a module fails, the picture in the page stays.
function makeModel(state) {
  const listeners = {};
  const call = (name) => [...(listeners[name] ?? [])].forEach((listener) => listener());
  return {
    get: (key) => state[key],
    set(key, value) {
      if (state[key] === value) return;
      state[key] = value;
      call(`change:${key}`);
    },
    on: (name, listener) => (listeners[name] ??= new Set()).add(listener),
    off: (name, listener) => listeners[name]?.delete(listener),
    save_changes() {},
  };
}

async function mount(figure) {
  const state = JSON.parse(figure.querySelector("script").textContent);
  const module = await import(new URL(`./${figure.dataset.fig}.js`, import.meta.url));
  const fallback = figure.querySelector(".bookfig-fallback");
  const box = document.createElement("div");
  figure.append(box);
  fallback.hidden = true;
  try {
    module.default.render({ model: makeModel(state), el: box });
    fallback.remove();
    figure.dataset.ready = "";
  } catch (error) {
    box.remove();
    fallback.hidden = false;
    throw error;
  }
}

const near = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries)
      if (isIntersecting) {
        near.unobserve(target);
        mount(target);
      }
  },
  { rootMargin: "400px" },
);
document.querySelectorAll(".bookfig").forEach((figure) => near.observe(figure));
