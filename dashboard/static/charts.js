/**
 * Charts as plain SVG: lines, ranges and histograms over a shared frame, and bars in HTML.
 *
 * Each has a text alternative: a summary on the drawing, and its values as a table on demand.
 */

import { el, scrollingTable, setAttribute, setShown, setText, syncList } from './dom.js';
import { clock, count, timeOfDay, utc } from './format.js';
import { inOneOfTheNextFrames } from './frames.js';

const NAMESPACE = 'http://www.w3.org/2000/svg';
const MARGIN = { top: 10, right: 10, bottom: 20, left: 44 };
const TIME_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];
const TABLE_ROWS = 120;
const MAX_TICKS = 20;
let clips = 0;

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Return round numbers that divide an interval into about `wanted` parts. */
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  return multiples(step, low, high + step / 1e6);
}

/** Return the multiples of a step, each by itself: huge numbers do not grow by a small step. */
function multiples(step, low, high) {
  const first = Math.ceil(low / step);
  const length = Math.min(MAX_TICKS, Math.floor(high / step) - first + 1);
  return Array.from({ length }, (_, index) => (first + index) * step);
}

function timeTicks(low, high, wanted) {
  const raw = (high - low) / 1000 / wanted;
  const step = 1000 * (TIME_STEPS_S.find((seconds) => seconds >= raw) ?? Math.ceil(raw));
  return { values: multiples(step, low, high), precision: step < 60_000 ? 'seconds' : 'minutes' };
}

/** Return a function from a domain to pixels. */
const scale = ([low, high], [from, to]) => (value) => (
  from + ((value - low) / (high - low || 1)) * (to - from));

/**
 * Create the frame of a chart: caption with legend, drawing, table.
 * `draw(canvas, width, height)` draws what was last given to `show`.
 */
function frame({ title, columns, height = 160, draw, move = null, leave }) {
  const legend = el('span', { class: 'legend' });
  const canvas = svg('svg',
    { role: 'img', height, class: 'plot', 'aria-label': title, hidden: '' });
  const empty = el('p', { class: 'empty' }, 'No data yet.');
  const { region, body } = scrollingTable(`${title}: values`, columns);
  const table = el('details', { class: 'values' }, el('summary', {}, 'Values as a table'), region);
  const figure = el('figure', { class: 'chart' },
    el('figcaption', {}, el('span', { class: 'chart-title' }, title), legend),
    canvas, empty, table);
  let width = 0;
  let rows = [];
  const fillTable = () => {
    if (!table.open) return;
    body.replaceChildren(...rows.slice(0, TABLE_ROWS).map((row) => el('tr', {},
      ...row.map((cell) => el('td', { class: 'number' }, cell)))));
  };
  const redraw = () => {
    if (width > 0 && rows.length > 0) draw(canvas, width, height);
  };
  table.addEventListener('toggle', fillTable);
  const follow = (handle) => (event) => {
    handle((event.offsetX - MARGIN.left) / (width - MARGIN.left - MARGIN.right));
    redraw();
  };
  if (move) {
    canvas.addEventListener('pointermove', follow(move));
    canvas.addEventListener('pointerleave', follow(leave));
  }
  new ResizeObserver(([entry]) => {
    width = Math.round(entry.contentRect.width);
    redraw();
  }).observe(figure);
  const show = (summary, newRows) => {
    rows = newRows;
    setAttribute(canvas, 'hidden', rows.length === 0);
    setShown(table, rows.length > 0);
    setShown(empty, rows.length === 0);
    setAttribute(canvas, 'aria-label', `${title}. ${summary}`);
    inOneOfTheNextFrames(redraw);
    fillTable();
  };
  return { figure, legend, show };
}

/** Empty the drawing and draw the axis of values. */
function startDrawing(canvas, width, y, values, format) {
  canvas.setAttribute('width', width);
  canvas.replaceChildren(...values.flatMap((value) => [
    svg('line', { class: 'grid', x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value),
      y2: y(value) }),
    svg('text', { class: 'tick', x: MARGIN.left - 6, y: y(value) + 4, 'text-anchor': 'end' },
      format(value)),
  ]));
}

function drawLabel(canvas, x, height, text) {
  canvas.append(svg('text', { class: 'tick', x, y: height - 5, 'text-anchor': 'middle' }, text));
}

