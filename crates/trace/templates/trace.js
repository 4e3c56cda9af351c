'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const $ = (id) => document.getElementById(id);
  const chart = $('chart'), above = $('top'), rowsBox = $('rows'), canvas = $('view'), tip = $('tip'), detail = $('detail');
  const ROW = 22, BAR = 16, AXIS = 20, LEAST_NS = 1000;
  const [COLOUR, GROUP, PHRASE, WAITED] = [0, 1, 2, 3], [FROM, LENGTH, THREAD, CPU, KHZ, SHARES] = [0, 1, 2, 3, 4, 5];
  const view = { from: 0, to: Math.max(data.length, 1) }, whole = { ...view };
  let colours = {}, rows = [], selected = -1, hovered = -1, pointer = null, drag = null, query = '', group = -1, pending = false;

  // ---- words ----
  const duration = (ns) => ns < 1e3 ? `${ns.toFixed(0)} ns` : ns < 1e6 ? `${(ns / 1e3).toFixed(1)} µs` : ns < 1e8 ? `${(ns / 1e6).toFixed(2)} ms` : ns < 1e10 ? `${(ns / 1e6).toFixed(1)} ms` : `${(ns / 1e9).toFixed(2)} s`;
  const threadName = (thread) => `${data.threads[thread][0]} (${data.threads[thread][1]})`;

  function describe(step) {
    const lines = [`${threadName(step[THREAD])}, ${duration(step[LENGTH])} from ${duration(step[FROM])} on`];
    for (let index = 0; index < step[SHARES].length; index += 2) {
      const part = data.parts[step[SHARES][index]];
      const alone = step[SHARES].length === 2;
      lines.push(alone ? part[PHRASE] : `${duration(step[SHARES][index + 1])} ${part[PHRASE]}`);
      if (part[WAITED] && index + 2 >= step[SHARES].length) lines.push(part[WAITED]);
    }
    if (step[CPU] !== null) lines.push(`CPU ${step[CPU]}${step[KHZ] === null ? '' : ` at ${(step[KHZ] / 1000).toFixed(0)} MHz`}`);
    return lines.join('\n');
  }

  // ---- rows: the whole path, then its threads; the search and the chosen part leave out others ----
  const stepsOf = data.threads.map(() => []);
  data.steps.forEach((step) => stepsOf[step[THREAD]].push(step));

  const isPart = (part) => (group < 0 || part[GROUP] === group) && (!query || `${part[PHRASE]} ${part[WAITED] || ''}`.toLowerCase().includes(query));
  function arrange() {
    const shares = data.parts.map(isPart);
    const named = data.threads.map((thread, index) => query && threadName(index).toLowerCase().includes(query));
    const shown = (step, part) => group < 0 || data.parts[part][GROUP] === group ? named[step[THREAD]] || shares[part] : false;
    rows = [{ name: 'the whole path', steps: data.steps, shown, ns: 0 }];
    stepsOf.forEach((steps, thread) => rows.push({ name: threadName(thread), steps, shown, ns: 0 }));
    for (const row of rows) for (const step of row.steps) for (let index = 0; index < step[SHARES].length; index += 2)
      if (shown(step, step[SHARES][index])) row.ns += step[SHARES][index + 1];
    rows = rows.filter((row, index) => index === 0 || row.ns > 0);
    selected = Math.min(selected, rows.length - 1);
    $('count').textContent = query || group >= 0 ? `${duration(rows[0].ns)} of ${duration(data.length)} in ${rows.length - 1} of ${data.threads.length} threads`
      : `${data.steps.length} step${data.steps.length === 1 ? '' : 's'} in ${data.threads.length} thread${data.threads.length === 1 ? '' : 's'}`;
    $('height').style.height = `${rows.length * ROW + 16}px`;
    draw();
  }

  // ---- time ----
  const layout = () => {
    const width = chart.clientWidth, left = Math.min(230, Math.round(width * .3)), right = width < 600 ? 8 : 84;
    return { width, left, right: width - right, span: Math.max(width - right - left, 1) };
  };
  const place = (ns, at) => at.left + (ns - view.from) / (view.to - view.from) * at.span;
  const time = (x, at) => view.from + (x - at.left) / at.span * (view.to - view.from);

  function show(from, to) {
    const length = Math.min(Math.max(to - from, Math.min(LEAST_NS, whole.to)), whole.to);
    view.from = Math.min(Math.max((from + to) / 2 - length / 2, 0), whole.to - length);
    view.to = view.from + length;
    draw();
  }
  const zoom = (factor, around = (view.from + view.to) / 2) => show(around - (around - view.from) * factor, around + (view.to - around) * factor);
  const pan = (share) => { const by = (view.to - view.from) * share; show(view.from + by, view.to + by); };

  function ticks(at) {
    const wanted = (view.to - view.from) * 90 / at.span, power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((times) => times * power).find((step) => step >= wanted), marks = [];
    const unit = step >= 1e9 ? [1e9, 's'] : step >= 1e4 ? [1e6, 'ms'] : [1e3, 'µs'];
    const decimals = Math.max(0, -Math.floor(Math.log10(step / unit[0]) + 1e-9));
    for (let ns = Math.ceil(view.from / step) * step; ns <= view.to; ns += step) marks.push([place(ns, at), `${(ns / unit[0]).toFixed(decimals)} ${unit[1]}`]);
    return marks;
  }

  // ---- drawing ----
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ['ground', 'ink', 'muted', 'rule', 'edge', 'band', 'link', ...data.colours]) colours[name] = style.getPropertyValue(`--${name}`).trim();
  }

  function prepare(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1, size = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = '12px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif';
    return context;
  }

  function text(context, words, x, y, colour, align = 'left') {
    context.fillStyle = colour;
    context.textAlign = align;
    context.fillText(words, x, y);
  }

  function fit(context, words, room) {
    if (context.measureText(words).width <= room) return words;
    let length = words.length;
    while (length > 1 && context.measureText(`${words.slice(0, length)}…`).width > room) length--;
    return `${words.slice(0, length)}…`;
  }

  /** The first step that ends after a time. */
  function firstAfter(steps, ns) {
    let low = 0, high = steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle][FROM] + steps[middle][LENGTH] <= ns) low = middle + 1; else high = middle;
    }
    return low;
  }

  /** Each column of pixels is filled from below by what its time went into. */
  function drawBar(context, at, row, top) {
    const count = data.colours.length, width = Math.ceil(at.span), sums = new Float32Array(width * count), scale = at.span / (view.to - view.from);
    const add = (from, to, colour, share) => {
      const a = Math.max((from - view.from) * scale, 0), b = Math.min((to - view.from) * scale, width);
      for (let x = Math.floor(a); x < b && x < width; x++) sums[x * count + colour] += (Math.min(b, x + 1) - Math.max(a, x)) * share;
    };
    for (let index = firstAfter(row.steps, view.from); index < row.steps.length && row.steps[index][FROM] < view.to; index++) {
      const step = row.steps[index];
      for (let share = 0; share < step[SHARES].length; share += 2) {
        const part = step[SHARES][share];
        if (row.shown(step, part)) add(step[FROM], step[FROM] + step[LENGTH], data.parts[part][COLOUR], step[SHARES][share + 1] / step[LENGTH]);
      }
    }
    for (let x = 0; x < width; x++) {
      let base = top + BAR;
      for (let colour = 0; colour < count; colour++) {
        const height = sums[x * count + colour] * BAR;
        if (height < .02) continue;
        context.fillStyle = colours[data.colours[colour]];
        // Whatever happened is seen.
        const drawn = Math.max(Math.min(height, base - top), 1);
        context.fillRect(at.left + x, base - drawn, 1, drawn);
        base -= height;
      }
    }
  }

  function marks(context, at, height) {
    if (drag && drag.moved) {
      const [a, b] = [drag.from, drag.to].sort((one, other) => one - other);
      context.fillStyle = colours.link;
      context.globalAlpha = .2;
      context.fillRect(a, 0, b - a, height);
      context.globalAlpha = 1;
    } else if (pointer && pointer.x >= at.left && pointer.x <= at.right) {
      context.fillStyle = colours.muted;
      context.fillRect(Math.round(pointer.x), 0, 1, height);
    }
  }

  function drawTop() {
    const at = layout(), context = prepare(above, at.width, AXIS);
    for (const [x, words] of ticks(at)) if (x + context.measureText(words).width / 2 <= at.width) text(context, words, x, 13, colours.muted, 'center');
    marks(context, at, AXIS);
  }

  function drawRows() {
    const at = layout(), box = rowsBox.getBoundingClientRect();
    const from = Math.max(0, -box.top), height = Math.min(window.innerHeight + ROW, Math.max(box.height - from, ROW));
    canvas.style.top = `${from}px`;
    const context = prepare(canvas, at.width, height), first = Math.floor(from / ROW), last = Math.min(rows.length, Math.ceil((from + height) / ROW));
    for (let index = first; index < last; index++) {
      const row = rows[index], y = index * ROW - from, top = y + (ROW - BAR) / 2;
      context.fillStyle = colours.band;
      context.fillRect(at.left, top, at.span, BAR);
      if (index === selected || index === hovered) {
        context.fillStyle = index === selected ? colours.link : colours.muted;
        context.globalAlpha = .14;
        context.fillRect(0, y, at.width, ROW);
        context.globalAlpha = 1;
      }
      drawBar(context, at, row, top);
      text(context, fit(context, row.name, at.left - 10), 0, y + 15, index ? colours.ink : colours.muted);
      if (at.width >= 600) text(context, duration(row.ns), at.right + 8, y + 15, colours.muted);
    }
    context.fillStyle = colours.rule;
    context.globalAlpha = .6;
    for (const [x] of ticks(at)) context.fillRect(Math.round(x), 0, 1, height);
    context.globalAlpha = 1;
    if (rows.length === 1 && query) text(context, 'Nothing of the path has this name.', at.left, ROW + 14, colours.muted);
    marks(context, at, height);
  }

  function draw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      Object.assign(chart.dataset, { from: Math.round(view.from), to: Math.round(view.to), rows: rows.length });
      drawTop();
      drawRows();
    });
  }

  // ---- pointer ----
  const rowAt = (event) => {
    const box = rowsBox.getBoundingClientRect(), index = Math.floor((event.clientY - box.top) / ROW);
    return event.clientY >= above.getBoundingClientRect().bottom && index >= 0 && index < rows.length ? index : -1;
  };
  function stepAt(row, now) {
    const step = row && row.steps[firstAfter(row.steps, now)];
    if (!step || step[FROM] > now) return null;
    for (let index = 0; index < step[SHARES].length; index += 2) if (row.shown(step, step[SHARES][index])) return step;
    return null;
  }

  function hover(event) {
    const at = layout();
    pointer = { x: event.clientX - chart.getBoundingClientRect().left };
    hovered = rowAt(event);
    const inside = pointer.x >= at.left && pointer.x <= at.right, now = time(pointer.x, at);
    const step = inside ? stepAt(rows[hovered], now) : null;
    const words = step ? describe(step) : inside ? `at ${duration(now)}` : hovered >= 0 ? `${rows[hovered].name}\n${duration(rows[hovered].ns)} on the path` : '';
    tip.hidden = !words || Boolean(drag && drag.moved);
    tip.textContent = words;
    if (!tip.hidden) {
      const size = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - size.width - 8))}px`;
      tip.style.top = `${event.clientY + 18 + size.height > window.innerHeight ? event.clientY - size.height - 10 : event.clientY + 18}px`;
    }
    draw();
  }

  chart.addEventListener('pointermove', (event) => {
    if (drag) {
      drag.to = event.clientX - chart.getBoundingClientRect().left;
      drag.moved = drag.moved || Math.abs(drag.to - drag.from) > 4;
    }
    hover(event);
  });
  chart.addEventListener('pointerleave', () => { pointer = null; hovered = -1; tip.hidden = true; draw(); });
  chart.addEventListener('pointerdown', (event) => {
    const x = event.clientX - chart.getBoundingClientRect().left;
    if (event.button !== 0 || x < layout().left) return;
    drag = { from: x, to: x, moved: false };
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener('pointerup', () => {
    if (drag && drag.moved) {
      const at = layout(), [a, b] = [drag.from, drag.to].sort((one, other) => one - other);
      show(time(Math.max(a, at.left), at), time(Math.min(b, at.right), at));
    }
    drag = null;
    draw();
  });
  chart.addEventListener('pointercancel', () => { drag = null; draw(); });
  chart.addEventListener('dblclick', () => show(whole.from, whole.to));
  chart.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const at = layout();
    zoom(event.deltaY < 0 ? .7 : 1 / .7, time(event.clientX - chart.getBoundingClientRect().left, at));
  }, { passive: false });

  // ---- keys and controls ----
  function choose(index) {
    selected = Math.min(Math.max(index, 0), rows.length - 1);
    const top = rowsBox.getBoundingClientRect().top + selected * ROW;
    if (top < AXIS + ROW || top > window.innerHeight - 3 * ROW) window.scrollBy(0, top - window.innerHeight / 2);
    detail.textContent = `${rows[selected].name}: ${duration(rows[selected].ns)} on the path`;
    draw();
  }
  const keys = {
    ArrowLeft: () => pan(-.2), ArrowRight: () => pan(.2), ArrowUp: () => choose(selected - 1), ArrowDown: () => choose(selected + 1),
    '+': () => zoom(.6), '=': () => zoom(.6), '-': () => zoom(1 / .6), 0: () => show(whole.from, whole.to), '/': () => $('search').focus(),
  };
  chart.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  $('in').addEventListener('click', () => zoom(.6));
  $('out').addEventListener('click', () => zoom(1 / .6));
  $('all').addEventListener('click', () => show(whole.from, whole.to));
  $('search').addEventListener('input', (event) => { query = event.target.value.trim().toLowerCase(); arrange(); });
  const shows = [...document.querySelectorAll('.show')];
  for (const button of shows) button.addEventListener('click', () => {
    const wanted = Number(button.dataset.group);
    group = group === wanted ? -1 : wanted;
    shows.forEach((other) => other.setAttribute('aria-pressed', String(Number(other.dataset.group) === group)));
    arrange();
  });
  addEventListener('scroll', draw, { passive: true });
  addEventListener('resize', draw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); draw(); });
  readColours();
  arrange();
})();
