'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const $ = (id) => document.getElementById(id);
  const chart = $('chart'), panels = $('panels'), tree = $('tree'), canvas = $('rows'), tip = $('tip'), detail = $('detail');
  const ROW = 18, BAR = 13, CPU_HEIGHT = 72, CORE = 13, DISK_HEIGHT = 40, PRESSURE_HEIGHT = 24, CORES_SHOWN = 16, DISKS_SHOWN = 3;
  const STATES = ['running', 'sleeping', 'waiting for a disk', 'stopped', 'dead'];
  const [PID, PARENT, NAME, KIND, START, END, CPU_MS, WAIT_MS, COMMAND, BEGIN, STRETCHES] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  const view = { from: data.start, to: Math.max(data.end, data.start + 1) };
  const whole = { ...view };
  let colours = {}, rows = [], selected = -1, hovered = -1, pointer = null, drag = null, query = '', pending = false;

  // ---- words ----
  const seconds = (ms) => ms < 9995 ? `${(ms / 1000).toFixed(2)} s` : ms < 120000 ? `${(ms / 1000).toFixed(1)} s`
    : `${Math.floor(ms / 60000)} min ${String(Math.floor(ms / 1000) % 60).padStart(2, '0')} s`;
  const label = (process) => process[NAME].startsWith('/') ? process[NAME].replace(/\/+$/, '').split('/').pop() || process[NAME] : process[NAME];
  const sum = (members, field) => members.reduce((total, member) => total + data.processes[member][field], 0);

  function describe(row) {
    const first = data.processes[row.members[0]];
    if (row.kind === 0) {
      const number = first[PID] ? ` (PID ${first[PID]})` : '';
      return `${first[COMMAND] || first[NAME]}${number}\n${seconds(first[START])} to ${seconds(first[END])}, CPU ${seconds(first[CPU_MS])}, waiting for a disk ${seconds(first[WAIT_MS])}`;
    }
    return `${rowName(row)}\nCPU ${seconds(sum(row.members, CPU_MS))}, waiting for a disk ${seconds(sum(row.members, WAIT_MS))} together; ${row.open ? 'click folds' : 'click unfolds'}`;
  }

  function rowName(row) {
    const first = data.processes[row.members[0]];
    if (row.kind === 0) return label(first);
    if (row.kind === 1) return `${label(first)} × ${row.members.length}`;
    return `${row.members.length} ${['others', 'kernel threads', 'initcalls'][first[KIND]]}`;
  }

  // ---- rows: the fold of the recording, what was opened and closed since, and the search ----
  const base = data.rows.map(([depth, kind, members]) => ({ depth, kind, members, open: false, closed: false }));
  base.forEach((row, index) => { row.parent = row.kind === 0 && index + 1 < base.length && base[index + 1].depth > row.depth; });

  function arrange() {
    if (query) {
      const words = query.toLowerCase();
      const hit = (process) => `${process[NAME]} ${process[COMMAND] || ''} ${process[PID]}`.toLowerCase().includes(words);
      rows = data.processes.map((process, index) => index).filter((index) => hit(data.processes[index]))
        .map((member) => ({ depth: 0, kind: 0, members: [member] }));
      $('count').textContent = `${rows.length} of ${data.processes.length} processes`;
    } else {
      rows = [];
      let closedAt = Infinity;
      for (const row of base) {
        if (row.depth > closedAt) continue;
        closedAt = row.closed ? row.depth : Infinity;
        rows.push(row);
        if (row.open) for (const member of row.members) rows.push({ depth: row.depth + 1, kind: 0, members: [member] });
      }
      $('count').textContent = `${rows.length} rows for ${data.processes.length} processes and threads`;
    }
    selected = Math.min(selected, rows.length - 1);
    $('height').style.height = `${rows.length * ROW + 24}px`;
    draw();
  }

  function toggle(index) {
    const row = rows[index];
    if (!row || query) return;
    if (row.kind !== 0) row.open = !row.open;
    else if (row.parent) row.closed = !row.closed;
    else return;
    arrange();
  }

  // ---- time ----
  const layout = () => {
    const width = chart.clientWidth;
    const left = Math.min(250, Math.round(width * (width < 600 ? 0.38 : 0.3))), right = width < 600 ? 8 : 66;
    return { width, left, right: width - right, span: Math.max(width - right - left, 1) };
  };
  const place = (ms, at) => at.left + (ms - view.from) / (view.to - view.from) * at.span;
  const time = (x, at) => view.from + (x - at.left) / at.span * (view.to - view.from);

  function show(from, to) {
    const least = Math.min(50, whole.to - whole.from);
    let length = Math.min(Math.max(to - from, least), whole.to - whole.from);
    from = Math.min(Math.max((from + to) / 2 - length / 2, whole.from), whole.to - length);
    view.from = from;
    view.to = from + length;
    draw();
  }
  const zoom = (factor, around = (view.from + view.to) / 2) =>
    show(around - (around - view.from) * factor, around + (view.to - around) * factor);
  const pan = (share) => { const by = (view.to - view.from) * share; show(view.from + by, view.to + by); };

  function ticks(at) {
    const wanted = (view.to - view.from) * 80 / at.span;
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5, 36e5].find((step) => step >= wanted) || 36e5 * 24;
    const marks = [];
    for (let ms = Math.ceil(view.from / step) * step; ms <= view.to; ms += step) {
      const text = view.to > 12e4 && step >= 1000 ? `${Math.floor(ms / 6e4)}:${String(Math.floor(ms / 1e3) % 60).padStart(2, '0')}`
        : `${(ms / 1e3).toFixed(step >= 1e3 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3)} s`;
      marks.push([place(ms, at), text]);
    }
    return marks;
  }

  // ---- drawing ----
  function readColours() {
    const style = getComputedStyle(document.body);
    for (const name of ['ground', 'ink', 'muted', 'rule', 'life', 'life-edge', 'user', 'system', 'wait', 'disk', 'rate', 'speed', 'run1', 'run2', 'run3', 'run4', 'blocked', 'stopped', 'zombie', 'call', 'one', 'several', 'every', 'reads', 'partly', 'idle', 'link'])
      colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
  const PHASES = { 'one-cpu': 'one', 'several-cpus': 'several', 'every-cpu': 'every', 'disk-phase': 'reads', 'partly-busy': 'partly', waiting: 'idle', 'idle-phase': 'life' };

  function prepare(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1;
    const size = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = '12px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif';
    return context;
  }

  /** Averages values of intervals into columns of one pixel. */
  function columns(at, each) {
    const sums = new Float32Array(Math.ceil(at.span)), scale = at.span / (view.to - view.from), last = sums.length - 1;
    each((from, to, value) => {
      if (to <= view.from || from >= view.to || !value) return;
      const a = Math.max((from - view.from) * scale, 0), b = Math.min((to - view.from) * scale, sums.length);
      const first = Math.min(Math.floor(a), last), end = Math.min(Math.floor(b), last);
      if (first === end) { sums[first] += value * (b - a); return; }
      sums[first] += value * (first + 1 - a);
      for (let column = first + 1; column < end; column++) sums[column] += value;
      sums[end] += value * (b - end);
    });
    return sums;
  }

  function area(context, at, base, height, low, high, colour) {
    context.fillStyle = colour;
    for (let x = 0; x < high.length; x++) {
      const bottom = low ? low[x] : 0;
      if (high[x] > bottom) context.fillRect(at.left + x, base - Math.min(high[x], 1) * height, 1, (Math.min(high[x], 1) - Math.min(bottom, 1)) * height);
    }
  }

  function line(context, at, base, height, values, colour) {
    context.strokeStyle = colour;
    context.lineWidth = 1.3;
    context.beginPath();
    let down = false;
    values.forEach((value, x) => {
      if (value === null) { down = false; return; }
      const y = base - Math.min(value, 1) * height;
      if (down) context.lineTo(at.left + x, y); else context.moveTo(at.left + x, y);
      context.lineTo(at.left + x + 1, y);
      down = true;
    });
    context.stroke();
  }

  function text(context, words, x, y, colour, align = 'left') {
    context.fillStyle = colour;
    context.textAlign = align;
    context.fillText(words, x, y);
  }

  function fit(context, words, room) {
    if (context.measureText(words).width <= room) return words;
    let low = 0, high = words.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (context.measureText(`…${words.slice(middle)}`).width <= room) high = middle; else low = middle + 1;
    }
    return `…${words.slice(low)}`;
  }

  const cores = data.cores.length > 1 || data.cores.some((core) => core[4].length) ? data.cores.slice(0, CORES_SHOWN) : [];
  const pressures = data.pressures.filter(([, samples]) => samples.some((sample) => sample[2] >= 10));
  const disks = [...data.disks].sort((a, b) => b[1].reduce((s, x) => s + x[2], 0) - a[1].reduce((s, x) => s + x[2], 0)).slice(0, DISKS_SHOWN);

  function panelHeight() {
    return 22 + (data.phases.length ? 18 : 0) + (data.cpu.length ? CPU_HEIGHT + 8 : 0) + (cores.length ? cores.length * (CORE + 1) + 8 : 0) + disks.length * (DISK_HEIGHT + 6) + pressures.length * (PRESSURE_HEIGHT + 6) + 4;
  }

  function drawPanels() {
    const at = layout(), height = panelHeight(), context = prepare(panels, at.width, height);
    let y = 18;
    for (const [x, words] of ticks(at)) {
      if (x + context.measureText(words).width / 2 <= at.width) text(context, words, x, 12, colours.muted, 'center');
      context.fillStyle = colours.rule;
      context.fillRect(Math.round(x), y, 1, height - y);
    }
    if (data.phases.length) {
      text(context, 'limit', at.left - 6, y + 11, colours.muted, 'right');
      for (const [limit, , from, to] of data.phases) {
        const a = Math.max(place(from, at), at.left), b = Math.min(place(to, at), at.right);
        context.fillStyle = colours[PHASES[limit]];
        if (b > a) context.fillRect(a, y, Math.max(b - a - 1, 1), 13);
      }
      y += 18;
    }
    if (data.cpu.length) {
      const layers = [2, 3, 4].map((last) => columns(at, (add) => data.cpu.forEach((sample) => {
        let value = 0;
        for (let field = 2; field <= last; field++) value += sample[field];
        add(sample[0], sample[1], value / 1000);
      })));
      ['user', 'system', 'wait'].forEach((name, index) => area(context, at, y + CPU_HEIGHT, CPU_HEIGHT, layers[index - 1], layers[index], colours[name]));
      text(context, 'CPU 100 %', at.left - 6, y + 10, colours.muted, 'right');
      context.fillStyle = colours['life-edge'];
      context.fillRect(at.left, y + CPU_HEIGHT, at.span, 1);
      y += CPU_HEIGHT + 8;
    }
    if (cores.length) {
      for (const [number, busy, wait, maximum, frequency] of cores) {
        const of = (values) => columns(at, (add) => values.forEach((value, index) => { if (busy[index] !== 255) add(data.cpu[index][0], data.cpu[index][1], value / 100); }));
        const worked = of(busy), waited = of(wait), online = of(busy.map(() => 100));
        for (let x = 0; x < worked.length; x++) {
          const colour = online[x] < .05 ? null : worked[x] < .1 && waited[x] >= .3 ? 'wait' : worked[x] < .05 ? 'life' : worked[x] < .3 ? 'run1' : worked[x] < .6 ? 'run2' : worked[x] < .85 ? 'run3' : 'run4';
          if (colour) { context.fillStyle = colours[colour]; context.fillRect(at.left + x, y, 1, CORE); }
        }
        text(context, `cpu${number}`, at.left - 6, y + 10, colours.muted, 'right');
        if (maximum && frequency.length) {
          let next = 0;
          const speeds = Array.from(worked, (_, x) => {
            const now = time(at.left + x, at);
            while (next < frequency.length && frequency[next][0] <= now) next++;
            return next ? frequency[next - 1][1] / maximum : null;
          });
          line(context, at, y + CORE - 1, CORE - 2, speeds, colours.speed);
          if (at.width >= 600) text(context, `${(maximum / 1e6).toFixed(2)} GHz`, at.right + 6, y + 10, colours.muted);
        }
        y += CORE + 1;
      }
      y += 7;
    }
    for (const [name, samples] of disks) {
      context.globalAlpha = .55;
      area(context, at, y + DISK_HEIGHT, DISK_HEIGHT, null, columns(at, (add) => samples.forEach(([from, to, busy]) => add(from, to, busy / 1000))), colours.disk);
      context.globalAlpha = 1;
      const rate = columns(at, (add) => samples.forEach(([from, to, , read, written]) => add(from, to, (read + written) / (to - from) * 1000 / 1024)));
      const peak = Math.max(...rate, 0);
      if (peak > 0) {
        line(context, at, y + DISK_HEIGHT, DISK_HEIGHT - 1, Array.from(rate, (value) => value / peak), colours.rate);
        if (at.width >= 600) text(context, `${peak.toFixed(peak < 10 ? 1 : 0)} MiB/s`, at.right + 6, y + 10, colours.muted);
      }
      text(context, fit(context, name, at.left - 12), at.left - 6, y + 10, colours.muted, 'right');
      context.fillStyle = colours['life-edge'];
      context.fillRect(at.left, y + DISK_HEIGHT, at.span, 1);
      y += DISK_HEIGHT + 6;
    }
    for (const [name, samples] of pressures) {
      area(context, at, y + PRESSURE_HEIGHT, PRESSURE_HEIGHT, null, columns(at, (add) => samples.forEach(([from, to, some]) => add(from, to, some / 1000))), colours.wait);
      line(context, at, y + PRESSURE_HEIGHT, PRESSURE_HEIGHT - 1, Array.from(columns(at, (add) => samples.forEach(([from, to, , full]) => add(from, to, full / 1000)))), colours.rate);
      text(context, `waits for ${name}`, at.left - 6, y + 10, colours.muted, 'right');
      context.fillStyle = colours['life-edge'];
      context.fillRect(at.left, y + PRESSURE_HEIGHT, at.span, 1);
      y += PRESSURE_HEIGHT + 6;
    }
    marks(context, at, height);
  }

  function marks(context, at, height) {
    if (data.done < data.end - (data.end - data.start) / 50) {
      const x = Math.round(place(data.done, at));
      context.fillStyle = colours.ink;
      if (x >= at.left && x <= at.right) for (let y = 18; y < height; y += 5) context.fillRect(x, y, 1, 2);
    }
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

  function drawBar(context, at, row, y) {
    const add = { cpu: null, blocked: null, zombie: null, stopped: null };
    const top = y + (ROW - BAR) / 2;
    context.fillStyle = colours.life;
    for (const member of row.members) {
      const process = data.processes[member];
      const a = Math.max(place(process[START], at), at.left), b = Math.min(place(process[END], at), at.right);
      if (b >= at.left && a <= at.right) context.fillRect(a, top, Math.max(b - a, 1), BAR);
    }
    const each = (wanted) => columns(at, (put) => {
      for (const member of row.members) {
        const process = data.processes[member], stretches = process[STRETCHES];
        if (process[START] > view.to || process[END] < view.from) continue;
        let now = process[BEGIN];
        for (let index = 0; index < stretches.length; index += 3) {
          const from = now + stretches[index], to = from + stretches[index + 1], what = stretches[index + 2];
          now = to;
          if (from >= view.to) break;
          if (to > view.from) put(from, to, wanted(what >> 3, what & 7, process[KIND]));
        }
      }
    });
    add.call = data.processes[row.members[0]][KIND] === 2 ? each(() => 1) : null;
    add.cpu = each((cpu) => cpu / 1000);
    add.blocked = each((_, state, kind) => state === 2 && kind !== 2 ? 1 : 0);
    add.zombie = each((_, state) => state === 4 ? 1 : 0);
    add.stopped = each((_, state) => state === 3 ? 1 : 0);
    for (let x = 0; x < add.cpu.length; x++) {
      const cpu = add.cpu[x], blocked = add.blocked[x];
      const colour = add.call && add.call[x] > .02 ? 'call' : blocked > .3 && cpu < .5 ? 'blocked' : cpu >= .75 ? 'run4' : cpu >= .4 ? 'run3' : cpu >= .15 ? 'run2' : cpu >= .02 ? 'run1'
        : blocked > .05 ? 'blocked' : add.zombie[x] > .3 ? 'zombie' : add.stopped[x] > .3 ? 'stopped' : null;
      if (colour) { context.fillStyle = colours[colour]; context.fillRect(at.left + x, top, 1, BAR); }
    }
  }

  function drawRows() {
    const at = layout(), box = tree.getBoundingClientRect();
    const from = Math.max(0, -box.top), height = Math.min(window.innerHeight + ROW, Math.max(box.height - from, ROW));
    canvas.style.top = `${from}px`;
    const context = prepare(canvas, at.width, height);
    context.fillStyle = colours.rule;
    for (const [x] of ticks(at)) context.fillRect(Math.round(x), 0, 1, height);
    const first = Math.floor(from / ROW), last = Math.min(rows.length, Math.ceil((from + height) / ROW));
    for (let index = first; index < last; index++) {
      const row = rows[index], y = index * ROW - from;
      if (index === selected || index === hovered) {
        context.fillStyle = index === selected ? colours.link : colours.muted;
        context.globalAlpha = .14;
        context.fillRect(0, y, at.width, ROW);
        context.globalAlpha = 1;
      }
      drawBar(context, at, row, y);
      const process = data.processes[row.members[0]], x = 14 + Math.min(row.depth, 9) * 10;
      const sign = query ? '' : row.kind !== 0 ? (row.open ? '▾' : '▸') : row.parent ? (row.closed ? '▸' : '▾') : '';
      if (sign) text(context, sign, x - 12, y + 13, colours.muted);
      const count = row.kind === 1 ? ` × ${row.members.length}` : '', name = row.kind === 1 ? label(process) : rowName(row);
      text(context, fit(context, name, at.left - x - 8 - context.measureText(count).width) + count, x, y + 13, row.kind === 2 || process[KIND] ? colours.muted : colours.ink);
      const cpu = sum(row.members, CPU_MS);
      if (cpu && at.width >= 600) text(context, seconds(cpu), at.right + 6, y + 13, colours.muted);
    }
    if (!rows.length) text(context, query ? 'No process has this name, command or PID.' : 'The recording holds no process.', at.left, 14, colours.muted);
    marks(context, at, height);
  }

  function draw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      Object.assign(chart.dataset, { from: Math.round(view.from), to: Math.round(view.to), rows: rows.length });
      drawPanels();
      drawRows();
    });
  }

  // ---- pointer ----
  const rowAt = (event) => {
    const box = tree.getBoundingClientRect(), panel = panels.getBoundingClientRect();
    if (event.clientY < panel.bottom || event.clientY > box.bottom) return -1;
    const index = Math.floor((event.clientY - box.top) / ROW);
    return index < rows.length ? index : -1;
  };

  function hover(event) {
    const at = layout(), box = chart.getBoundingClientRect();
    pointer = { x: event.clientX - box.left };
    hovered = rowAt(event);
    const inside = pointer.x >= at.left && pointer.x <= at.right, now = time(pointer.x, at), lines = [];
    if (inside) lines.push(`at ${seconds(now)}`);
    if (hovered >= 0) {
      lines.push(describe(rows[hovered]));
      if (inside && rows[hovered].kind === 0) lines.push(doing(data.processes[rows[hovered].members[0]], now));
    } else if (inside) {
      const sample = data.cpu.find(([from, to]) => from <= now && now < to);
      if (sample) lines.push(`user ${sample[2] / 10} %, system ${sample[3] / 10} %, waiting for a disk ${sample[4] / 10} %`);
      const phase = data.phases.find(([, , from, to]) => from <= now && now < to);
      if (phase) lines.push(`limit: ${phase[1]}, ${seconds(phase[2])} to ${seconds(phase[3])}`);
      for (const [name, samples] of disks) {
        const sample = samples.find(([from, to]) => from <= now && now < to);
        if (sample) lines.push(`${name}: busy ${sample[2] / 10} %, ${((sample[3] + sample[4]) / (sample[1] - sample[0]) * 1000 / 1024).toFixed(1)} MiB/s`);
      }
      for (const [name, samples] of pressures) {
        const sample = samples.find(([from, to]) => from <= now && now < to);
        if (sample) lines.push(`waits for ${name}: some task ${sample[2] / 10} %, every task ${sample[3] / 10} %`);
      }
    }
    tip.hidden = !lines.length || Boolean(drag && drag.moved);
    tip.textContent = lines.filter(Boolean).join('\n');
    if (!tip.hidden) {
      const size = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - size.width - 8))}px`;
      tip.style.top = `${event.clientY + 18 + size.height > window.innerHeight ? event.clientY - size.height - 10 : event.clientY + 18}px`;
    }
    draw();
  }

  function doing(process, now) {
    if (now < process[START] || now > process[END]) return '';
    let at = process[BEGIN];
    for (let index = 0; index < process[STRETCHES].length; index += 3) {
      const from = at + process[STRETCHES][index], to = from + process[STRETCHES][index + 1], what = process[STRETCHES][index + 2];
      if (from <= now && now < to) return `${STATES[what & 7]}, CPU ${((what >> 3) / 10).toFixed(0)} %`;
      at = to;
    }
    return 'sleeping';
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
    if (event.button !== 0) return;
    const x = event.clientX - chart.getBoundingClientRect().left;
    drag = { from: x, to: x, moved: false, row: rowAt(event) };
    if (event.pointerType === 'mouse') chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener('pointerup', (event) => {
    if (!drag) return;
    const at = layout(), { from, to, moved, row } = drag;
    drag = null;
    if (moved) {
      const [a, b] = [time(Math.max(Math.min(from, to), at.left), at), time(Math.min(Math.max(from, to), at.right), at)];
      if (b > a) show(a, b);
    } else if (row >= 0) {
      selected = row;
      say();
      toggle(row);
    }
    hover(event);
  });
  chart.addEventListener('pointercancel', () => { drag = null; draw(); });
  chart.addEventListener('dblclick', (event) => { if (rowAt(event) < 0) show(whole.from, whole.to); });
  chart.addEventListener('wheel', (event) => {
    const at = layout(), x = event.clientX - chart.getBoundingClientRect().left;
    if (event.ctrlKey || event.altKey) { event.preventDefault(); zoom(Math.exp(event.deltaY / 300), time(x, at)); }
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); pan(event.deltaX / at.span); }
  }, { passive: false });

  // ---- keyboard ----
  function say() {
    const row = rows[selected];
    if (row) detail.textContent = describe(row).replace('\n', ': ');
  }
  function choose(index) {
    if (!rows.length) return;
    selected = Math.min(Math.max(index, 0), rows.length - 1);
    const top = tree.getBoundingClientRect().top + selected * ROW, panel = panels.getBoundingClientRect().bottom;
    if (top < panel) window.scrollBy(0, top - panel - ROW);
    else if (top + 3 * ROW > window.innerHeight) window.scrollBy(0, top + 4 * ROW - window.innerHeight);
    say();
    draw();
  }
  chart.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = {
      ArrowDown: () => choose(selected + 1), ArrowUp: () => choose(selected - 1), Home: () => choose(0), End: () => choose(rows.length - 1),
      PageDown: () => choose(selected + 15), PageUp: () => choose(selected - 15),
      ArrowLeft: () => pan(-.2), ArrowRight: () => pan(.2), '+': () => zoom(.5), '=': () => zoom(.5), '-': () => zoom(2), 0: () => show(whole.from, whole.to),
      Enter: () => toggle(selected), ' ': () => toggle(selected), '/': () => $('search').focus(),
    };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  $('search').addEventListener('input', (event) => { query = event.target.value.trim(); selected = -1; arrange(); });
  $('search').addEventListener('keydown', (event) => {
    if (event.key === 'Escape') { event.target.value = ''; query = ''; arrange(); }
    if (event.key === 'Enter') { chart.focus(); choose(0); }
  });
  $('in').addEventListener('click', () => zoom(.5));
  $('out').addEventListener('click', () => zoom(2));
  $('all').addEventListener('click', () => show(whole.from, whole.to));
  $('unfold').addEventListener('click', (event) => {
    const open = event.target.getAttribute('aria-pressed') !== 'true';
    event.target.setAttribute('aria-pressed', String(open));
    event.target.textContent = open ? 'Fold' : 'Unfold all';
    for (const row of base) { row.open = open && row.kind !== 0; row.closed = false; }
    arrange();
  });
  for (const button of document.querySelectorAll('.show')) button.addEventListener('click', () => {
    const from = Number(button.dataset.from), to = Number(button.dataset.to), room = (to - from) * .1;
    show(from - room, to + room);
    chart.scrollIntoView({ block: 'start' });
    chart.focus({ preventScroll: true });
  });
  window.addEventListener('scroll', draw, { passive: true });
  window.addEventListener('resize', draw);
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); draw(); });
  window.addEventListener('beforeprint', () => { readColours(); drawPanels(); drawRows(); });

  readColours();
  arrange();
})();
