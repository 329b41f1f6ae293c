"use strict";

// Nothing on our pages writes styles into them; the policy of the browser forbids it.
htmx.config.includeIndicatorStyles = false;

// What is polled is not exchanged under a finger that is down, nor while its text is being selected:
// the click or the selection would be lost. The next poll brings it.
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
