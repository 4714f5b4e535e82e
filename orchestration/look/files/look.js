"use strict";
// The behaviour of pages: histograms that load by themselves and take a range, videos in their cards, completion.

const go = (at, condition) => { location.href = `${at}&only=${encodeURIComponent(condition)}`; };

// Histograms and pictures come after the page, those in sight first. A browser opens six connections to a server: so
// few are asked for at once that a click need not wait for them.
const histogram = async part => {
  const answer = await fetch(part.dataset.load);
  if (answer.ok) part.innerHTML = await answer.text();
  else part.querySelector("p").textContent = (await answer.json()).message;
};
const picture = image => new Promise(done => {
  image.onload = image.onerror = done;
  image.src = image.dataset.src;
});
const MOST = 3, waiting = [];
let running = 0;
const next = () => {
  while (running < MOST && waiting.length) {
    const part = waiting.shift();
    sight.unobserve(part);
    running += 1;
    (part.dataset.load ? histogram : picture)(part).catch(() => {}).finally(() => { running -= 1; next(); });
  }
};
const sight = new IntersectionObserver(entries => {
  for (const {isIntersecting, target} of entries) {
    if (isIntersecting) waiting.push(target);
    else if (waiting.includes(target)) waiting.splice(waiting.indexOf(target), 1);
  }
  next();
});
document.querySelectorAll("[data-load], img[data-src]").forEach(part => sight.observe(part));
if (matchMedia("(max-width: 860px)").matches) document.querySelector(".side, .guidelines")?.removeAttribute("open");

// A range of bars: from the bar where the pointer goes down to the bar where it goes up.
const barAt = event => document.elementFromPoint(event.clientX, event.clientY)?.closest(".bars g");
let start = null;
const barsUpTo = end => {
  const bars = [...start.parentNode.children];
  const [from, to] = [bars.indexOf(start), bars.indexOf(end)].sort((a, b) => a - b);
  return bars.slice(from, to + 1);
};
addEventListener("pointerdown", event => { start = barAt(event) ?? null; });
addEventListener("pointermove", event => {
  const end = start && barAt(event);
  if (!end || end.parentNode !== start.parentNode) return;
  const chosen = barsUpTo(end);
  for (const bar of start.parentNode.children) bar.classList.toggle("chosen", chosen.includes(bar));
});
addEventListener("pointerup", event => {
  const end = start && barAt(event);
  if (end && end.parentNode === start.parentNode) {
    const chosen = barsUpTo(end), {at, column} = start.parentNode.dataset;
    go(at, `${column} >= ${chosen[0].dataset.low} and ${column} < ${chosen.at(-1).dataset.high}`);
  }
  start = null;
});
addEventListener("submit", event => {
  if (!event.target.matches(".range")) return;
  event.preventDefault();
  const {at, column} = event.target.dataset, {low, high} = event.target.elements;
  const parts = [low.value && `${column} >= ${low.value}`, high.value && `${column} < ${high.value}`].filter(Boolean);
  if (parts.length) go(at, parts.join(" and "));
});

// Names of columns complete the last word of a condition.
const where = document.getElementById("where");
where?.addEventListener("input", () => {
  const [, before, word] = where.value.match(/^(.*?)(\w*)$/s);
  const names = word ? where.dataset.names.split("\n").filter(name => name.startsWith(word.toLowerCase())) : [];
  where.list.replaceChildren(...names.slice(0, 20).map(name => new Option(name, before + name)));
});
document.querySelectorAll(".ask select").forEach(each => each.addEventListener("change", () => each.form.requestSubmit()));

// A card plays in its place; if it cannot, the sentence of the server is shown there.
const showSentence = (film, sentence) => {
  film.className = "film nothing";
  film.textContent = sentence;
};
const play = film => {
  const ariaLabel = film.querySelector("img").alt.replace("Frames of v", "V");
  const video = Object.assign(document.createElement("video"), {ariaLabel, controls: true, muted: true, loop: true});
  video.dataset.frames = film.querySelector("img").src;
  video.src = film.dataset.video;
  film.replaceChildren(video);
  video.focus();
  video.play().catch(() => {});
};
addEventListener("click", event => {
  const film = event.target.closest(".film button")?.parentNode;
  if (film) play(film);
  const seek = event.target.closest(".seek"), video = document.querySelector("video");
  if (seek && video) Object.assign(video, {currentTime: Number(seek.dataset.at)}).scrollIntoView({block: "nearest"});
});
addEventListener("error", async event => {
  const media = event.target;
  if (!(media instanceof HTMLImageElement || media instanceof HTMLVideoElement)) return;
  const answer = await fetch(media.src, {headers: {Range: "bytes=0-0"}});
  const sentence = answer.ok ? "This browser cannot play the format of the video." : `No picture: ${(await answer.json()).message}`;
  if (!media.isConnected) return;  // its card was made again
  const film = media.closest(".film") ?? document.createElement("p");
  if (!film.isConnected) media.replaceWith(film);
  showSentence(film, sentence);
  if (answer.ok) film.classList.add("short");
  if (answer.ok && media.dataset.frames) film.before(Object.assign(new Image(), {src: media.dataset.frames, alt: "Frames"}));
}, true);

