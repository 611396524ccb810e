// Loads the page again and shows what has changed, without moving what somebody reads. The page is complete without this script.
"use strict";

(() => {
  const EVERY = 60 * 1000;

  // update changes one tree of elements into another, and leaves equal parts alone, to keep focus and open details.
  function update(from, to) {
    if (from.isEqualNode(to)) return;
    for (const { name } of [...from.attributes]) if (name !== "open" && !to.hasAttribute(name)) from.removeAttribute(name);
    for (const { name, value } of to.attributes) if (name !== "open") from.setAttribute(name, value);
    const wanted = [...to.childNodes];
    const have = [...from.childNodes];
    wanted.forEach((want, i) => {
      if (!have[i]) from.append(document.importNode(want, true));
      else if (have[i].nodeName !== want.nodeName || have[i].id !== want.id) have[i].replaceWith(document.importNode(want, true));
      else if (want.nodeType === Node.ELEMENT_NODE) update(have[i], want);
      else if (have[i].data !== want.data) have[i].data = want.data;
    });
    for (const old of have.slice(wanted.length)) old.remove();
  }

  function updatesItself(page) {
    const still = page.getElementById("still");
    if (still) still.textContent = " This page updates itself.";
  }

  async function load() {
    try {
      const answer = await fetch("./", { cache: "no-cache", signal: AbortSignal.timeout(20 * 1000) });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!fresh.getElementById("verdict")) return; // another page, such as a login
      updatesItself(fresh);
      for (const part of ["header", "main", "footer"]) update(document.querySelector(part), fresh.querySelector(part));
      document.title = fresh.title;
    } catch {
      // The page says of when it is.
    }
  }

  updatesItself(document);
  setInterval(() => {
    if (!document.hidden) load();
  }, EVERY);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) load();
  });
})();
