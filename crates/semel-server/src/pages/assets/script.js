// Keeps parts of a page up to date, counts times down, and sends forms as JSON. Texts only ever become text.
"use strict";

const live = document.getElementById("live");

async function refresh() {
  if (document.hidden) return;
  const response = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(part.id);
    const busy = part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
    if (next && !busy && next.innerHTML !== part.innerHTML) part.replaceChildren(...next.childNodes);
  }
  count();
}

let due = 0;
function soon() {
  if (due) return;
  due = setTimeout(() => { due = 0; refresh().catch(() => {}); }, 700);
}

if (live && document.querySelector("[data-live]")) {
  const events = new EventSource("/v1/stream");
  events.onopen = () => { live.textContent = "live"; live.classList.add("on"); };
  events.onerror = () => { live.textContent = "not live"; live.classList.remove("on"); };
  for (const kind of ["job", "duplicate", "alert", "stats", "lagged"]) events.addEventListener(kind, soon);
  addEventListener("pagehide", () => events.close());
  setInterval(soon, 15000);
} else if (live) {
  live.remove();
}

function count() {
  for (const time of document.querySelectorAll("time[data-until]")) {
    let left = Math.floor((Number(time.dataset.until) - Date.now()) / 1000);
    if (left <= 0) { time.textContent = "now"; continue; }
    const parts = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
    const said = [];
    for (const [unit, word] of parts) {
      const n = Math.floor(left / unit);
      left -= n * unit;
      if ((n || said.length) && said.length < 2) said.push(n + " " + word);
    }
    time.textContent = "in " + said.join(" ");
  }
}
count();
setInterval(count, 1000);

function place(object, name, value) {
  const parts = name.split(".");
  const last = parts.pop();
  let inner = object;
  for (const part of parts) inner = inner[part] ??= {};
  inner[last] = value;
}

function body(form) {
  const said = {};
  for (const field of form.elements) {
    if (!field.name || (field.type === "checkbox" && !field.checked)) continue;
    const kind = field.dataset.kind;
    if (field.value === "" && kind !== "text") continue;
    if (kind === "json") place(said, field.name, JSON.parse(field.value));
    else if (kind === "number") place(said, field.name, Number(field.value));
    else if (kind === "minutes") place(said, field.name, Number(field.value) * 60000);
    else if (kind === "bool") place(said, field.name, field.value === "true");
    else place(said, field.name, field.value);
  }
  return said;
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.call) return;
  event.preventDefault();
  const note = form.querySelector(".note");
  const say = (text) => { if (note) note.textContent = text; };
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return;
  const [method, path] = form.dataset.call.split(" ");
  try {
    const response = await fetch(path, {
      method, headers: { "content-type": "application/json" }, body: JSON.stringify(body(form)),
    });
    const text = await response.text();
    const answer = text ? JSON.parse(text) : {};
    if (!response.ok) { say(answer.detail + (answer.hint ? " – " + answer.hint : "")); return; }
    say("");
    const shown = form.dataset.show && document.getElementById(form.dataset.show);
    if (shown) { shown.textContent = JSON.stringify(answer, null, 2); return; }
    if (form.dataset.then) { location.assign(form.dataset.then.replace("{id}", encodeURIComponent(answer.id ?? ""))); return; }
    form.reset();
    document.activeElement.blur();
    await refresh();
  } catch (error) {
    say(String(error.message ?? error));
  }
});
