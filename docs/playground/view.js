// Answers as elements of the page.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// What a kernel says in a word: "taken", "EINVAL", and how it is coloured.
export function verdict(answer) {
  const refused = answer.commands.filter((command) => command.error);
  if (refused.length) {
    const names = [...new Set(refused.map((command) => command.error.name))].join(", ");
    const partly = refused.length < answer.commands.length;
    return { kind: partly ? "partly" : "refused", word: partly ? `${names}, in part` : names, takes: false };
  }
  const events = answer.events.filter((event) => event.filter?.error || event.enable.error);
  if (events.length) {
    const error = (events[0].filter?.error ?? events[0].enable.error).name;
    return { kind: "partly", word: `${events[0].filter?.error ? "filter" : "enable"}: ${error}`, takes: false };
  }
  return { kind: "taken", word: "taken", takes: true };
}

export const anchor = (release) => `kernel-${release.replace(/[^\w]/g, "-")}`;

export function chip(kernel, answer) {
  const { kind, word } = verdict(answer);
  const sign = { taken: "✓", refused: "✗", partly: "!" }[kind];
  const link = element("a", { href: `#${anchor(kernel.release)}`, class: kind },
    element("span", { "aria-hidden": "true" }, sign), element("b", {}, kernel.name), word);
  link.addEventListener("click", (click) => { // the fragment of the address is the question's
    click.preventDefault();
    const card = document.getElementById(anchor(kernel.release));
    card?.scrollIntoView({ block: "start" });
    card?.querySelector("h3").focus();
  });
  return element("li", {}, link);
}

export function card(kernel, answer, open) {
  const { kind, word } = verdict(answer);
  const title = anchor(kernel.release);
  const shown = kind === "taken" ? "taken" : kind === "refused" ? `refused: ${word}` : word;
  const made = element("article", { id: title, "aria-labelledby": `${title}-title` },
    element("header", {},
      element("h3", { id: `${title}-title`, tabindex: "-1" }, kernel.name),
      element("span", { class: "release" }, kernel.release),
      element("span", { class: `verdict ${kind}` }, shown)));
  for (const command of answer.commands) made.append(written(command));
  for (const event of answer.events) made.append(...ofEvent(event, open));
  if (answer.events.length) made.append(trace(answer, open));
  return made;
}

function error({ name, number, text }) {
  return element("p", { class: "error" }, `${name} (${number}): ${text}`);
}

function written(command) {
  const part = element("div", { class: "part" });
  if (command.error) {
    part.append(element("h4", {}, `write to ${command.file}`), error(command.error));
    part.append(command.log ? block("error_log", refusal(command.log)) : element("p", {}, "Nothing in error_log."));
  } else {
    const listing = command.listing.join("\n");
    part.append(element("h4", {}, `${command.file} now has`));
    part.append(listing ? block(command.file, wrapped(listing)) : element("p", {}, "Nothing new."));
  }
  return part;
}

function ofEvent(event, open) {
  const parts = [];
  const { filter, enable } = event;
  if (filter) {
    const part = element("div", { class: "part" }, element("h4", {}, `events/${event.event}/filter`));
    if (filter.error) part.append(error(filter.error));
    part.append(block("filter", filter.error ? refusal(filter.text) : [filter.text]));
    if (filter.error && filter.log) {
      part.append(element("h4", {}, "error_log"), block("error_log", refusal(filter.log)));
    }
    parts.push(part);
  }
  if (enable.error) {
    parts.push(element("div", { class: "part" }, element("h4", {}, `events/${event.event}/enable`), error(enable.error),
      ...(enable.log ? [block("error_log", refusal(enable.log))] : [])));
  }
  parts.push(folded("format", `events/${event.event}/format`, open, block("format", wrapped(event.format))));
  return parts;
}

function trace(answer, open) {
  const lines = answer.trace.trimEnd().split("\n");
  const hits = lines.filter((line) => !line.startsWith("#")).length;
  const title = `trace: ${hits === 1 ? "1 line" : `${hits} lines`}`;
  const calls = element("ul", { class: "calls" }, ...answer.calls.map((call) => element("li", {}, call)));
  const part = folded("trace", title, open, block("trace", wrapped(answer.trace)));
  const inner = element("details", { "data-part": "calls" }, element("summary", {}, "Calls made"), calls);
  inner.open = open("calls");
  part.querySelector("details").append(inner);
  return part;
}

function folded(name, title, open, content) {
  const details = element("details", { "data-part": name }, element("summary", {}, title), content);
  details.open = open(name);
  return element("div", { class: "part" }, details);
}

// Scrolls carets into view that stand right of what a narrow screen shows.
export function showCarets(cards) {
  for (const caret of cards.querySelectorAll(".caret")) {
    const block = caret.closest("pre");
    const line = document.createRange();
    line.selectNodeContents(caret);
    const beyond = line.getBoundingClientRect().right - block.getBoundingClientRect().right;
    if (beyond > 0) block.scrollLeft = beyond + block.clientWidth / 3;
  }
}

// Text as the kernel has it; it scrolls by itself, so the keyboard has to get there.
function block(name, children) {
  return element("pre", { tabindex: "0", role: "region", "aria-label": name }, ...children);
}

// Long lines go on in the next; the heads of tables don't, as their columns would be lost.
function wrapped(text) {
  const kind = (line) => (line.startsWith("#") ? "comment" : line.startsWith("\t") ? "line deep" : "line");
  return text.split(/(?<=\n)/).map((line) => element("span", { class: kind(line) }, line));
}

// The kernel's own words for a refusal, with what is wrong and the caret made to stand out.
function refusal(text) {
  return text.trimEnd().split("\n").map((line) => {
    const ended = `${line}\n`;
    if (/^\s*\^\s*$/.test(line)) return element("span", { class: "caret" }, ended);
    return /error: /.test(line) ? element("span", { class: "wrong" }, ended) : ended;
  });
}
