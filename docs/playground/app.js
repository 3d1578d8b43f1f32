// The page: the question as its fields and its address have it, and the answers as they come.

import { kernels } from "./site.js";
import { card, chip, element, showCarets, verdict } from "./view.js";

const PAUSE = 350; // milliseconds after the last key before what was typed is asked
const $ = (id) => document.getElementById(id);
const EXAMPLES = [
  ["Arguments by name: newer kernels only", "p:myopen do_sys_openat2 filename:ustring flags=how->flags", ""],
  ["A filter that keeps what failed", "r:myopen do_sys_openat2 fd=$retval:s32", "fd < 0"],
  ["A filter with a slip", "p:myopen do_sys_openat2 filename=+0(%si):ustring", 'filname ~ "*passwd"'],
  ["A function that went away", "p:myopen do_sys_open filename=+0(%si):ustring", ""],
  ["The name in a struct filename", "p:unlink do_unlinkat name=+0(+0($arg2)):string", ""],
  ["A function probe, of its return", "f:read vfs_read%return got=$retval", ""],
  ["A probe on a system call's event", "e:opened syscalls/sys_enter_openat name=+0($filename):ustring", ""],
  ["A register that isn't one", "p:myopen do_sys_openat2 dfd=%edi", ""],
];

const fewest = [kernels[0], kernels.at(-1)].map((kernel) => kernel.release);
const names = new Map(kernels.map((kernel) => [kernel.name, kernel]));
const FEW = 2; // kernels whose formats and traces are open from the start
const folded = new Map(); // what the user opened or closed, by part of the answer
let worker;
let asked = { id: 0, question: "", releases: [], answers: new Map() };
let timer;

// ------------------------------------------------------------------------------------- the question, and its address

const chosen = () => kernels.filter((kernel) => $(kernel.release).checked);

function choose(releases) {
  for (const kernel of kernels) $(kernel.release).checked = releases.includes(kernel.release);
}

function address(definition, filter, chosenKernels) {
  const said = new URLSearchParams({ p: definition });
  if (filter) said.set("f", filter);
  said.set("k", chosenKernels.map((kernel) => kernel.name).join(","));
  return `#${said.toString().replaceAll("%2C", ",").replaceAll("%3A", ":")}`;
}

function readAddress() {
  const said = new URLSearchParams(location.hash.slice(1));
  if (!said.has("p")) return false;
  $("definition").value = said.get("p");
  $("filter").value = said.get("f") ?? "";
  const wanted = (said.get("k") ?? "").split(",").map((name) => names.get(name)?.release).filter(Boolean);
  choose(wanted.length ? wanted : fewest);
  return true;
}

// ------------------------------------------------------------------------------------------------------- the answers

function ask() {
  clearTimeout(timer);
  document.documentElement.dataset.asked = asked.id + 1; // and `answered` once it is
  const definition = $("definition").value;
  const filter = $("filter").value;
  const releases = chosen().map((kernel) => kernel.release);
  const hash = address(definition, filter, chosen());
  if (location.hash !== hash) history.replaceState(null, "", hash);
  const nothing = !definition.trim() ? "Write a definition to see what kernels say to it."
    : !releases.length ? "Choose a kernel to be asked." : "";
  if (nothing) {
    asked = { id: asked.id + 1, question: "", releases: [], answers: new Map() };
    show(nothing);
    return;
  }
  const question = JSON.stringify([definition, filter]);
  const kept = asked.question === question ? asked.answers : new Map();
  asked = { id: asked.id + 1, question, releases, answers: kept };
  const missing = releases.filter((release) => !kept.has(release));
  $("cards").classList.toggle("stale", !kept.size);
  if (missing.length) start().postMessage({ id: asked.id, definition, filter, releases: missing });
  else finish();
}

function start() {
  if (!worker) {
    worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => receive(data);
    worker.onerror = (event) => fail(event.message || "its worker can't be loaded");
    $("status").textContent = "Loading kernels…";
    $("loading").hidden = false;
  }
  return worker;
}

function receive(data) {
  if (data.progress) {
    progress(data.progress);
  } else if (data.id !== asked.id) {
    // of a question before this one
  } else if (data.failed) {
    fail(data.failed);
  } else if (data.done) {
    finish();
  } else {
    asked.answers.set(data.release, data.answer);
    draw();
  }
}

