// Replaces the parts of the page that changed, as the worker sends them. Without
// this script the page is the same and shows the moment at which it was loaded.
"use strict";
(() => {
  const asof = document.getElementById("asof");
  if (!asof || !window.EventSource) return;
  const word = asof.querySelector(".word");
  const time = asof.querySelector("time");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  asof.append(" ", button);
  let source = null;

  // What has the focus keeps it, and what is being selected is left alone.
  const replace = (id, html) => {
    const element = document.getElementById(id);
    if (!element) return;
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && selection.containsNode(element, true)) return;
    const focused = element.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    element.innerHTML = html;
    if (focused) element.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  };

  const show = (state, text) => {
    asof.dataset.state = state;
    word.textContent = text;
    button.textContent = { paused: "Resume", over: "Reload" }[state] || "Pause";
  };

  const open = () => {
    show("opening", "As of");
    source = new EventSource(location.href);
    source.addEventListener("part", (event) => {
      const part = JSON.parse(event.data);
      replace(part.id, part.html || "");
    });
    source.addEventListener("state", (event) => {
      time.textContent = JSON.parse(event.data).time;
      show("live", "Live");
    });
    // The browser opens a stream that ended again. One that is refused, since the login is over
    // or too many look, it does not: a page that is loaded anew asks for the login.
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) show("over", "Not live, as of");
      else show("lost", "Reconnecting, as of");
    });
  };

  const close = () => {
    source?.close();
    source = null;
  };

  let paused = false;
  button.addEventListener("click", () => {
    if (asof.dataset.state === "over") {
      location.reload();
      return;
    }
    paused = !paused;
    if (paused) {
      close();
      show("paused", "Paused at");
    } else {
      open();
    }
  });
  // Nobody looks at a page in the background: the worker need not read for it.
  document.addEventListener("visibilitychange", () => {
    if (paused) return;
    if (document.hidden) close();
    else if (!source) open();
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted && !paused && !source) open();
  });
  open();
})();
