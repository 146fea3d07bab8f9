// Says whether the page is live, and stops asking while nobody looks.
"use strict";

(() => {
  const live = document.getElementById("live");
  const staleAfterMs = 7000;
  let answered = Date.now();

  const say = (state, text) => {
    if (live.textContent !== text) live.textContent = text;
    if (live.dataset.state === state) return;
    live.dataset.state = state;
    document.body.classList.toggle("stale", state === "stale");
  };

  const look = () => {
    if (document.hidden) return;
    const age = Date.now() - answered;
    if (age < staleAfterMs) say("live", "live");
    else say("stale", `reconnecting, values are ${Math.round(age / 1000)} s old`);
  };

  document.addEventListener("htmx:before:request", (event) => {
    if (document.hidden) event.preventDefault();
  });
  document.addEventListener("htmx:after:request", (event) => {
    if (event.detail.ctx.response.status !== 200) return;
    answered = Date.now();
    look();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) htmx.trigger("#overview", "refresh");
  });

  setInterval(look, 1000);
  look();
})();
