// What pages of pkgdown before 2.1 take from other servers, or lack: light and dark, search, the list of sections, and a
// button that copies code. Nothing here asks another server, so that the site works from a folder.
(function () {
  const root = new URL(".", document.currentScript.src);
  const html = document.documentElement;

  // ---- light and dark: as the system has it, until somebody chooses ----
  const kept = { get: () => { try { return localStorage.getItem("theme"); } catch { return null; } },
                 set: (theme) => { try { localStorage.setItem("theme", theme); } catch { /* for this page alone */ } } };
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => html.classList.toggle("dark", kept.get() ? kept.get() === "dark" : system.matches);
  apply();
  system.addEventListener("change", apply);

  function element(name, attributes, text) {
    const made = document.createElement(name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text) made.textContent = text;
    return made;
  }

  function addSwitch() {
    const button = element("button", { type: "button", class: "theme-switch", "aria-label": "light or dark", title: "Light or dark" }, "◐");
    button.addEventListener("click", () => {
      const dark = html.classList.toggle("dark");
      kept.set(dark ? "dark" : "light");
    });
    document.querySelector(".navbar .container")?.append(button);
  }

  // ---- sections of the page ----
  function addContents() {
    const nav = document.getElementById("toc");
    const heads = [...document.querySelectorAll("main h2, main h3")].filter((h) => !h.hasAttribute("data-toc-skip"));
    if (!nav) return;
    if (heads.length < 2) return nav.remove();
    const list = nav.appendChild(element("ul", { class: "contents" }));
    for (const head of heads) {
      const target = head.id || head.parentElement.id || (head.id = head.textContent.trim().toLowerCase().replace(/[^a-z0-9]+/g, "-"));
      const item = list.appendChild(element("li", { class: head.tagName === "H3" ? "inner" : "outer" }));
      item.append(element("a", { href: "#" + target }, head.textContent.replace(/\s+/g, " ").trim()));
    }
  }

  // ---- copy code ----
  function addCopyButtons() {
    if (!navigator.clipboard) return;
    for (const block of document.querySelectorAll("div.sourceCode")) {
      const button = element("button", { type: "button", class: "copy-code", "aria-label": "copy", title: "Copy" }, "⧉");
      button.addEventListener("click", async () => {
        const code = block.querySelector("pre").innerText.split("\n").filter((line) => !line.startsWith("#>")).join("\n");
        await navigator.clipboard.writeText(code.trim() + "\n");
        button.textContent = "✓";
        setTimeout(() => { button.textContent = "⧉"; }, 1200);
      });
      block.append(button);
    }
  }

  // ---- search: all words, most in titles first; the index is a script, since pages of a folder may not fetch files ----
  let index = null;
  function withIndex(then) {
    if (index) return then();
    const script = element("script", { src: new URL("search.js", root) });
    script.addEventListener("load", () => {
      index = window.SEARCH.map((page) => {
        const head = [page.what, page.title, page.previous_headings].flat().join(" ").toLowerCase();
        return { page, head, text: head + " " + [page.text, page.code].flat().join(" ").toLowerCase() };
      });
      then();
    });
    document.head.append(script);
  }
  function find(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const score = (entry) => words.every((w) => entry.text.includes(w))
      ? words.reduce((sum, w) => sum + (entry.head.startsWith(w) ? 20 : entry.head.includes(w) ? 10 : 0), 1)
        + (entry.page.what === entry.page.title ? 3 : 0) : 0;
    return index.map((entry) => ({ entry, score: score(entry) })).filter((hit) => hit.score > 0)
      .sort((a, b) => b.score - a.score).slice(0, 15).map((hit) => hit.entry.page);
  }
  function addSearch() {
    const input = document.getElementById("search-input");
    if (!input) return;
    const hits = element("ul", { class: "search-hits", hidden: "" });
    input.closest("form").append(hits);
    input.setAttribute("aria-label", "Search");
    const show = () => {
      const query = input.value.trim();
      hits.hidden = query.length < 2;
      if (hits.hidden) return;
      const found = find(query);
      hits.replaceChildren(...found.map((page) => {
        const item = element("li");
        const url = new URL(page.path.replace(/^\//, ""), root);
        if (page.id) url.hash = page.id;
        const link = item.appendChild(element("a", { href: url }, page.what || page.title));
        if (page.what && page.title && page.what !== page.title) link.append(element("small", {}, " " + page.title));
        return item;
      }));
      if (found.length === 0) hits.append(element("li", { class: "none" }, "Nothing found"));
    };
    input.addEventListener("input", () => withIndex(show));
    input.addEventListener("keydown", (event) => { if (event.key === "Escape") hits.hidden = true; });
    input.closest("form").addEventListener("submit", (event) => {
      event.preventDefault();
      const first = hits.querySelector("a");
      if (first) window.location.href = first.href;
    });
    document.addEventListener("click", (event) => { if (!input.closest("form").contains(event.target)) hits.hidden = true; });
  }

  document.addEventListener("DOMContentLoaded", () => { addSwitch(); addContents(); addCopyButtons(); addSearch(); });
})();