// j and k go from card to card, and with the arrows from sample to sample; Escape leads back to where one came from.
const WALK = {j: "next", ArrowRight: "next", k: "prev", ArrowLeft: "prev"};
const isTyping = event => event.target.matches("input:not([type=checkbox]), select, textarea, video, .table");
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  if (event.key === "Escape") document.querySelector("a.back[aria-keyshortcuts]")?.click();
  document.querySelector(`.top [rel=${WALK[event.key]}]`)?.click();
  if (!["j", "k"].includes(event.key)) return;
  const cards = [...document.querySelectorAll(".card .open")];
  const now = cards.findIndex(each => each.closest(".card").contains(document.activeElement));
  cards[Math.min(cards.length - 1, Math.max(0, now + (event.key === "j" ? 1 : -1)))]?.focus();
});

// A change is sent as JSON, which no other site can make a browser send.
const undos = [];
const post = async (address, canUndo = true) => {
  const answer = await fetch(address, {method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"});
  const {message, undo} = await answer.json();
  document.getElementById("message").textContent = message;
  if (undo && canUndo) undos.push(undo);
  return answer.ok;
};
addEventListener("click", async event => {
  const button = event.target.closest("[data-post]");
  if (!button) return;
  button.disabled = true;
  button.disabled = await post(button.dataset.post);
});

// Rating: an answer is stored before the next caption comes, and a second one waits for it.
const rate = document.querySelector(".rate");
let isSending = false;
const send = async address => {
  if (isSending) return;
  isSending = true;
  const isDone = await post(address).catch(() => {
    document.getElementById("message").textContent = "Nothing was stored: the server does not answer. Start it and answer again.";
    return null;
  });
  isSending = false;
  if (isDone) location.reload();
  else if (isDone === false) document.getElementById("message").insertAdjacentHTML("beforeend", ' <a href="">Go on</a>');
};
const choose = choice => send(`${rate.dataset.answer}&answer=${choice}`);
addEventListener("click", event => {
  const {choice, undo} = event.target.dataset;
  if (choice) choose(choice);
  if (undo) send(undo);
});
const points = document.querySelector(".points");
points?.addEventListener("input", () => { points.querySelector("output").value = points.elements.points.value; });
points?.addEventListener("submit", event => {
  event.preventDefault();
  choose(points.elements.points.value);
});
// While people answer, the browser loads the video of the next caption: the page to which Skip leads shows it.
const ahead = document.createElement("video");
const loadAhead = async address => {
  const answer = await fetch(address), page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = page.querySelector("video")?.getAttribute("src");
  if (next) Object.assign(ahead, {preload: "auto", muted: true, src: next});
};
addEventListener("load", () => { if (rate) loadAhead(document.getElementById("skip").href).catch(() => {}); });
// The content of a fold is computed when it is opened.
const unfold = async fold => {
  const part = fold.querySelector("div"), answer = await fetch(fold.dataset.fold).catch(() => null);
  if (answer?.ok) part.innerHTML = await answer.text();
  else part.textContent = answer ? (await answer.json()).message : "The server does not answer: start it, and open this again.";
};
document.querySelectorAll("[data-fold]").forEach(fold => {
  fold.addEventListener("toggle", () => { if (fold.open) unfold(fold); });
  if (fold.open) unfold(fold);
});
addEventListener("keydown", event => {
  if (!rate || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const button = [...rate.querySelectorAll("[data-choice]")].find(each => each.dataset.choice[0] === event.key);
  if (button) choose(button.dataset.choice);
  else if (event.key === "s") document.getElementById("skip").click();
  else if (event.key === "u") document.getElementById("undo").click();
  else if (event.key === "Enter" && points && event.target === document.body) points.requestSubmit();
});

// Tags, notes and saved views: a change is stored, then the parts of the page that show it are made again.
const bar = document.getElementById("bar");
const listChosen = () => [...document.querySelectorAll(".choose:checked")];
const showChosen = () => {
  const undo = document.querySelector(".remark #undo"), n = listChosen().length;
  if (undo) undo.hidden = !undos.length;
  if (!bar) return;
  document.getElementById("chosen").textContent = `${n} chosen`;
  bar.hidden = !n && !document.getElementById("message").textContent;
};
const change = async (address, canUndo) => {
  const isDone = await post(address, canUndo).catch(() => {
    document.getElementById("message").textContent = "Nothing was stored: the server does not answer. Start it and try again.";
    return false;
  });
  const answer = isDone && bar && await fetch(location.href);
  const page = answer?.ok && new DOMParser().parseFromString(await answer.text(), "text/html");
  const ids = listChosen().map(box => box.value), held = document.activeElement.closest(".card")?.querySelector(".choose").value;
  // Without the last sample of a tag, a view by this tag has no page any more: the old one stays.
  if (page) {
    document.querySelectorAll("[data-live]").forEach(part => part.replaceWith(page.getElementById(part.id)));
    document.querySelectorAll(".choose").forEach(box => { box.checked = ids.includes(box.value); });
  }
  if (bar) document.querySelectorAll("[data-load], img[data-src]:not([src])").forEach(part => sight.observe(part));
  else await Promise.all([...document.querySelectorAll("[data-load]")].map(histogram));
  showChosen();
  const lost = document.activeElement === document.body;
  if (lost) document.querySelector(held ? `.choose[value="${held}"]` : ".remark #undo:not([hidden])")?.focus();
  return isDone;
};
const undoLast = () => undos.length && change(undos.pop(), false);
const clear = () => {
  listChosen().forEach(box => { box.checked = false; });
  document.getElementById("message").textContent = "";
  showChosen();
};
// Shift chooses all cards from the last one that was chosen or not.
let lastBox = null;
const chooseBox = (box, isRange) => {
  const boxes = [...document.querySelectorAll(".choose")];
  const places = [box, isRange && lastBox?.isConnected ? lastBox : box].map(each => boxes.indexOf(each)).sort((a, b) => a - b);
  boxes.slice(places[0], places[1] + 1).forEach(each => { each.checked = box.checked; });
  lastBox = box;
  showChosen();
};
addEventListener("click", event => {
  const {target} = event;
  if (target.matches(".choose")) chooseBox(target, event.shiftKey);
  if (target.dataset.change) change(target.dataset.change);
  if (target.matches(".remark #undo")) undoLast();
  if (target.id === "clear") clear();
  if (target.id !== "freeze") return;
  const quote = box => `'${box.dataset.key.replaceAll("'", "''")}'`;
  const kinds = Object.entries(Object.groupBy(listChosen(), box => box.dataset.kind));
  const conditions = kinds.map(([kind, boxes]) => `kind = '${kind}' and sample in (${boxes.map(quote).join(", ")})`);
  location.href = `${target.dataset.at}?${new URLSearchParams({where: conditions.map(each => `(${each})`).join(" or "), sort: ""})}`;
});
addEventListener("submit", async event => {
  const form = event.target;
  if (!form.matches(".remark, [data-save]")) return;
  event.preventDefault();
  const values = new URLSearchParams(new FormData(form));
  if (form.dataset.save) return change(`${form.dataset.save}&${values}`);
  if (values.get("by")) localStorage.setItem("by", values.get("by"));
  if (form === bar) listChosen().forEach(box => values.append("sample", box.value));
  const isDone = await change(`${form.getAttribute("action")}${event.submitter?.value === "remove" ? "/remove" : ""}?${values}`);
  if (isDone && form !== bar) form.elements.text.value = "";
});
addEventListener("keydown", event => {
  if (!bar || isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) {
    if (bar?.contains(event.target) && event.key === "Escape") document.querySelector(".choose:checked")?.focus();
    return;
  }
  const box = document.activeElement.closest(".card")?.querySelector(".choose");
  if (event.key.toLowerCase() === "x" && box) {
    box.checked = !box.checked;
    chooseBox(box, event.shiftKey);
  } else if (event.key === "t" && !bar.hidden) {
    event.preventDefault();
    bar.elements.text.focus();
  } else if (event.key === "u") undoLast();
  else if (event.key === "Escape") clear();
});
const by = document.querySelector(".remark [name=by]");
if (by) by.value = localStorage.getItem("by") ?? "";
showChosen();
