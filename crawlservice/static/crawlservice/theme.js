"use strict";

// Nothing writes inline styles into our pages: their content security policy forbids it.
htmx.config.includeIndicatorStyles = false;
// Nor does anything evaluate text.
htmx.config.allowEval = false;

// A search for spiders offers the known ones.
addEventListener("DOMContentLoaded", () => {
  const names = document.getElementById("cf-spiders");
  if (names) document.getElementById("searchbar")?.setAttribute("list", names.id);
});

// Polled parts are not asked for while the page is hidden.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.target.matches("[hx-trigger*=every]")) event.preventDefault();
});

// Nor are they replaced while a button is pressed on them or their text is being selected: the click
// or the selection would be lost. The next poll replaces them.
(() => {
  let pressed = false;
  addEventListener("pointerdown", () => { pressed = true; }, true);
  for (const end of ["pointerup", "pointercancel"]) {
    addEventListener(end, () => setTimeout(() => { pressed = false; }), true);
  }
  document.addEventListener("htmx:beforeSwap", (event) => {
    const selection = getSelection();
    const selecting = !selection.isCollapsed && event.target.contains(selection.anchorNode);
    if (pressed || selecting) event.detail.shouldSwap = false;
  });
})();

// Boxes that scroll are reached with the keyboard; the style sheet says which scroll sideways.
(() => {
  const mark = () => {
    for (const box of document.querySelectorAll(".cf-scroll, .cf-text, .cf-log, .cf-source")) {
      const sideways = box.scrollWidth > box.clientWidth;
      const scrolls = sideways || box.scrollHeight > box.clientHeight;
      box.toggleAttribute("data-sideways", sideways);
      if (scrolls) box.tabIndex = 0; else box.removeAttribute("tabindex");
    }
  };
  for (const event of ["DOMContentLoaded", "resize", "htmx:afterSettle", "toggle"]) addEventListener(event, mark, true);
})();

// The theme would move tabs into a menu that the keyboard does not reach. Ours wrap.
addEventListener("DOMContentLoaded", () => document.getElementById("tabs-dropdown")?.parentElement.remove());

// Beside each time: how long ago it was, or in how long it will be. Times are in UTC.
(() => {
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const tell = () => {
    const words = new Intl.RelativeTimeFormat(document.documentElement.lang, { style: "narrow" });
    for (const time of document.querySelectorAll("time[datetime], #result_list td.nowrap, .readonly")) {
      if (time.querySelector("time")) continue;
      const text = time.dateTime || time.textContent.trim().replace(" ", "T") + "Z";
      const seconds = /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text) && (new Date(text) - Date.now()) / 1000;
      if (!seconds) continue;
      const [unit, length] = units.find(([, least]) => Math.abs(seconds) >= least) || units[3];
      time.dataset.ago = words.format(Math.trunc(seconds / length), unit);
    }
  };
  for (const event of ["DOMContentLoaded", "htmx:afterSettle"]) addEventListener(event, tell);
  setInterval(tell, 30_000);
})();

// Django's help signs have a label, which a screen reader reads of a picture only.
addEventListener("load", () => setTimeout(() => {
  for (const sign of document.querySelectorAll(".help-tooltip")) sign.setAttribute("role", "img");
}));

// A command of the palette leads to its button, which is pressed to carry it out.
for (const event of ["DOMContentLoaded", "hashchange"]) {
  addEventListener(event, () => document.querySelector("button:target")?.focus());
}
