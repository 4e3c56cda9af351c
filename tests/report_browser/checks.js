// Each check returns its faults as sentences; an empty list is a pass.
(() => {
  const wrong = [];
  const name = (element) => `<${element.localName} class="${element.getAttribute('class') ?? ''}"> ${(element.textContent ?? '').trim().slice(0, 40)}`;
  const shown = (element) => element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) && element.getClientRects().length > 0;
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  const checks = {
    overflow() {
      const page = document.scrollingElement;
      if (page.scrollWidth > page.clientWidth) wrong.push(`the page is ${page.scrollWidth} wide in ${page.clientWidth}`);
      for (const element of all('main *').filter(shown)) {
        if (element.closest('.scroll') || element.closest('thead')) continue;
        if (element.getBoundingClientRect().right > page.clientWidth + 1) wrong.push(`extends beyond the edge: ${name(element)}`);
      }
    },

    wordsWhole() {
      const range = document.createRange();
      // On a narrow page the heads are only for screen readers.
      const seen = (cell) => shown(cell) && cell.closest('thead, tbody').clientWidth > 1;
      for (const cell of all('.comparison th, .comparison td').filter(seen)) {
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
          for (const word of texts.currentNode.data.matchAll(/\p{L}+/gu)) {
            range.setStart(texts.currentNode, word.index);
            range.setEnd(texts.currentNode, word.index + word[0].length);
            const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
            if (lines.size > 1) wrong.push(`${word[0]} is broken: ${name(cell)}`);
          }
        }
      }
    },

    plotText() {
      for (const plot of all('svg.plot').filter(shown)) {
        const view = plot.viewBox.baseVal;
        const boxes = all('text', plot).filter((text) => text.textContent).map((text) => [text, text.getBBox()]);
        boxes.forEach(([text, a], index) => {
          if (a.x < -1 || a.y < -1 || a.x + a.width > view.width + 1 || a.y + a.height > view.height + 1) {
            wrong.push(`outside its plot: ${name(text)} (${a.x}..${a.x + a.width} of ${view.width})`);
          }
          for (const [other, b] of boxes.slice(index + 1)) {
            const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
            const down = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
            // Boxes include the font's whole ascent and descent; these may overlap by two units where no glyphs do.
            if (across > 0.5 && down > 2) wrong.push(`texts overlap: ${name(text)} and ${name(other)}`);
          }
        });
      }
    },

    plotsSeen() {
      for (const figure of all('figure')) {
        const plots = all('svg.plot', figure).filter(shown);
        if (plots.length !== 1) wrong.push(`${plots.length} drawings of one figure are visible`);
        for (const plot of plots) {
          const box = plot.getBoundingClientRect();
          if (box.width < 200 || box.height < 40) wrong.push(`a plot of ${box.width} x ${box.height}`);
          const size = box.width / plot.viewBox.baseVal.width;
          if (size < 0.85 || size > 1.6) wrong.push(`a plot is scaled by ${size}`);
        }
      }
    },

    contrast() {
      const parse = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
      const luminance = ([r, g, b]) => {
        const part = (value) => { const s = value / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; };
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
      };
      const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
          const [r, g, b, alpha = 1] = parse(getComputedStyle(at).backgroundColor);
          if (alpha === 1) return [r, g, b];
        }
        return [255, 255, 255];
      };
      for (const element of all('body *').filter(shown)) {
        if (![...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())) continue;
        if (['title', 'desc', 'style'].includes(element.localName)) continue;
        const style = getComputedStyle(element);
        const colour = element instanceof SVGElement ? style.fill : style.color;
        const [light, dark] = [luminance(parse(colour)), luminance(ground(element))].sort((a, b) => b - a);
        const ratio = (light + 0.05) / (dark + 0.05);
        if (ratio < 4.5) wrong.push(`contrast ${ratio.toFixed(2)}: ${name(element)}`);
      }
    },

    structure() {
      const levels = all('h1, h2, h3, h4, h5, h6').map((heading) => Number(heading.localName[1]));
      if (levels.filter((level) => level === 1).length !== 1) wrong.push('not one h1');
      levels.forEach((level, index) => {
        if (index > 0 && level > levels[index - 1] + 1) wrong.push(`heading ${index} skips from ${levels[index - 1]} to ${level}`);
      });
      for (const landmark of ['header', 'nav', 'main', 'footer']) {
        if (all(landmark).length !== 1) wrong.push(`${all(landmark).length} of ${landmark}`);
      }
      const ids = all('[id]').map((element) => element.id);
      ids.filter((id, index) => ids.indexOf(id) !== index).forEach((id) => wrong.push(`id twice: ${id}`));
      for (const element of all('[aria-labelledby]')) {
        for (const id of element.getAttribute('aria-labelledby').split(' ')) {
          if (!document.getElementById(id)?.textContent) wrong.push(`no label ${id}`);
        }
      }
      for (const link of all('a[href]')) {
        const href = link.getAttribute('href');
        if (!href.startsWith('#') || !document.getElementById(href.slice(1))) wrong.push(`a link has no target: ${href}`);
      }
      all('th:not([scope])').forEach((head) => wrong.push(`no scope: ${name(head)}`));
      for (const plot of all('svg')) {
        const hidden = plot.getAttribute('aria-hidden') === 'true';
        if (!hidden && !(plot.querySelector('title')?.textContent && plot.querySelector('desc')?.textContent)) wrong.push('a plot without title and description');
      }
      if (all('script, link:not([href^="data:"]), iframe, object, embed, [src], [onclick]').length) wrong.push('something that could load or run');
      if (/\b(NaN|Infinity|inf)\b/.test(document.body.innerText)) wrong.push('NaN or infinity is printed');
    },
  };
  return (which) => { wrong.length = 0; which.forEach((check) => checks[check]()); return [...wrong].slice(0, 20); };
})()
