// Keeps parts of a page up to date, counts times down, and sends forms as JSON. Texts only ever become text.
"use strict";

const live = document.getElementById("live");
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

async function refresh() {
  if (document.hidden) return;
  const response = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "manual" });
  if (response.type === "opaqueredirect" || response.status === 401) { location.assign("/login#" + location.pathname + location.search); return; }
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  clock(fresh);
  for (const part of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(part.id);
    if (next) become(part, next);
  }
  count();
}

// Makes what is there like what came, node by node. What did not change is not touched: focus, scrolling, what is
// half typed and what was opened stay as they are, under the cursor and in the hands of whoever types.
function become(node, next) {
  if (node.nodeType === Node.TEXT_NODE) { if (node.data !== next.data) node.data = next.data; return; }
  if (node.nodeType !== Node.ELEMENT_NODE || node.matches(".note")) return;
  for (const { name, value } of [...next.attributes]) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  for (const { name } of [...node.attributes]) if (!next.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  const wanted = [...next.childNodes];
  const keys = new Set(wanted.map(key));
  const known = new Map();
  for (const child of node.childNodes) known.set(key(child), [...(known.get(key(child)) ?? []), child]);
  let at = node.firstChild;
  for (const child of wanted) {
    while (at && !keys.has(key(at))) { const gone = at; at = at.nextSibling; gone.remove(); }
    const same = known.get(key(child))?.shift();
    if (!same) { node.insertBefore(child, at); if (child.localName === "tr") child.classList.add("fresh"); continue; }
    if (same === at) at = at.nextSibling; else node.insertBefore(same, at);
    become(same, child);
  }
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}

// What a node is about: a row of another job is another row, and a lever on another queue another lever.
function key(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return "#" + node.nodeType;
  const row = node.matches("tr, li") && (node.querySelector("[data-call]")?.dataset.call ?? node.querySelector("a[href]")?.getAttribute("href"));
  const about = row || node.dataset.call || "";
  const since = row ? node.querySelector("time")?.dateTime ?? "" : "";
  return [node.localName, node.id, about, since].join(" ");
}

let due = 0;
function soon() {
  if (due) return;
  due = setTimeout(() => { due = 0; refresh().catch(() => {}); }, 700);
}

if (live && document.querySelector("[data-live]")) {
  const events = new EventSource("/v1/stream");
  events.onopen = () => { live.textContent = "live"; live.classList.add("on"); };
  events.onerror = () => { live.textContent = "not live"; live.classList.remove("on"); soon(); };
  for (const kind of ["job", "duplicate", "alert", "stats", "lagged"]) events.addEventListener(kind, soon);
  addEventListener("pagehide", () => events.close());
  document.addEventListener("visibilitychange", soon);
  setInterval(soon, 15000);
} else if (live) {
  live.remove();
}

// How far this machine's clock is from the server's, by which keys and leases run out.
let ahead = 0;
function clock(page) {
  const now = Number(page.body.dataset.now);
  if (now) ahead = Date.now() - now;
}
clock(document);

function count() {
  for (const time of document.querySelectorAll("time[data-until]")) {
    let left = Math.floor((Number(time.dataset.until) - (Date.now() - ahead)) / 1000);
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

const OUTCOMES = {
  accepted: "A new job would be made.",
  duplicate: "It would be absorbed, and answered with the job that holds the key: ",
  replaced: "It would take the place of what waits in the job that holds the key: ",
  debounced: "It would take the place of what waits, and put it off: ",
  deferred: "It would run after the job that holds the key: ",
  rejected: "It would be refused, as this job holds the key: ",
  conflict: "It would be refused: the key was used for something else, by the job ",
};

// The answer in a sentence, with a way to the job that is in the way.
function explain(answer, place) {
  if (!place) return;
  place.textContent = OUTCOMES[answer.outcome] ?? "";
  const job = answer.holder ?? answer.job;
  if (!job || answer.outcome === "accepted") return;
  const link = document.createElement("a");
  link.href = "/jobs/" + encodeURIComponent(job.id);
  link.textContent = job.id;
  place.append(link, " (" + job.state + ")", answer.differs?.length ? ", which differs at " + answer.differs.join(" ") : "", ".");
  if (answer.admissible_at) place.append(" A new job would be made from " + answer.admissible_at + " on.");
}

// The page somebody wanted before signing in: one of ours, whatever the address says.
function wanted() {
  try {
    const page = new URL(location.hash.slice(1) || "/", location.origin);
    if (page.origin === location.origin) return page.href;
  } catch { /* It is no address at all. */ }
  return "/";
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
    if (shown) { shown.textContent = JSON.stringify(answer, null, 2); explain(answer, document.getElementById(shown.id + "-said")); return; }
    if (form.dataset.call === "POST /login") { location.assign(wanted()); return; }
    if (form.dataset.then) { location.assign(form.dataset.then.replace("{id}", encodeURIComponent(answer.id ?? ""))); return; }
    form.reset();
    const around = form.parentElement;
    await refresh();
    // Whoever uses the keyboard stays where they were: if this lever is gone, at the one that took its place.
    if (!form.isConnected && around?.isConnected) around.querySelector("button")?.focus();
  } catch (error) {
    say(String(error.message ?? error));
  }
});
