// Reloads the page in place: focus, scroll position and open tables stay. Without it, the browser reloads.
"use strict";
const key = (element) => element.getAttribute("href") ?? element.textContent;
setInterval(async () => {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(8e3) });
    if (!answer.ok) throw answer;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const focused = key(document.activeElement);
    const open = [...document.querySelectorAll("details[open] > summary")].map(key);
    document.body.replaceWith(page.body);
    for (const summary of document.querySelectorAll("summary")) summary.parentElement.open = open.includes(key(summary));
    [...document.querySelectorAll("a, summary")].find((each) => key(each) === focused)?.focus({ preventScroll: true });
  } catch {
    document.body.className = "lost";
  }
}, 10e3);
