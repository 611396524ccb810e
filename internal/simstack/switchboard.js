"use strict";
// The page works without this script. It adds the filter, and keeps open groups, the filter and the place across a switch.
const key = "switchboard";
const form = document.getElementById("switches");
const words = document.getElementById("words");
const groups = [...document.querySelectorAll("details.faults")];

function filter() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const group of groups) {
    let matches = 0;
    for (const row of group.querySelectorAll("li")) {
      const text = `${group.dataset.service} ${row.querySelector("h3").textContent} ${row.querySelector("p").textContent}`.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
      if (!row.hidden) matches++;
    }
    group.hidden = matches === 0;
    if (wanted.length > 0) group.open = matches > 0;
    found += matches;
  }
  document.getElementById("none").hidden = found > 0;
}

document.getElementById("filter").hidden = false;
words.addEventListener("input", () => {
  if (words.value === "") for (const group of groups) group.open = false;
  filter();
});
form.addEventListener("submit", () => {
  for (const old of form.querySelectorAll("input[name=open]")) old.remove();
  for (const group of groups) {
    if (!group.open || words.value !== "") continue;
    const open = document.createElement("input");
    Object.assign(open, { type: "hidden", name: "open", value: group.dataset.service });
    form.append(open);
  }
  sessionStorage.setItem(key, JSON.stringify({ words: words.value, top: scrollY }));
});

const kept = JSON.parse(sessionStorage.getItem(key) ?? "null");
sessionStorage.removeItem(key);
if (kept) {
  words.value = kept.words;
  filter();
  // After the browser has scrolled to the anchor.
  addEventListener("load", () => setTimeout(() => scrollTo(0, kept.top)));
}
