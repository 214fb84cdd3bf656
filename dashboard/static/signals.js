/** Statistics of the signal strength, in the newest window, by device type. */

import { byId, el, scrollingTable, setAttribute, setShown, setText, syncList } from './dom.js';
import { clock, count, decimal, idElement } from './format.js';

let store;
let table;

/** Prepare the table. */
export function initSignals(theStore) {
  store = theStore;
  table = scrollingTable('Signal strength by device type', ['Device type', 'Lowest to highest',
    ['Lowest', 'number'], ['Average', 'number'], ['Highest', 'number'], ['Readings', 'number']]);
  byId('signals-table').append(table.region);
}

/** Draw the statistics if they changed. */
export function updateSignals(changes) {
  if (!changes.has('signals')) return;
  const rows = [...store.sections.signals ?? []].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
  const newest = rows.reduce((best, row) => (
    best === null || row.window_start > best.window_start ? row : best), null);
  setShown(table.region, rows.length > 0);
  setShown(byId('signals-empty'), rows.length === 0);
  setText(byId('signals-window'), newest === null ? ''
    : `window ${clock(newest.window_start)} to ${clock(newest.window_end)}`);
  syncList(table.body, rows, (row) => `${row.device_type}|${row.rack_id}`, createRow,
    (node, row) => updateRow(node, row, newest));
}

const nameOf = (row) => row.device_type ?? row.rack_id ?? '';

function createRow(row) {
  return el('tr', {},
    el('th', { scope: 'row' }, idElement(row.device_type ?? row.rack_id ?? 'all')),
    el('td', {}, el('span', { class: 'spread', 'aria-hidden': 'true' },
      el('span', { class: 'spread-range' }), el('span', { class: 'spread-mark' }))),
    ...Array.from({ length: 4 }, () => el('td', { class: 'number' })));
}

function updateRow(node, row, newest) {
  const isOld = row.window_start !== newest.window_start;
  setAttribute(node, 'title', isOld ? `in the window to ${clock(row.window_end)}` : null);
  const { signal_strength_min: low, signal_strength_avg: mark, signal_strength_max: high } = row;
  const [range, tick] = node.children[1].firstChild.children;
  range.style.left = `${100 * low}%`;
  range.style.width = `${100 * (high - low)}%`;
  tick.style.left = `${100 * mark}%`;
  [decimal(low, 2), decimal(mark, 2), decimal(high, 2), count(row.reading_count)]
    .forEach((text, index) => setText(node.children[2 + index], text));
}
