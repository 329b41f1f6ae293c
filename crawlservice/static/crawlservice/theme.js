"use strict";

// Nothing writes inline styles into our pages: their content security policy forbids it.
htmx.config.includeIndicatorStyles = false;
// Nor does anything evaluate text.
htmx.config.allowEval = false;

// Polled parts are not asked for while nobody sees the page, and not replaced while a button is pressed on them or their text is being selected:
// the click or the selection would be lost. The next poll replaces them.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden && event.target.matches("[hx-trigger*=every]")) event.preventDefault();
});
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

// The theme's attributes for the build of Alpine.js that evaluates nothing ('unsafe-eval' is not
// allowed): it knows no globals, no arrow functions and no statements, so that those attributes of
// the theme that have some are replaced.
document.addEventListener("alpine:init", () => {
  for (const make of [theme, searchForm, searchDropdown, searchCommand]) {
    Alpine.data(make.name, make);
  }
  const key = "sidebarDesktopOpen";
  Alpine.data("page", (tab) => ({
    activeTab: getCurrentTab() || tab,
    sidebarMobileOpen: false,
    sidebarDesktopOpen: (localStorage.getItem(key) ?? "1") === "1",
    init() {
      this.$watch(key, (open) => localStorage.setItem(key, open ? "1" : "0"));
    },
  }));
  const body = document.body;
  if (body.getAttribute("x-data")?.includes(key)) {
    const [, tab] = /activeTab: '([^']*)'/.exec(body.getAttribute("x-data")) ?? [];
    body.setAttribute("x-data", `page('${tab ?? ""}')`);
    body.removeAttribute("x-init");
  }
});
