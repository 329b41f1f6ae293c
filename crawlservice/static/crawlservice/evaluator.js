"use strict";

// Evaluates the attributes of the theme for Alpine.js without eval, which our content security
// policy forbids: literals, names, members, calls, new, operators, assignments, if, and functions of
// one parameter (name => expression).
const expressions = (() => {
  const TOKEN = /\s*(?:(\d+(?:\.\d+)?)|('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|([A-Za-z_$][\w$]*)|(===|!==|==|!=|<=|>=|&&|\|\||=>|[-+*/%!<>=?:.,;()[\]{}]))/y;
  const BINARY = [
    { "||": (a, b) => a() || b() },
    { "&&": (a, b) => a() && b() },
    { "===": (a, b) => a() === b(), "!==": (a, b) => a() !== b(), "==": (a, b) => a() == b(), "!=": (a, b) => a() != b() },
    { "<": (a, b) => a() < b(), ">": (a, b) => a() > b(), "<=": (a, b) => a() <= b(), ">=": (a, b) => a() >= b() },
    { "+": (a, b) => a() + b(), "-": (a, b) => a() - b() },
    { "*": (a, b) => a() * b(), "/": (a, b) => a() / b(), "%": (a, b) => a() % b() },
  ];
  const WORDS = { true: true, false: false, null: null, undefined };
  const REFUSED = new Set(["constructor", "__proto__", "prototype", "eval", "Function"]);

  const tokens = (text) => {
    const found = [];
    TOKEN.lastIndex = 0;
    for (let end = text.trimEnd().length, match; TOKEN.lastIndex < end; found.push(match)) {
      const at = TOKEN.lastIndex;
      match = TOKEN.exec(text);
      if (!match) throw new SyntaxError(`${text}: cannot be read from character ${at} on`);
    }
    return found.map(([, number, string, name, sign]) => ({ number, string, name, sign }));
  };

  // A function of the scope that evaluates the text.
  const compile = (text) => {
    const all = tokens(text);
    let at = 0;
    const next = () => all[at] ?? {};
    const take = (sign) => next().sign === sign && Boolean(++at);
    const need = (sign) => {
      if (!take(sign)) throw new SyntaxError(`${text}: ${sign} is missing`);
    };
    const list = (end, one) => {
      const found = [];
      while (!take(end)) {
        found.push(one());
        if (next().sign !== end) need(",");
      }
      return found;
    };
    const key = (name) => {
      if (REFUSED.has(String(name))) throw new TypeError(`${text}: ${name} is not allowed`);
      return name;
    };
    const unquoted = (string) => string.slice(1, -1).replace(/\\(.)/g, "$1");

    const pair = () => {
      const { name, string } = all[at++] ?? {};
      const label = name ?? unquoted(string ?? "''");
      return [label, take(":") ? assignment() : named(label).get];
    };
    const named = (name) => ({
      get: (scope) => {
        key(name);
        return name in scope ? scope[name] : window[name];
      },
      set: (scope, value) => { scope[key(name)] = value; },
    });
    const literal = (value) => ({ get: () => value });

    const primary = () => {
      const { number, string, name, sign } = all[at++] ?? {};
      if (number !== undefined) return literal(Number(number));
      if (string !== undefined) return literal(unquoted(string));
      if (name === "new") {
        const { get, args } = member(primary(), true);
        return { get: (scope) => new (get(scope))(...args.map((one) => one(scope))) };
      }
      if (name !== undefined) return name in WORDS ? literal(WORDS[name]) : named(name);
      if (sign === "(") {
        const inner = assignment();
        need(")");
        return { get: inner };
      }
      if (sign === "[") {
        const parts = list("]", assignment);
        return { get: (scope) => parts.map((part) => part(scope)) };
      }
      if (sign === "{") {
        const pairs = list("}", pair);
        return { get: (scope) => Object.fromEntries(pairs.map(([name, value]) => [name, value(scope)])) };
      }
      throw new SyntaxError(`${text}: ${sign ?? "the end"} is not expected`);
    };
    const member = (of, constructed = false) => {
      for (;;) {
        const { get } = of;
        if (take("(")) {
          const args = list(")", assignment);
          if (constructed) return { get, args };
          const { call = (scope, given) => get(scope).apply(scope, given) } = of;
          of = { get: (scope) => call(scope, args.map((one) => one(scope))) };
        } else if (next().sign === "." || next().sign === "[") {
          let name;
          if (take(".")) {
            const { name: word } = all[at++] ?? {};
            name = () => word;
          } else {
            need("[");
            name = assignment();
            need("]");
          }
          of = {
            get: (scope) => get(scope)[key(name(scope))],
            set: (scope, value) => { get(scope)[key(name(scope))] = value; },
            call: (scope, given) => get(scope)[key(name(scope))](...given),
          };
        } else return constructed ? { get, args: [] } : of;
      }
    };
    const unary = () => {
      if (take("!")) return { get: ((inner) => (scope) => !inner.get(scope))(unary()) };
      if (take("-")) return { get: ((inner) => (scope) => -inner.get(scope))(unary()) };
      return member(primary());
    };
    const binary = (level) => {
      if (level === BINARY.length) return unary();
      let left = binary(level + 1);
      for (let run; (run = BINARY[level][next().sign]); ) {
        at += 1;
        const [one, other, act] = [left, binary(level + 1), run];
        left = { get: (scope) => act(() => one.get(scope), () => other.get(scope)) };
      }
      return left;
    };
    const arrow = () => {
      const { name } = all[at];
      at += 2;
      const body = assignment();
      return (scope) => (value) => body(Alpine.mergeProxies([{ [name]: value }, scope]));
    };
    const assignment = () => {
      if (all[at + 1]?.sign === "=>") return arrow();
      const target = binary(0);
      if (take("?")) {
        const yes = assignment();
        need(":");
        const no = assignment();
        return (scope) => (target.get(scope) ? yes(scope) : no(scope));
      }
      if (!take("=")) return target.get;
      if (!target.set) throw new SyntaxError(`${text}: nothing can be assigned there`);
      const value = assignment();
      return (scope) => {
        const result = value(scope);
        target.set(scope, result);
        return result;
      };
    };
    const statement = (first = false) => {
      if (next().name === "if") {
        at += 1;
        need("(");
        const test = assignment();
        need(")");
        const yes = statement();
        take(";");
        const no = next().name === "else" && ++at ? statement() : () => {};
        return (scope) => (test(scope) ? yes(scope) : no(scope));
      }
      return !first && take("{") ? block("}") : assignment();
    };
    const block = (end) => {
      const all = [];
      while (at < tokensLeft() && !(end && take(end))) {
        all.push(statement(!end && !all.length));
        if (next().sign !== end) take(";");
      }
      return (scope) => all.reduce((_, one) => one(scope), undefined);
    };
    const tokensLeft = () => all.length;
    return block();
  };

  const known = new Map();
  return (text) => {
    if (!known.has(text)) known.set(text, compile(text));
    return known.get(text);
  };
})();

document.addEventListener("alpine:init", () => {
  // The magic names of Alpine that the theme uses; Alpine does not publish its own.
  const magics = (element) => ({
    $el: element,
    get $refs() {
      const found = {};
      for (let one = element; one; one = (one._x_teleportBack ?? one).parentElement) {
        Object.assign(found, { ...one._x_refs, ...found });
      }
      return found;
    },
    $dispatch: (name, detail = {}) => element.dispatchEvent(
      new CustomEvent(name, { detail, bubbles: true, composed: true, cancelable: true })),
    $watch: (name, run) => Alpine.watch(() => Alpine.$data(element)[name], run),
  });
  Alpine.setEvaluator((element, expression) => {
    const stack = [magics(element), ...Alpine.closestDataStack(element)];
    const run = typeof expression === "function" ? null : expressions(expression);
    return (receive = () => {}, { scope = {}, params = [] } = {}) => {
      const merged = Alpine.mergeProxies([scope, ...stack]);
      let value = run ? run(merged) : expression.apply(merged, params);
      if (typeof value === "function") value = value.apply(merged, params);
      if (value instanceof Promise) value.then(receive);
      else receive(value);
    };
  });
});
