// The form of a recipe: rows that are added and removed, and selectors that are made by clicking on
// the page that was tried. The page is in a sandbox without scripts; this one looks in.
"use strict";

(() => {
  const form = document.getElementById("recipe");
  if (!form) return;
  let picking = null; // the input that the next click on the page fills in

  const add = (section) => {
    const total = section.querySelector("[name$=-TOTAL_FORMS]");
    const markup = section.querySelector("template").innerHTML;
    const list = section.querySelector("[data-list]");
    list.insertAdjacentHTML("beforeend", markup.replaceAll("__prefix__", total.value));
    total.value = Number(total.value) + 1;
    list.lastElementChild.querySelector("input:not([type=hidden]), textarea").focus();
  };

  const remove = (row) => {
    row.querySelector("[data-gone]").value = "on";
    row.hidden = true;
  };

  form.addEventListener("click", (event) => {
    if (event.target.closest("[data-add]")) add(event.target.closest("[data-rows]"));
    const button = event.target.closest("[data-remove]");
    if (button) remove(button.closest("[data-row]"));
  });

  form.addEventListener("focusin", (event) => {
    picking?.classList.remove("cf-picked");
    picking = event.target.closest("[data-pick]");
    picking?.classList.add("cf-picked");
  });

  // A link that was found is the next page to try.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-try]");
    if (!link) return;
    const input = document.querySelector("[name=try_url]");
    input.value = link.dataset.try;
    input.parentElement.querySelector("[hx-post]").click();
  });

  // -- selectors --------------------------------------------------------------------------------

  const classesOf = (element) => [...element.classList]
    .filter((name) => !name.startsWith("cf-") && /^[\w-]+$/.test(name)).map((name) => `.${CSS.escape(name)}`);

  const idOf = (element) => /^[A-Za-z][\w-]*$/.test(element.id) && !/\d{3}/.test(element.id) ? `#${element.id}` : "";

  const own = (element) => {
    const names = classesOf(element);
    return names.length ? element.localName + names.slice(0, 2).join("") : idOf(element) || element.localName;
  };

  const isOnly = (root, selector, element) => {
    const found = root.querySelectorAll(selector);
    return found.length === 1 && found[0] === element;
  };

  // The shortest selector that finds this element alone below ``root``: its name, or the name of an
  // element around it and its own; if others are alike, with its number; else the whole path.
  const selectorOf = (element, root) => {
    const around = [];
    for (let one = element.parentElement; one && one !== root; one = one.parentElement) around.push(one);
    const tag = element.localName;
    const names = [tag, idOf(element), ...classesOf(element).map((name) => tag + name), own(element)];
    const outer = around.flatMap((one) => [one.localName, idOf(one), ...classesOf(one)]).filter(Boolean);
    const same = [...element.parentElement.children].filter((one) => one.localName === tag);
    const number = `:nth-of-type(${same.indexOf(element) + 1})`;
    for (const end of ["", number]) {
      const ends = names.filter(Boolean).map((name) => name + end);
      const tries = [...ends, ...outer.flatMap((name) => ends.map((last) => `${name} ${last}`))];
      const found = tries.sort((a, b) => a.length - b.length).find((path) => isOnly(root, path, element));
      if (found) return found;
    }
    return [...around.reverse().map(own), own(element) + number].join(" > ");
  };

  // The outermost element around this one that has others of its kind next to it.
  const partOf = (element, page) => {
    let found = null;
    for (let one = element; one && one !== page.body; one = one.parentElement) {
      const named = one.classList.length || ["li", "tr", "article", "dt"].includes(one.localName);
      const same = named && [...(one.parentElement?.children ?? [])].filter((other) => other.matches(own(one)));
      if (same && same.length > 1) found = one;
    }
    return own(found ?? element);
  };

  const pick = (element) => {
    const page = element.ownerDocument;
    const part = element.closest("[data-cf-part]");
    if (picking.dataset.pick === "part") picking.value = partOf(element, page);
    else if (picking.dataset.pick === "page") picking.value = selectorOf(element.closest("a") ?? element, page);
    else picking.value = selectorOf(element, part && part !== element ? part : page);
    picking.dispatchEvent(new Event("change", { bubbles: true }));
    const row = picking.closest("[data-row]");
    const kind = (row ?? picking.closest(".cf-inputs")).querySelector("select");
    if (kind) kind.value = "css";
    picking.focus();
  };

  const prepare = (frame) => {
    const page = frame.contentDocument;
    if (!page?.head || page.head.dataset.cfReady) return;
    const style = page.createElement("link");
    style.rel = "stylesheet";
    style.href = frame.dataset.style;
    page.head.append(style);
    page.head.dataset.cfReady = "1";
    page.documentElement.classList.add("cf-picking");
    page.addEventListener("mouseover", (event) => {
      page.querySelector(".cf-over")?.classList.remove("cf-over");
      if (picking) event.target.classList?.add("cf-over");
    });
    page.addEventListener("click", (event) => {
      event.preventDefault();
      event.target.classList.remove("cf-over");
      if (picking) pick(event.target);
    });
  };

  // Also those whose page was there before this ran.
  document.addEventListener("load", (event) => event.target.matches?.("iframe.cf-page") && prepare(event.target), true);
  document.body.addEventListener("htmx:afterSettle", () => document.querySelectorAll("iframe.cf-page").forEach(prepare));
})();