/**
 * Return an SVG path through points; it breaks where time jumps by more than `gap`.
 *
 * Each part begins with a line of no length, so that a point alone is drawn as a dot.
 */
function pathOf(points, x, y, gap) {
  let previous = null;
  let path = '';
  for (const [at, value] of points) {
    const jumps = previous === null || at - previous > gap;
    path += `${jumps ? 'M' : 'L'}${x(at).toFixed(1)} ${y(value).toFixed(1)}${jumps ? 'h0' : ''}`;
    previous = at;
  }
  return path;
}

/** Return the point that is nearest in time, or null. */
const nearest = (points, at) => points.reduce((best, point) => (
  best === null || Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best), null);

function summary(points, format) {
  if (points.length === 0) return 'none';
  const values = points.map((point) => point[1]);
  return `latest ${format(values.at(-1))}, lowest ${format(Math.min(...values))}, `
    + `highest ${format(Math.max(...values))}`;
}

/**
 * Create a chart of values over time, one series per name.
 * `render({series, threshold})` takes the points `[ms, value]` of each series, sorted by time. The
 * legend shows the latest values, or those under the pointer.
 */
export function lineChart({ title, names, format, height, fromZero = true, gap = Infinity }) {
  const clipId = `above-${++clips}`;
  const values = names.map(() => el('strong'));
  const moment = el('span', { class: 'moment' });
  let series = [];
  let threshold = null;
  let span = [0, 0];
  let pointer = null;

  const draw = (canvas, width, height) => {
    const heights = series.flat().map((point) => point[1]);
    if (threshold !== null) heights.push(threshold);
    const [low, high] = [Math.min(...heights), Math.max(...heights)];
    const room = (high - low) * 0.08 || 1;
    const domain = fromZero ? [0, high * 1.08 || 1] : [low - room, high + room];
    const x = scale(span, [MARGIN.left, width - MARGIN.right]);
    const y = scale(domain, [height - MARGIN.bottom, MARGIN.top]);
    startDrawing(canvas, width, y, ticks(...domain, 3), (value) => format(value, true));
    const marks = timeTicks(...span, Math.max(3, Math.floor(width / 100)));
    for (const at of marks.values) {
      if (x(at) > MARGIN.left + 20 && x(at) < width - 30) {
        drawLabel(canvas, x(at), height, timeOfDay(at, marks.precision));
      }
    }
    series.forEach((points, index) => {
      canvas.append(svg('path', { class: `line series-${index}`, d: pathOf(points, x, y, gap) }));
    });
    if (threshold !== null) {
      const at = y(threshold);
      canvas.append(
        svg('clipPath', { id: clipId }, svg('rect', { width, height: Math.max(0, at + 0.5) })),
        svg('path', { class: 'line above', d: pathOf(series[0], x, y, gap),
          'clip-path': `url(#${clipId})` }),
        svg('line', { class: 'threshold', x1: MARGIN.left, x2: width - MARGIN.right, y1: at,
          y2: at }),
        svg('text', { class: 'threshold-label', x: MARGIN.left + 4, y: at - 4 },
          `threshold ${format(threshold)}`));
    }
    if (pointer === null) return;
    const at = nearest(series[0], pointer)[0];
    canvas.append(svg('line', { class: 'pointer', x1: x(at), x2: x(at), y1: MARGIN.top,
      y2: height - MARGIN.bottom }));
    series.forEach((points, index) => {
      const point = nearest(points, at);
      if (point) {
        canvas.append(svg('circle', { class: `dot series-${index}`, cx: x(point[0]),
          cy: y(point[1]), r: 4 }));
      }
    });
  };

  const point = (at) => {
    pointer = series[0]?.length > 0 ? at : null;
    const shown = pointer === null ? null : nearest(series[0], pointer)[0];
    series.forEach((points, index) => {
      const chosen = shown === null ? points.at(-1) : nearest(points, shown);
      setText(values[index], chosen ? format(chosen[1]) : '–');
    });
    setText(moment, shown === null ? '' : clock(shown));
  };

  const base = frame({ title, columns: ['Time', ...names], height, draw,
    leave: () => point(null),
    move: (share) => point(span[0] + share * (span[1] - span[0])) });
  names.forEach((name, index) => base.legend.append(
    el('span', { class: `key series-${index}` }, `${name} `, values[index])));
  base.legend.append(moment);
  return {
    figure: base.figure,
    render({ series: newSeries, threshold: newThreshold = null }) {
      series = newSeries;
      threshold = newThreshold;
      const times = series.flat().map((sample) => sample[0]);
      span = [Math.min(...times), Math.max(...times)];
      const parts = series.map((points, index) => `${names[index]}: ${summary(points, format)}`);
      if (threshold !== null) parts.push(`threshold ${format(threshold)}`);
      base.show(`${parts.join('. ')}.`, series[0].map(([at], index) => [utc(at),
        ...series.map((points) => format(points[index]?.[1]))]).reverse());
      point(pointer);
    },
  };
}

