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

// Polled parts are not asked for while nobody sees the page.
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
