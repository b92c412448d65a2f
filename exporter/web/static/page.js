// Keeps #board as the server has it: each message is the whole of it, morphed into what is shown, so that focus,
// selection, scrolling and open tables stay. Without this script the page reloads itself every few seconds.
"use strict";
{
  const SILENCE_MS = 25e3, RETRY_MS = 5e3; // the server sends a beat at least every 10 s
  const board = document.getElementById("board"), live = document.getElementById("live");
  const keep = { morphStyle: "innerHTML", callbacks: { beforeAttributeUpdated: (name) => name !== "open" } };
  let source, tried = 0, heard = Date.now(), behind = 0;

  const say = (state, text) => {
    live.dataset.state = state;
    if (live.textContent !== text) live.textContent = text;
  };
  const lose = () => say("lost", `Not live since ${new Date(heard).toISOString().slice(11, 19)} UTC, trying again`);
  const age = () => {
    for (const each of board.querySelectorAll("[data-since]"))
      each.textContent = `${Math.max(0, Math.round((Date.now() - behind) / 1000 - each.dataset.since))} s ago`;
  };
  const show = (event) => {
    Idiomorph.morph(board, event.data, keep);
    age();
  };
  const connect = () => {
    source?.close();
    tried = Date.now();
    source = new EventSource(board.dataset.events);
    source.addEventListener("error", lose);
    source.addEventListener("board", show);
    source.addEventListener("beat", (event) => {
      heard = Date.now();
      behind = heard - 1000 * event.data;
      say("live", "Live");
    });
  };

  setInterval(() => {
    age();
    const now = Date.now(), silent = now - Math.max(heard, tried) > SILENCE_MS;
    if (document.hidden || (!silent && (source.readyState !== EventSource.CLOSED || now - tried < RETRY_MS))) return;
    lose();
    connect();
  }, 1000);
  // A hidden page frees its place for other viewers.
  document.addEventListener("visibilitychange", () => (document.hidden ? source.close() : connect()));
  if (!document.hidden) connect();
}
