"use strict";
// Queries of two systems: a list of which only the visible rows exist, and the passages of the chosen query.
// Texts of the collection only ever become text nodes.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const ROW = 36; // pixels, as in report.css
  const HIGH = 3; // ranks of the other system that make a passage without judgement a candidate
  const TOP = 10;
  const COMMON = new Set(
    ("a an and are as at be by can do for from has have how if in into is it its of on or that the their this to " +
      "was what when where which who why will with you your").split(" "));

  function node(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  // ---- what is chosen
  const state = {a: 0, b: 0, measure: data.measures[0], filter: "all", find: "", key: "difference", down: true, query: -1};
  const columns = [
    ["query", "query"], ["a", "A"], ["b", "B"], ["difference", "A − B"],
    ["rankA", "rank A"], ["rankB", "rank B"], ["candidates", "candidates"],
  ];
  let rows = [], shown = [];

  const judgements = data.judged.map((flat) => {
    const grades = new Map();
    for (let i = 0; i < flat.length; i += 2) grades.set(flat[i], flat[i + 1]);
    return grades;
  });
  const words = data.queries.map(([id, text]) => `${text}\n${id}`.toLowerCase());

  function hits(system, query) {
    const {hits: {[query]: flat}, shown} = data.systems[system], found = [];
    for (let i = 0; i < flat.length; i += 2) {
      const text = shown ? shown[query][i / 2] : flat[i]; // of a document, the passage that was found
      found.push({passage: flat[i], text, score: flat[i + 1], rank: i / 2 + 1});
    }
    return found;
  }

  // Passages without judgement that the other system ranks high, and both above every relevant one.
  function candidates(query, own, other) {
    const last = (system) => data.systems[system].first[query] || Infinity;
    const high = new Set(hits(other, query).filter((hit) => hit.rank <= HIGH && hit.rank < last(other)).map((hit) => hit.passage));
    return hits(own, query)
      .filter((hit) => hit.rank < last(own) && high.has(hit.passage) && !judgements[query].has(hit.passage))
      .map((hit) => hit.passage);
  }

  function judgedShare(system, query) {
    const top = hits(system, query);
    return top.filter((hit) => judgements[query].has(hit.passage)).length / TOP;
  }

  function mean(values) { return values.reduce((sum, value) => sum + value, 0) / (values.length || 1); }

  // ---- the list
  function compare() {
    const a = data.systems[state.a], b = data.systems[state.b];
    const ofA = a.values[state.measure] || [], ofB = b.values[state.measure] || [];
    rows = data.queries.map(([, text], query) => ({
      query, text, a: ofA[query] ?? 0, b: ofB[query] ?? 0,
      difference: (ofA[query] ?? 0) - (ofB[query] ?? 0),
      rankA: a.first[query] || Infinity, rankB: b.first[query] || Infinity,
      candidates: new Set([...candidates(query, state.a, state.b), ...candidates(query, state.b, state.a)]).size,
    }));
    const count = (test) => rows.filter(test).length;
    const filters = [
      ["all", `all ${rows.length}`], ["won", `A wins ${count((row) => row.difference > 0)}`],
      ["lost", `B wins ${count((row) => row.difference < 0)}`],
      ["tie", `equal ${count((row) => row.difference === 0)}`],
      ["failed", `both zero ${count((row) => row.a === 0 && row.b === 0)}`],
      ["candidates", `with candidates ${count((row) => row.candidates > 0)}`],
    ];
    at("filters").replaceChildren(...filters.map(([name, label]) => {
      const button = node("button", {type: "button", "data-filter": name, "aria-pressed": String(state.filter === name)}, label);
      button.onclick = () => { state.filter = name; compare(); };
      return button;
    }));
    const seeds = (system) => (system.seeds.includes(",") ? ` (of seeds ${system.seeds})` : "");
    const judged = (system) => mean(rows.map((row) => judgedShare(system, row.query))).toFixed(3);
    at("pair").textContent =
      `A: ${a.name}${seeds(a)}, ${state.measure} ${mean(rows.map((row) => row.a)).toFixed(4)}, judged@${TOP} ${judged(state.a)}. ` +
      `B: ${b.name}${seeds(b)}, ${state.measure} ${mean(rows.map((row) => row.b)).toFixed(4)}, judged@${TOP} ${judged(state.b)}. ` +
      `Candidates for false negatives: passages without judgement that both rank above all relevant ones, one of them at ${HIGH} or better.`;
    narrow();
  }

  const TESTS = {
    all: () => true, won: (row) => row.difference > 0, lost: (row) => row.difference < 0,
    tie: (row) => row.difference === 0, failed: (row) => row.a === 0 && row.b === 0,
    candidates: (row) => row.candidates > 0,
  };

  function narrow() {
    const wanted = state.find.toLowerCase().split(/\s+/).filter(Boolean);
    shown = rows.filter((row) => TESTS[state.filter](row) && wanted.every((word) => words[row.query].includes(word)));
    const sign = state.down ? -1 : 1, key = state.key;
    const texts = new Intl.Collator();
    const order = key === "query"
      ? (one, other) => texts.compare(one.text, other.text)
      : (one, other) => (one[key] === other[key] ? 0 : one[key] < other[key] ? -1 : 1);
    shown.sort((one, other) => sign * order(one, other) || one.query - other.query);
    at("list-head").replaceChildren(...columns.map(([name, label]) => {
      const sorted = state.key === name;
      const button = node("button", {
        type: "button", "data-sort": name, "aria-sort": sorted ? (state.down ? "descending" : "ascending") : null,
      }, sorted ? `${label} ${state.down ? "↓" : "↑"}` : label);
      button.onclick = () => {
        state.down = sorted ? !state.down : name !== "query";
        state.key = name;
        narrow();
      };
      return button;
    }));
    at("rows").style.height = `${Math.max(1, shown.length) * ROW}px`;
    at("list").scrollTop = 0;
    at("list").setAttribute("aria-rowcount", String(shown.length));
    if (!shown.some((row) => row.query === state.query)) state.query = shown.length ? shown[0].query : -1;
    draw();
    detail();
  }

  const rank = (value) => (value === Infinity ? "–" : String(value));

  function draw() {
    const list = at("list");
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 8);
    const made = [];
    for (let place = first; place < last; place++) {
      const row = shown[place];
      const sign = row.difference > 0 ? "won" : row.difference < 0 ? "lost" : "";
      const element = node("div", {
        class: "list-row", role: "row", "data-query": data.queries[row.query][0],
        "aria-selected": String(row.query === state.query),
      },
        node("span", {dir: "auto"}, row.text), node("span", {}, row.a.toFixed(3)), node("span", {}, row.b.toFixed(3)),
        node("span", {class: sign}, (row.difference > 0 ? "+" : "") + row.difference.toFixed(3)),
        node("span", {}, rank(row.rankA)), node("span", {}, rank(row.rankB)), node("span", {}, String(row.candidates)));
      element.style.top = `${place * ROW}px`;
      element.onclick = () => choose(row.query);
      made.push(element);
    }
    if (!shown.length) made.push(node("p", {class: "note"}, "No query is like that."));
    at("rows").replaceChildren(...made);
  }

  function choose(query) {
    state.query = query;
    draw();
    detail();
  }

  // ---- one query
  function marked(text, wanted) {
    const parts = [];
    let end = 0;
    for (const match of text.matchAll(/[\p{L}\p{N}]+/gu)) {
      if (!wanted.has(match[0].toLowerCase())) continue;
      parts.push(text.slice(end, match.index), node("mark", {}, match[0]));
      end = match.index + match[0].length;
    }
    parts.push(text.slice(end));
    return parts;
  }

  function side(letter, system, other, query, wanted) {
    const found = hits(system, query), grades = judgements[query];
    const high = new Set(candidates(query, system, other));
    const ranks = new Map(hits(other, query).map((hit) => [hit.passage, hit.rank]));
    const first = data.systems[system].first[query];
    const items = found.map((hit) => {
      const [id, title, text, isCut] = data.passages[hit.text];
      const grade = grades.get(hit.passage);
      const isRelevant = grade !== undefined && grade >= data.relevant_grade;
      const meta = node("div", {class: "meta"}, node("strong", {}, String(hit.rank)), node("span", {}, hit.score.toFixed(4)));
      if (isRelevant) meta.append(node("span", {class: "verdict good"}, `relevant, grade ${grade}`));
      else if (grade !== undefined) meta.append(node("span", {class: "verdict bad"}, `judged, grade ${grade}`));
      else if (high.has(hit.passage)) meta.append(node("span", {class: "verdict open"}, "not judged: candidate"));
      if (ranks.has(hit.passage)) meta.append(node("span", {}, `${letter === "A" ? "B" : "A"}: ${ranks.get(hit.passage)}`));
      meta.append(node("code", {}, id));
      const body = node("p", {dir: "auto"});
      if (title) body.append(node("strong", {}, ...marked(title, wanted)), " ");
      body.append(...marked(text, wanted));
      if (isCut) body.append(node("span", {class: "badge"}, "… cut"));
      return node("li", {class: isRelevant ? "relevant" : high.has(hit.passage) ? "candidate" : null}, meta, body);
    });
    const share = `judged@${TOP} ${judgedShare(system, query).toFixed(1)}`;
    const where = first ? `first relevant at rank ${first}`
      : grades.size ? "no relevant passage in its run" : "no passage is judged";
    return node("div", {},
      node("h4", {}, `${letter}: ${data.systems[system].label}`), node("p", {class: "note"}, `${where}, ${share}`),
      node("ol", {class: "hits"}, ...items));
  }

  function detail() {
    const query = state.query;
    if (query < 0) return at("detail").replaceChildren();
    const [id, text] = data.queries[query];
    const wanted = new Set((text.toLowerCase().match(/[\p{L}\p{N}]+/gu) || []).filter((word) => !COMMON.has(word)));
    const relevant = [...judgements[query]].filter(([, grade]) => grade >= data.relevant_grade).map(([passage]) => passage);
    const top = new Set([...hits(state.a, query), ...hits(state.b, query)].map((hit) => hit.passage));
    const unseen = relevant.filter((passage) => !top.has(passage)).map((passage) => {
      const [name, title, body, isCut] = data.passages[passage];
      return node("li", {class: "relevant"}, node("div", {class: "meta"}, node("code", {}, name)),
        node("p", {dir: "auto"}, ...marked(title ? `${title} ${body}` : body, wanted), isCut ? node("span", {class: "badge"}, "… cut") : ""));
    });
    const missed = unseen.length ? [node("h4", {}, "Relevant, but in neither top 10"), node("ol", {class: "hits"}, ...unseen)] : [];
    at("detail").replaceChildren(
      node("h3", {dir: "auto", id: "detail-query"}, text), node("p", {class: "note"}, node("code", {}, id)), ...missed,
      node("div", {class: "sides"}, side("A", state.a, state.b, query, wanted), side("B", state.b, state.a, query, wanted)));
    return undefined;
  }

  // ---- the beginning
  const labels = data.systems.map((system, index) => {
    const twins = data.systems.filter((other) => other.label === system.label).length > 1;
    return node("option", {value: index}, twins ? `${system.label} (${system.name})` : system.label);
  });
  const average = (index) => mean(data.systems[index].values[state.measure] || []);
  const order = data.systems.map((_, index) => index).sort((one, other) => average(other) - average(one));
  state.a = order[0];
  state.b = data.systems.length > 1 ? (state.a === 0 ? order[1] : 0) : 0; // the first row is the reference
  for (const [id, key] of [["system-a", "a"], ["system-b", "b"]]) {
    at(id).append(...labels.map((option) => option.cloneNode(true)));
    at(id).value = String(state[key]);
    at(id).onchange = () => { state[key] = Number(at(id).value); compare(); };
  }
  at("measure").append(...data.measures.map((name) => node("option", {value: name}, name)));
  at("measure").onchange = () => { state.measure = at("measure").value; compare(); };
  at("search").oninput = () => { state.find = at("search").value; narrow(); };
  let isWaiting = false;
  at("list").onscroll = () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => { isWaiting = false; draw(); });
  };
  at("list").onkeydown = (event) => {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (!step || !shown.length) return;
    event.preventDefault();
    const place = Math.max(0, Math.min(shown.length - 1, shown.findIndex((row) => row.query === state.query) + step));
    const top = place * ROW, list = at("list");
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + 2 * ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + 2 * ROW - list.clientHeight;
    choose(shown[place].query);
  };
  addEventListener("resize", draw);
  compare();
  const best = data.systems[state.a].values[state.measure] || [];
  const zero = best.filter((value) => value === 0).length;
  at("failures").prepend(node("strong", {}, `${zero} of ${best.length}`),
    ` queries have ${state.measure} 0 with ${data.systems[state.a].label}. `);
})();
