// Updates the status page without a reload. The page is complete without this script.
"use strict";

(() => {
  const SECOND = 1000;
  const page = document.getElementById("page");
  const lost = document.getElementById("lost");
  const announcement = document.getElementById("say");

  // Times are the exporter's, since a phone's clock may be wrong.
  let offset = Number(page.dataset.now) - Date.now();
  const now = () => Date.now() + offset;

  function age(milliseconds) {
    const seconds = Math.max(0, Math.floor(milliseconds / SECOND));
    const minutes = Math.floor(seconds / 60);
    const hours = Math.floor(minutes / 60);
    if (seconds < 60) return `${seconds} s`;
    if (hours === 0) return `${minutes} min`;
    const two = (large, largeUnit, small, smallUnit) => `${large} ${largeUnit}${small ? ` ${small} ${smallUnit}` : ""}`;
    if (hours < 24) return two(hours, "h", minutes % 60, "min");
    if (hours < 24 * 14) return two(Math.floor(hours / 24), "d", hours % 24, "h");
    return `${Math.floor(hours / 24)} days`;
  }

  const setText = (node, text) => {
    if (node.textContent !== text) node.textContent = text;
  };

  // Ages keep counting without new data, so that stale data looks stale.
  function ages(root) {
    for (const node of root.querySelectorAll("time.age")) setText(node, age(now() - Date.parse(node.dateTime)));
  }

  const clockOfDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const clockOfYear = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

  // The page has UTC; show the viewer's own time zone.
  function clocks(root) {
    const today = new Date(now()).toDateString();
    for (const node of root.querySelectorAll("time.clock")) {
      const time = new Date(node.dateTime);
      node.title = node.dateTime;
      setText(node, (time.toDateString() === today ? clockOfDay : clockOfYear).format(time));
    }
  }

  function show(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    const other = fresh.getElementById("page");
    if (!other) throw new Error("the response is another page");
    offset = Number(other.dataset.now) - Date.now();
    ages(other);
    clocks(other);
    morph(page, other);
    offerCopies();
    document.title = fresh.title;
    const icon = document.getElementById("favicon");
    if (icon.getAttribute("href") !== page.dataset.icon) icon.setAttribute("href", page.dataset.icon);
  }

  // Copy buttons work where the browser has a clipboard: over HTTPS and on this machine.
  function offerCopies() {
    if (navigator.clipboard) for (const button of document.querySelectorAll("button.copy[hidden]")) button.hidden = false;
  }
  offerCopies();
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button.copy");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.firstChild.data = "Copied";
    } catch {
      button.firstChild.data = "Not allowed";
    }
    setTimeout(() => {
      button.firstChild.data = "Copy";
    }, 2 * SECOND);
  });

  // refresh fetches the page. All calls during a fetch together cause one more fetch.
  let busy = false;
  let again = false;
  let lastAnswer = now();
  let lastTry = performance.now();
  let connectionError = "";
  async function refresh() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    lastTry = performance.now();
    try {
      const answer = await fetch("./", { cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(8 * SECOND) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      show(await answer.text());
      lastAnswer = now();
      connectionError = "";
    } catch (error) {
      connectionError = error.message.startsWith("status ") ? error.message : "no answer";
    }
    busy = false;
    connection();
    if (again) {
      again = false;
      refresh();
    }
  }

  function connection() {
    const gone = connectionError !== "";
    document.body.classList.toggle("gone", gone);
    if (gone) setText(lost, `Connection to the exporter lost (${connectionError}). This page shows the state of ${age(now() - lastAnswer)} ago.`);
    lost.hidden = !gone;
    announce();
  }

  // A screen reader announces changes of the verdict, the set of problems and the connection: never ages and numbers, and at most
  // every ten seconds.
  const verdict = () => (connectionError !== "" ? "lost" : [page.dataset.level, ...Array.from(page.querySelectorAll(".problem"), (p) => p.id).sort()].join(" "));
  let announced = verdict();
  let announcedAt = -Infinity;
  let announceTimer;
  function announce() {
    if (verdict() === announced) return;
    const wait = announcedAt + 10 * SECOND - performance.now();
    if (wait > 0) {
      announceTimer ??= setTimeout(() => {
        announceTimer = undefined;
        announce();
      }, wait);
      return;
    }
    const back = announced === "lost" ? "Connection to the exporter restored. " : "";
    setText(announcement, connectionError !== "" ? "Connection to the exporter lost" : back + page.dataset.summary);
    announced = verdict();
    announcedAt = performance.now();
  }

  // The stream announces new reports. A changed verdict is fetched at once, everything else every few seconds.
  let stream;
  let streamTried = 0;
  let due = Infinity;
  function connect() {
    streamTried = performance.now();
    stream = new EventSource("api/v1/events");
    stream.addEventListener("status", (event) => {
      const news = JSON.parse(event.data);
      const urgent = news.level !== page.dataset.level || news.summary !== page.dataset.summary || connectionError !== "";
      due = Math.min(due, urgent ? 0 : lastTry + 4 * SECOND);
      if (urgent && !document.hidden) refreshNow();
    });
    stream.addEventListener("error", () => {
      due = Math.min(due, lastTry + SECOND); // find out whether the exporter still answers
    });
  }

  function refreshNow() {
    due = Infinity;
    refresh();
  }

  setInterval(() => {
    if (document.hidden) return;
    ages(page);
    connection();
    const open = stream.readyState === EventSource.OPEN;
    if (stream.readyState === EventSource.CLOSED && performance.now() - streamTried > 15 * SECOND) connect();
    // A broken connection may give no error, so fetch the page anyway from time to time.
    const timeout = connectionError !== "" ? 3 : open ? 20 : 5;
    if (performance.now() > due || performance.now() - lastTry > timeout * SECOND) refreshNow();
  }, SECOND);

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refreshNow();
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) refreshNow();
  });

  ages(page);
  clocks(page);
  connect();
  startCharts(age, () => connectionError === "");
})();
