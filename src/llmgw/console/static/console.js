// Says whether the page is live, stops asking while nobody looks, and keeps the filter, the address and the table in step.
"use strict";

(() => {
  const live = document.getElementById("live");
  const staleAfterMs = 7000;
  let answered = Date.now();
  let gone = false;

  const say = (state, text) => {
    if (live.textContent !== text) live.textContent = text;
    if (live.dataset.state === state) return;
    live.dataset.state = state;
    document.body.classList.toggle("stale", state === "stale");
  };

  const look = () => {
    if (document.hidden) return;
    const age = Date.now() - answered;
    if (gone) say("stale", "this is no longer there");
    else if (age < staleAfterMs) say("live", "live");
    else say("stale", `reconnecting, values are ${Math.round(age / 1000)} s old`);
  };

  const refresh = () => {
    for (const part of document.querySelectorAll(".refreshed")) htmx.trigger(part, "refresh");
  };

  document.addEventListener("htmx:before:request", (event) => {
    if (document.hidden) event.preventDefault();
  });
  document.addEventListener("htmx:after:request", (event) => {
    const status = event.detail.ctx.response.status;
    gone = status === 404;
    if (status === 200) answered = Date.now();
    look();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
  });

  const filter = document.getElementById("filter");
  if (filter) keepInStep(filter, refresh);

  setInterval(look, 1000);
  look();

  function keepInStep(form, update) {
    let timer;
    const show = () => {
      clearTimeout(timer);
      const asked = new URLSearchParams([...new FormData(form)].filter(([name, value]) => value && !isDefault(name, value)));
      window.history.replaceState(null, "", asked.size ? `?${asked}` : location.pathname);
      update();
    };
    const isDefault = (name, value) => (name === "sort" && value === "trouble") || (name === "page" && value === "1");

    form.addEventListener("input", () => {
      form.elements.page.value = "1";
      clearTimeout(timer);
      timer = setTimeout(show, 120);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      show();
    });
    document.addEventListener("click", (event) => {
      const head = event.target.closest("a[data-sort]");
      if (!head || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      form.elements.sort.value = head.dataset.sort;
      form.elements.page.value = "1";
      show();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.closest("input, select, textarea")) return;
      event.preventDefault();
      form.elements.q.focus();
    });
  }
})();
