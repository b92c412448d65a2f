// Loads the page again, in place: the focus and the place on the page stay. Without it, the browser reloads.
"use strict";
setInterval(async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(8e3) });
    if (!answer.ok) throw answer;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = document.activeElement.getAttribute("href");
    document.body.replaceWith(page.body);
    [...document.links].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
  } catch {
    document.body.className = "lost";
  }
}, 10e3);
