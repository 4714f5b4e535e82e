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
  const sentence = answer.ok ? "This browser cannot play the format of the video." : `No video: ${(await answer.json()).message}`;
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
  else if (isDone === false) document.getElementById("message").insertAdjacentHTML("beforeend", ' <a href="">Continue</a>');
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
// Wrong words: one click marks or takes back a word, a drag or Shift and arrows mark several.
const words = [...document.querySelectorAll(".words [role=option]")];
let firstWord = null;
const listRange = end => {
  const [from, to] = [words.indexOf(firstWord ?? end), words.indexOf(end)].sort((a, b) => a - b);
  return words.slice(from, to + 1);
};
const showRange = end => {
  words.forEach(word => { word.classList.toggle("chosen", Boolean(end) && listRange(end).includes(word)); });
};
const focusWord = word => {
  words.forEach(each => { each.tabIndex = each === word ? 0 : -1; });
  word.focus();
};
const changeMark = async (address, canUndo = true) => {
  if (!await post(address, canUndo).catch(() => false)) return;
  const {searchParams} = new URL(address, location.href), isMarked = !searchParams.has("remove");
  const [from, to] = ["from", "to"].map(name => Number(searchParams.get(name)));
  for (const word of words.filter(each => each.dataset.from >= from && each.dataset.to <= to)) {
    word.ariaSelected = String(isMarked);
    word.dataset.span = isMarked ? `${from}-${to}` : "";
  }
};
const markUpTo = end => {
  const range = listRange(end), marked = range.length === 1 && end.dataset.span;
  const [from, to] = marked ? marked.split("-") : [range[0].dataset.from, range.at(-1).dataset.to];
  firstWord = null;
  showRange(null);
  changeMark(`${document.querySelector(".words").dataset.mark}&from=${from}&to=${to}${marked ? "&remove=1" : ""}`);
};
const wordAt = event => event.target.closest?.(".words [role=option]");
addEventListener("mousedown", event => {
  const word = event.button === 0 && wordAt(event);
  if (!word) return;
  event.preventDefault();  // no text is selected
  firstWord = word;
  focusWord(word);
  showRange(word);
});
addEventListener("mousemove", event => { if (event.buttons && firstWord && wordAt(event)) showRange(wordAt(event)); });
addEventListener("mouseup", event => {
  if (event.button !== 0 || !firstWord) return;
  if (wordAt(event) && event.detail < 2) return markUpTo(wordAt(event));
  firstWord = null;
  showRange(null);
});
addEventListener("keydown", event => {
  if (!words.length || event.ctrlKey || event.metaKey || event.altKey) return;
  const now = words.indexOf(document.activeElement), isRtl = now >= 0 && getComputedStyle(words[now].parentNode).direction === "rtl";
  const steps = {ArrowRight: isRtl ? -1 : 1, ArrowLeft: isRtl ? 1 : -1};
  if (event.key === "w") return focusWord(words.find(each => each.tabIndex === 0));
  if (now < 0) return;
  if (event.key in steps) {
    event.preventDefault();
    firstWord = event.shiftKey ? firstWord ?? words[now] : null;
    focusWord(words[Math.max(0, Math.min(words.length - 1, now + steps[event.key]))]);
    showRange(event.shiftKey ? document.activeElement : null);
  } else if (event.key === " " || event.key === "Enter") {
    event.preventDefault();
    markUpTo(words[now]);
  }
});
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
  else if (event.key === "u" && undos.length) changeMark(undos.pop(), false);
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
    // The bar sticks to the lower edge, so the field is in sight already.
    bar.elements.text.focus({preventScroll: true});
  } else if (event.key === "u") undoLast();
  else if (event.key === "Escape") clear();
});
const by = document.querySelector(".remark [name=by]");
if (by) by.value = localStorage.getItem("by") ?? "";
showChosen();