/** Create a chart of intervals with a mark each: `render([{label, low, mark, high, cells}])`. */
export function rangeChart({ title, columns, format, height }) {
  let bars = [];
  const draw = (canvas, width, height) => {
    const low = Math.min(...bars.map((bar) => bar.low));
    const high = Math.max(...bars.map((bar) => bar.high));
    const room = (high - low) * 0.1 || 1;
    const y = scale([low - room, high + room], [height - MARGIN.bottom, MARGIN.top]);
    const slot = (width - MARGIN.left - MARGIN.right) / bars.length;
    const thickness = Math.max(2, Math.min(28, slot * 0.6));
    startDrawing(canvas, width, y, ticks(low - room, high + room, 3), format);
    const every = Math.ceil(64 / slot);
    bars.forEach((bar, index) => {
      const middle = MARGIN.left + slot * (index + 0.5);
      canvas.append(
        svg('rect', { class: 'range', x: middle - thickness / 2, y: y(bar.high), width: thickness,
          height: Math.max(2, y(bar.low) - y(bar.high)), rx: 2 }),
        svg('line', { class: 'mark-line', x1: middle - thickness / 2 - 2,
          x2: middle + thickness / 2 + 2, y1: y(bar.mark), y2: y(bar.mark) }));
      if ((bars.length - 1 - index) % every === 0) drawLabel(canvas, middle, height, bar.label);
    });
  };
  const base = frame({ title, columns, height, draw });
  return {
    figure: base.figure,
    render(newBars) {
      bars = newBars;
      const last = bars.at(-1);
      base.show(last ? `${bars.length} windows; the newest from ${format(last.low)} to `
        + `${format(last.high)}, average ${format(last.mark)}.` : 'No data yet.',
      bars.map((bar) => bar.cells).reverse());
    },
  };
}

/** Create a histogram: `render([{label, value}])`. */
export function histogram({ title, columns, height }) {
  let bars = [];
  const draw = (canvas, width, height) => {
    const high = Math.max(1, ...bars.map((bar) => bar.value));
    const y = scale([0, high * 1.1], [height - MARGIN.bottom, MARGIN.top]);
    const slot = (width - MARGIN.left - MARGIN.right) / bars.length;
    const every = Math.ceil(46 / slot);
    startDrawing(canvas, width, y, ticks(0, high, 3).filter(Number.isInteger), count);
    bars.forEach((bar, index) => {
      const left = MARGIN.left + slot * index;
      canvas.append(svg('rect', { class: 'bar', x: left + slot * 0.1, y: y(bar.value),
        width: slot * 0.8, height: y(0) - y(bar.value), rx: 1 }));
      if (index % every === 0) drawLabel(canvas, left + slot / 2, height, bar.label);
    });
  };
  const base = frame({ title, columns, height, draw });
  return {
    figure: base.figure,
    render(newBars) {
      bars = newBars.some((bar) => bar.value > 0) ? newBars : [];
      base.show(bars.map((bar) => `${bar.label}: ${count(bar.value)}`).join(', '),
        bars.map((bar) => [bar.label, count(bar.value)]));
    },
  };
}

/** Make a list show named values as bars of one scale: `[{name, value, text}]`. */
export function showBars(list, items) {
  const most = Math.max(1e-9, ...items.map((item) => item.value));
  syncList(list, items, (item) => item.name, (item) => el('li', {},
    el('span', { class: 'bar-name' }, item.name), el('span', { class: 'bar-value' }),
    el('span', { class: 'bar-track' }, el('span', { class: 'bar-fill' }))), (node, item) => {
    setText(node.children[1], item.text);
    node.children[2].firstChild.style.width = `${(100 * item.value) / most}%`;
  });
}
