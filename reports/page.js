"use strict";
/* The sample viewer: a list that draws only the rows in sight. All data is in the page; nothing is fetched. */
(function () {
  const data = JSON.parse(document.getElementById("samples").textContent);
  const $ = id => document.getElementById(id);
  const ROW = 34, VERDICTS = ["right", "wrong", "unparsed", "refused", "truncated", "absent"];
  /* A sample: [id, task, question, gold, group, media index or -1, media name, [per run: output, confidence, entropy, verdict]] */
  const S = data.samples, list = $("list"), space = $("space"), heads = document.querySelector(".heads");
  let run = 0, shown = [], sort = {key: null, up: true}, current = -1;
  const answer = s => s[7][run];
  const value = {
    task: s => data.tasks[s[1]], question: s => s[2] || s[0], output: s => answer(s)[0], gold: s => s[3],
    verdict: s => answer(s)[3], confidence: s => answer(s)[1], entropy: s => answer(s)[2]
  };
  const number = v => v === null || v === undefined ? "" : v.toFixed(3).replace(/^0/, "");

  function wanted(s) {
    const a = answer(s), t = $("f-task").value, v = $("f-verdict").value, q = $("f-text").value.toLowerCase();
    const lo = parseFloat($("f-lo").value), hi = parseFloat($("f-hi").value);
    if (t !== "" && s[1] !== +t) return false;
    if (v === "kept" && !(a[1] !== null && a[1] >= data.threshold)) return false;
    if (v === "off" && !(a[1] !== null && a[1] < data.threshold)) return false;
    if (v === "kept-wrong" && !(a[1] !== null && a[1] >= data.threshold && a[3] !== 0)) return false;
    if (v === "differs" && !s[7].some(x => x[3] !== 5 && (x[3] === 0) !== (s[7][0][3] === 0))) return false;
    if (v === "wrong" && (a[3] === 0 || a[3] === 5)) return false;
    if (v !== "wrong" && VERDICTS.includes(v) && a[3] !== VERDICTS.indexOf(v)) return false;
    if (!isNaN(lo) && !(a[1] >= lo)) return false;
    if (!isNaN(hi) && !(a[1] <= hi)) return false;
    return q === "" || (s[0] + "\n" + s[2] + "\n" + s[3] + "\n" + (a[0] || "")).toLowerCase().includes(q);
  }

  function compare(i, j) {
    const f = value[sort.key], a = f(S[i]), b = f(S[j]);
    const none = x => x === null || x === undefined || x === "";
    if (none(a) || none(b)) return none(a) === none(b) ? i - j : none(a) ? 1 : -1;   /* what is missing comes last */
    const c = typeof a === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0;
    return (sort.up ? c : -c) || i - j;
  }

  function update() {
    shown = [];
    for (let i = 0; i < S.length; i++) if (wanted(S[i])) shown.push(i);
    if (sort.key) shown.sort(compare);
    space.style.height = shown.length * ROW + "px";
    list.setAttribute("aria-rowcount", shown.length);
    let wrong = 0;
    for (const i of shown) wrong += answer(S[i])[3] !== 0;
    $("count").textContent = shown.length + " of " + S.length + " samples" + (shown.length ? ", " + wrong + " wrong" : "");
    list.scrollTop = 0;
    draw();
  }

  function cell(cls, text, title) {
    const e = document.createElement("span");
    e.className = cls;
    e.textContent = text;
    e.setAttribute("role", "cell");
    if (title) e.title = title;
    return e;
  }

  function draw() {
    heads.style.paddingRight = 12 + list.offsetWidth - list.clientWidth + "px";    /* the scroll bar's width */
    const from = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const to = Math.min(shown.length, from + Math.ceil(list.clientHeight / ROW) + 10);
    const rows = document.createDocumentFragment();
    for (let k = from; k < to; k++) {
      const s = S[shown[k]], a = answer(s), e = document.createElement("div");
      e.className = "row" + (shown[k] === current ? " on" : "");
      e.style.top = k * ROW + "px";
      e.setAttribute("role", "row");
      e.setAttribute("aria-rowindex", k + 1);
      e.dataset.k = k;
      const flat = t => (t || "").replace(/\s+/g, " ");
      e.append(cell("c-task", data.tasks[s[1]]), cell("c-question", flat(s[2] || s[0]), s[0]),
        cell("c-output", flat(a[0])), cell("c-gold", flat(s[3])),
        cell("c-verdict v-" + VERDICTS[a[3]], VERDICTS[a[3]]), cell("c-confidence n", number(a[1])),
        cell("c-entropy n", number(a[2])));
      rows.append(e);
    }
    space.replaceChildren(rows);
  }

  function term(dl, name, text) {
    const t = document.createElement("dt"), d = document.createElement("dd");
    t.textContent = name;
    d.textContent = text;
    dl.append(t, d);
  }

  function show(k) {
    if (k < 0 || k >= shown.length) return;
    current = shown[k];
    const s = S[current], one = $("one");
    one.replaceChildren();
    const head = document.createElement("strong");
    head.textContent = data.tasks[s[1]] + " · " + s[0];
    one.append(head);
    if (s[5] >= 0) {
      const [type, bytes] = data.media[s[5]], sound = type.startsWith("audio/");
      const m = document.createElement(sound ? "audio" : "img");
      if (sound) m.controls = true; else m.alt = "picture of this sample";
      m.src = "data:" + type + ";base64," + bytes;
      one.append(document.createElement("br"), m);
    }
    const q = document.createElement("pre");
    q.textContent = s[2] || (s[6] ? "" : "(the question is not in the records)");
    one.append(q);
    const dl = document.createElement("dl");
    if (s[6] && s[5] < 0) term(dl, "media", s[6]);
    if (s[4]) term(dl, "group", s[4]);
    term(dl, "gold", s[3]);
    s[7].forEach((a, r) => {
      if (a[3] === 5) return;
      const side = a[1] === null ? "" : a[1] < data.threshold ? ", handed off" : ", kept";
      term(dl, data.runs[r], (a[0] === "" ? "(empty)" : a[0]) + "  —  " + VERDICTS[a[3]] + (a[1] === null ? "" :
        ", confidence " + a[1].toFixed(4)) + (a[2] === null ? "" : ", entropy " + a[2].toFixed(3)) + side);
    });
    one.append(dl);
    const top = k * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    draw();
  }

  document.querySelectorAll(".heads button").forEach(b => b.addEventListener("click", () => {
    const key = b.dataset.key;
    sort = {key, up: sort.key === key ? !sort.up : true};
    document.querySelectorAll(".heads button").forEach(x => {
      const on = x.dataset.key === key;
      x.setAttribute("aria-sort", on ? (sort.up ? "ascending" : "descending") : "none");
      x.textContent = x.dataset.label + (on ? (sort.up ? " ▲" : " ▼") : "");
    });
    update();
  }));
  let timer = 0;
  for (const id of ["f-task", "f-verdict", "f-text", "f-lo", "f-hi"])
    $(id).addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(update, id === "f-text" ? 120 : 0); });
  if ($("f-run")) $("f-run").addEventListener("input", () => { run = +$("f-run").value; update(); });
  list.addEventListener("scroll", draw, {passive: true});
  window.addEventListener("resize", draw);
  space.addEventListener("click", e => {
    const row = e.target.closest(".row");
    if (row) show(+row.dataset.k);
  });
  list.addEventListener("keydown", e => {
    const at = shown.indexOf(current), page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const step = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page}[e.key];
    if (step) show(Math.min(shown.length - 1, Math.max(0, at < 0 ? 0 : at + step)));
    else if (e.key === "Home") show(0);
    else if (e.key === "End") show(shown.length - 1);
    else return;
    e.preventDefault();
  });
  update();
})();
