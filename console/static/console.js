// Live parts, copying and the tail of records. No library: what a page shows comes from the server.
"use strict";

const STATE = "X-Live";

// Replace only those parts of a live element that have changed, and keep the focus where it is.
function take(element, html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const parts = [...fresh.content.querySelectorAll("[data-part]")];
  if (!parts.length) {
    element.innerHTML = html;
    return;
  }
  for (const part of parts) {
    const old = element.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!old) {
      element.append(part);
    } else if (old.dataset.was !== part.innerHTML || old.className !== part.className) {
      replace(old, part);
    }
  }
}

function replace(old, part) {
  const active = document.activeElement;
  const inside = old.contains(active) && active !== old;
  const again = inside && active.getAttribute("href") ? `[href="${CSS.escape(active.getAttribute("href"))}"]` : null;
  const open = [...old.querySelectorAll("details")].map((one) => one.open);
  old.className = part.className;
  old.dataset.was = part.innerHTML;
  old.innerHTML = part.innerHTML;
  old.querySelectorAll("details").forEach((one, number) => { one.open = open[number] || one.open; });
  if (again) {
    const found = old.querySelector(again);
    if (found) found.focus({ preventScroll: true });
  }
}

function say(text, wrong) {
  const place = document.querySelector("[data-live-state]");
  if (place && place.textContent !== text) {
    place.textContent = text;
    place.classList.toggle("wrong", wrong);
  }
}

async function follow(element) {
  let state = "";
  const every = 1000 * Number(element.dataset.every || 5);
  for (;;) {
    await new Promise((done) => setTimeout(done, every));
    if (document.hidden || element.hasAttribute("data-paused")) continue;
    if (!element.isConnected) return;
    const until = new AbortController();
    const timer = setTimeout(() => until.abort(), 5000);
    try {
      const answer = await fetch(element.dataset.live, {
        headers: { [STATE]: state || "none" }, signal: until.signal, credentials: "same-origin",
      });
      if (answer.status === 401) { location.reload(); return; }
      if (answer.status === 200) {
        state = answer.headers.get(STATE) || "";
        take(element, await answer.text());
      }
      say(answer.ok ? "live" : `the console answers ${answer.status}`, !answer.ok);
    } catch (error) {
      say("the console does not answer", true);
    } finally {
      clearTimeout(timer);
    }
  }
}

async function copy(button) {
  const text = button.closest(".copyable").querySelector("code, textarea").textContent;
  const was = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch (error) {
    const range = document.createRange();
    range.selectNodeContents(button.closest(".copyable").querySelector("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = "Selected: press Ctrl-C";
  }
  setTimeout(() => { button.textContent = was; }, 2000);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
  const pause = event.target.closest("[data-pause]");
  if (pause) {
    const live = document.querySelector(pause.dataset.pause);
    const paused = live.toggleAttribute("data-paused");
    pause.textContent = paused ? "Go on" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
  }
});

// What cannot be undone: the button waits until the name is typed. The server checks it again.
document.addEventListener("input", (event) => {
  const wanted = event.target.dataset.confirm;
  if (wanted !== undefined) {
    event.target.form.querySelector("button").disabled = event.target.value !== wanted;
  }
});

// "/" goes to the field that finds things, as people know it from elsewhere.
document.addEventListener("keydown", (event) => {
  const field = document.querySelector("[data-find]");
  if (event.key === "/" && field && !event.ctrlKey && !event.metaKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    field.focus();
  }
});

document.querySelectorAll("[data-live]").forEach(follow);