// The map: points on a canvas. A rectangle that is drawn, or typed as limits, is an area of samples.
const ORDERED = ["#fdb863", "#f28e2b", "#d95f4c", "#b5377a", "#7a2a8f", "#4b2f9e", "#22225f"];
const VARIED = ["#0b5a8a", "#d9661f", "#2a9d5c", "#b0307a", "#8a6d00", "#6a51b8", "#4d4d4d", "#7db4d8"];
const NOTHING = "#9aa3ac", UNKEPT = "#d5dbe1";
const colourOf = (points, place) => {
  const {label} = points.legend[place], {length} = points.legend.filter(each => each.label !== "no value");
  if (label === "no value") return NOTHING;
  return points.isOrdered ? ORDERED[length < 2 ? 3 : Math.round(place * 6 / (length - 1))] : VARIED[place];
};
const showLegend = points => document.getElementById("legend").replaceChildren(...points.legend.map(({label, n}, place) => {
  const item = document.createElement("li"), swatch = document.createElement("i");
  swatch.style.background = colourOf(points, place);
  item.append(swatch, `${label} (${n.toLocaleString("en")})`);
  return item;
}));
const rangeOf = values => {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  const margin = (high - low || 1) * 0.03;
  return [low - margin, high + margin];
};
const showMap = async map => {
  const note = document.getElementById("map-note"), answer = await fetch(map.dataset.points), points = await answer.json();
  note.textContent = answer.ok ? points.note : points.message;
  if (!answer.ok) return;
  showLegend(points);
  const canvas = map.querySelector("canvas"), box = map.querySelector(".area"), {ids, x, y, classes} = points;
  const [left, right] = rangeOf(x), [bottom, top] = rangeOf(y);
  const limits = document.getElementById("limits"), names = ["left", "right", "bottom", "top"];
  const acrossOf = value => (value - left) / (right - left), downOf = value => (top - value) / (top - bottom);
  names.forEach((name, place) => { limits.elements[name].placeholder = [left, right, bottom, top][place].toFixed(2); });
  // Pixels are set by hand: a hundred thousand rectangles would take ten times as long.
  const draw = () => {
    const ratio = devicePixelRatio, width = canvas.width = canvas.clientWidth * ratio | 0, height = canvas.height = canvas.clientHeight * ratio | 0;
    if (!width || !height) return;
    const image = canvas.getContext("2d").createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
    const size = Math.max(2, Math.round((ids.length > 20000 ? 2 : ids.length > 2000 ? 3 : 6) * ratio));
    const inks = [UNKEPT, ...points.legend.map((_, place) => colourOf(points, place))].map(hex => (255 << 24 | parseInt(hex.slice(5), 16) << 16 | parseInt(hex.slice(3, 5), 16) << 8 | parseInt(hex.slice(1, 3), 16)) >>> 0);
    const drawPoint = i => {
      const column = Math.round(acrossOf(x[i]) * width - size / 2), ink = inks[(classes[i] ?? -1) + 1];
      const row = Math.round(downOf(y[i]) * height - size / 2);
      for (let down = Math.max(0, row); down < Math.min(height, row + size); down += 1) {
        for (let across = Math.max(0, column); across < Math.min(width, column + size); across += 1) pixels[down * width + across] = ink;
      }
    };
    for (let i = 0; i < ids.length; i += 1) if (classes[i] === null) drawPoint(i);
    for (let i = 0; i < ids.length; i += 1) if (classes[i] !== null) drawPoint(i);
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  new ResizeObserver(draw).observe(canvas);
  const showArea = () => {
    const typed = names.map(name => limits.elements[name].value), isChosen = typed.some(Boolean);
    const [a, b, c, d] = typed.map((text, place) => text ? Number(text) : [left, right, bottom, top][place]);
    let n = 0;
    for (let i = 0; i < ids.length; i += 1) if (classes[i] !== null && x[i] >= a && x[i] <= b && y[i] >= c && y[i] <= d) n += 1;
    document.getElementById("inside").value = !isChosen ? "No area is chosen." : n === 1 ? "1 sample in the area" : `${n.toLocaleString("en")} samples in the area`;
    const area = JSON.stringify([map.dataset.vectors, points.stamp, a, b, c, d]), link = document.getElementById("show-area");
    link.href = `${map.dataset.at}${map.dataset.query}&area=${encodeURIComponent(area)}`;
    document.getElementById("tag-area").elements.area.value = area;
    for (const part of [link, document.getElementById("tag-area")]) part.hidden = !isChosen || !n;
    box.hidden = !isChosen;
    const percent = (low, high) => [low, high].map(share => Math.min(1, Math.max(0, share)) * 100);
    const [from, to] = percent(acrossOf(a), acrossOf(b)), [above, below] = percent(downOf(d), downOf(c));
    Object.assign(box.style, {left: `${from}%`, width: `${Math.max(0, to - from)}%`, top: `${above}%`, height: `${Math.max(0, below - above)}%`});
  };
  showArea();
  limits.addEventListener("input", showArea);
  limits.addEventListener("reset", () => setTimeout(showArea));
  limits.addEventListener("submit", event => event.preventDefault());
  const placeOf = event => {
    const {x: west, y: north, width, height} = canvas.getBoundingClientRect();
    return [left + (event.clientX - west) / width * (right - left), top - (event.clientY - north) / height * (top - bottom)];
  };
  // A click without a drag opens the nearest point, if one is so near that it is meant.
  const open = event => {
    const [across, up] = placeOf(event), {width, height} = canvas.getBoundingClientRect();
    let nearest = -1, least = 100;
    for (let i = 0; i < ids.length; i += 1) {
      const far = ((x[i] - across) / (right - left) * width) ** 2 + ((y[i] - up) / (top - bottom) * height) ** 2;
      if (classes[i] !== null && far < least) [nearest, least] = [i, far];
    }
    if (nearest >= 0) location.href = `${map.dataset.at}/sample/${ids[nearest]}${map.dataset.query}`;
  };
  let from = null, isDrag = false;
  canvas.addEventListener("pointerdown", event => {
    if (event.button) return;
    from = event;
    isDrag = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (!from) return;
    isDrag ||= Math.hypot(event.clientX - from.clientX, event.clientY - from.clientY) > 4;
    if (!isDrag) return;
    const [start, end] = [placeOf(from), placeOf(event)];
    [0, 0, 1, 1].forEach((axis, place) => {
      limits.elements[names[place]].value = Math[place % 2 ? "max" : "min"](start[axis], end[axis]).toFixed(4);
    });
    showArea();
  });
  canvas.addEventListener("pointerup", event => { if (from && !isDrag) open(event); from = null; });
  canvas.addEventListener("pointercancel", () => { from = null; });
};
const map = document.querySelector(".map");
if (map) showMap(map).catch(() => { document.getElementById("map-note").textContent = "The server does not answer: start it, and open this page again."; });
