"use strict";

// morph changes one tree of elements into another and leaves equal parts alone, to keep focus, scroll position and open details.
function morph(from, to) {
  const focused = document.activeElement;
  morphTree(from, to);
  // A part that has moved loses the focus.
  if (focused && focused !== document.body && document.activeElement !== focused && focused.isConnected) focused.focus({ preventScroll: true });
}

function morphTree(from, to) {
  if (from.isEqualNode(to)) return;
  for (const { name } of [...from.attributes]) {
    if (name !== "open" && !to.hasAttribute(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (name !== "open" && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  if (from.hasAttribute("data-own")) return;
  const keyed = new Map();
  const wanted = new Set(Array.from(to.children, (child) => child.id));
  for (const child of [...from.children]) {
    if (!child.id) continue;
    // Remove old elements first, or the elements after them would not be matched.
    if (wanted.has(child.id)) keyed.set(child.id, child);
    else child.remove();
  }
  let next = from.firstChild;
  for (const want of [...to.childNodes]) {
    let have = want.id ? keyed.get(want.id) : next;
    if (have && (have.nodeName !== want.nodeName || (have.id || "") !== (want.id || ""))) have = undefined;
    if (!have) {
      from.insertBefore(document.importNode(want, true), next);
      continue;
    }
    if (have === next) next = next.nextSibling;
    else from.insertBefore(have, next);
    if (have.nodeType === Node.ELEMENT_NODE) morphTree(have, want);
    else if (have.data !== want.data) have.data = want.data;
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}
