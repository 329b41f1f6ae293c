"use strict";

// Nothing writes inline styles into our pages: their content security policy forbids it.
htmx.config.includeIndicatorStyles = false;
// Nor does anything evaluate text.
htmx.config.allowEval = false;

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

// Our content security policy lets nothing evaluate text, so that unfold/js/alpine/alpine.js is the
// build of Alpine.js with a parser of its own (@alpinejs/csp 3.17.4). It knows single expressions
// without globals and arrow functions; what else the theme's attributes have is written anew here.
document.addEventListener("alpine:init", () => {
  for (const make of [theme, searchForm, searchDropdown, searchCommand]) {
    Alpine.data(make.name, make);
  }
  const key = "sidebarDesktopOpen";
  Alpine.data("page", (tab) => ({
    activeTab: getCurrentTab() || tab,
    sidebarMobileOpen: false,
    sidebarDesktopOpen: (localStorage.getItem(key) ?? "1") === "1",
    localStorage: { setItem: (name, value) => localStorage.setItem(name, value) },
    window: { location: { pathname: location.pathname, search: location.search } },
  }));
  const data = document.body.getAttribute("x-data");
  if (data?.includes(key)) {
    const [, tab] = /activeTab: '([^']*)'/.exec(data) ?? [];
    document.body.setAttribute("x-data", `page('${tab ?? ""}')`);
    document.body.removeAttribute("x-init");
  }
  const rewrite = (root) => {
    for (const element of root.querySelectorAll("*")) {
      for (const { name, value } of [...element.attributes]) {
        if (!name.startsWith("x-on:")) continue;
        const single = value
          .replace(/if \((.*)\) \{(.*?)\} else \{(.*?)\}/, "(($1) ? ($2) : ($3))")
          .replace(/^\s*if \((.*?)\) (?=\w)/, "($1) && ");
        const parts = single.split(";").filter((part) => part.trim());
        const code = parts.length > 1 ? `[${parts.join(",")}]` : single;
        if (code !== value) element.setAttribute(name, code);
      }
      if (element.localName === "template") rewrite(element.content);
    }
  };
  rewrite(document);
});
