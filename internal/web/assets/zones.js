// Adds the reader's own time to each time of a page that has UTC. The page is complete without this script.
"use strict";

(() => {
  const own = new Intl.DateTimeFormat(undefined, {
    day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short",
  });
  if (own.resolvedOptions().timeZone === "UTC") return;
  for (const node of document.querySelectorAll("time.zoned")) {
    node.textContent = `${own.format(new Date(node.dateTime))} (${node.textContent})`;
  }
})();