function progress({ loaded, total }) {
  const all = loaded >= total;
  if (all) $("progress").removeAttribute("value");
  else $("progress").value = loaded / total;
  $("loaded").textContent = all ? "Starting Python…" : `${(loaded / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB`;
}

// Whether a part of the answer is open on all cards.
const open = (part) => folded.get(part) ?? (part !== "calls" && asked.releases.length <= FEW);

function draw() {
  const answered = kernels.filter((kernel) => asked.releases.includes(kernel.release) && asked.answers.has(kernel.release));
  $("cards").classList.remove("stale");
  $("verdicts").replaceChildren(...answered.map((kernel) => chip(kernel, asked.answers.get(kernel.release))));
  $("cards").replaceChildren(...answered.map((kernel) => card(kernel, asked.answers.get(kernel.release), open)));
  showCarets($("cards"));
}

function finish() {
  draw();
  const list = kernels.filter((kernel) => asked.releases.includes(kernel.release));
  const not = list.filter((kernel) => !verdict(asked.answers.get(kernel.release)).takes);
  const names = new Intl.ListFormat("en-GB").format(not.map((kernel) => kernel.name));
  const [all, none] = list.length === 1 ? ["The kernel takes it.", "The kernel doesn’t take it as it is."]
    : list.length === 2 ? ["Both kernels take it.", "Neither kernel takes it as it is."]
    : [`All ${list.length} kernels take it.`, `None of the ${list.length} kernels takes it as it is.`];
  const takes = list.length - not.length;
  $("status").textContent = !not.length ? all : !takes ? none
    : `${takes} of ${list.length} kernels ${takes === 1 ? "takes" : "take"} it; ${names} ${not.length === 1 ? "doesn’t" : "don’t"}.`;
  $("loading").hidden = true;
  document.documentElement.dataset.answered = asked.id;
}

function show(text) {
  $("status").textContent = text;
  $("loading").hidden = true;
  $("cards").classList.remove("stale");
  $("verdicts").replaceChildren();
  $("cards").replaceChildren();
  document.documentElement.dataset.answered = asked.id;
}

function fail(text) {
  show("");
  $("cards").replaceChildren(element("p", { class: "notice failed", role: "alert" }, `That didn’t work: ${text}. Ask again to try once more.`));
  worker?.terminate();
  worker = undefined;
}

// ------------------------------------------------------------------------------------------------------------ the page

function later() {
  clearTimeout(timer);
  timer = setTimeout(ask, PAUSE);
}

$("unbuilt").remove();
for (const kernel of kernels) {
  const box = element("input", { type: "checkbox", id: kernel.release, name: "k", value: kernel.name });
  $("kernels").append(element("label", { title: kernel.release }, box, kernel.name));
}
for (const [title, definition, filter] of EXAMPLES) {
  const link = element("a", { href: address(definition, filter, []) }, title);
  link.addEventListener("click", (click) => {
    if (click.ctrlKey || click.metaKey || click.shiftKey) return;
    click.preventDefault();
    $("definition").value = definition;
    $("filter").value = filter;
    ask();
  });
  $("examples").append(element("li", {}, link));
}
$("question").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
$("definition").addEventListener("input", later);
$("definition").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
});
$("filter").addEventListener("input", later);
$("kernels").addEventListener("change", ask);
$("every").addEventListener("click", () => { choose(kernels.map((kernel) => kernel.release)); ask(); });
$("fewest").addEventListener("click", () => { choose(fewest); ask(); });
$("link").addEventListener("click", async () => {
  ask();
  try {
    await navigator.clipboard.writeText(location.href);
    $("link").textContent = "Copied";
  } catch {
    $("link").textContent = "It is in the address bar";
  }
  setTimeout(() => { $("link").textContent = "Copy link"; }, 1500);
});
$("cards").addEventListener("click", ({ target }) => { // what is opened on one card is on all
  const clicked = target.closest("summary")?.parentElement;
  if (!clicked) return;
  const { part } = clicked.dataset;
  folded.set(part, !clicked.open);
  for (const other of document.querySelectorAll(`details[data-part=${part}]`)) if (other !== clicked) other.open = open(part);
});
addEventListener("hashchange", () => { if (readAddress()) ask(); });
if (!readAddress()) {
  choose(fewest);
  [, $("definition").value, $("filter").value] = EXAMPLES[0];
}
ask();
