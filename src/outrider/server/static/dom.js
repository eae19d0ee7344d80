// Small helpers: elements, and the tabs.

export const $ = (id) => document.getElementById(id);

// An element with attributes (class, text and on... among them) and children.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Tabs as the WAI-ARIA practices have them: arrows move, the address remembers.
export function tabs(opened) {
  const all = [...document.querySelectorAll("[role=tab]")];
  const show = (tab, focus) => {
    for (const one of all) {
      const chosen = one === tab;
      one.setAttribute("aria-selected", chosen);
      one.tabIndex = chosen ? 0 : -1;
      $(one.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) tab.focus();
    const name = tab.getAttribute("aria-controls");
    history.replaceState(null, "", `#${name}`);
    opened(name);
  };
  for (const tab of all) {
    tab.addEventListener("click", () => show(tab, false));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show(all[(all.indexOf(tab) + step + all.length) % all.length], true);
    });
  }
  const named = all.find((tab) => `#${tab.getAttribute("aria-controls")}` === location.hash);
  show(named ?? all[0], false);
}

// One line of a list of meters.
export function meter(list, name, value) {
  let row = [...list.children].find((one) => one.dataset.name === name);
  if (!row) {
    row = make("div", { "data-name": name }, make("dt", { text: name }), make("dd"));
    list.append(row);
  }
  row.lastChild.textContent = value;
}
