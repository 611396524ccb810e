// Loads the page again and shows what has changed, without moving what somebody reads. The page is complete without this script.
"use strict";

(() => {
  const EVERY = 60 * 1000;

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
      for (const part of ["header", "main", "footer"]) morph(document.querySelector(part), fresh.querySelector(part));
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
