/** The clickstream: impressions and clicks, time to click, actions, sessions and totals. */

import { histogram, lineChart, showBars } from './charts.js';
import { byId, el, scrollingTable, setShown, showFigure, syncList } from './dom.js';
import { count, decimal, idElement, money, percent, timeElement } from './format.js';

const ROWS = 5;

let store;
let arrivals;
let toClick;
let sessions;
let totals;

/** Prepare the charts and tables. */
export function initClickstream(theStore) {
  store = theStore;
  arrivals = lineChart({ title: 'Arrivals per second', names: ['impressions', 'clicks'],
    height: 150, format: (value) => decimal(value, value < 10 ? 1 : 0) });
  toClick = histogram({ title: 'Time to click', columns: ['Time', 'Clicks'], height: 150 });
  sessions = scrollingTable('Last sessions',
    ['User', 'Session', ['Actions', 'number'], ['Amount', 'number']]);
  totals = scrollingTable('Highest totals',
    ['User', ['Purchases', 'number'], ['Amount', 'number']]);
  byId('arrivals').append(arrivals.figure);
  byId('time-to-click').append(toClick.figure);
  byId('sessions').append(sessions.region);
  byId('totals').append(totals.region);
}

/** Draw the clickstream if it changed. */
export function updateClickstream(changes) {
  if (!changes.has('clickstream')) return;
  const data = store.sections.clickstream;
  setShown(byId('clickstream-body'), Boolean(data));
  setShown(byId('clickstream-empty'), !data);
  if (!data) return;
  for (const name of ['impressions', 'clicks', 'clicked', 'unclicked', 'sessions', 'totals']) {
    showFigure(name, data[name], count(data[name]));
  }
  showFigure('attributed_clicks', data.attributed_clicks, count(data.attributed_clicks));
  showFigure('amount_total', data.amount_total, money(data.amount_total));
  const decided = data.clicked + data.unclicked;
  showFigure('click_share', '', `${percent(data.clicked, decided)} of all decided`);
  showArrivals(data.arrivals);
  toClick.render(histogramBars(data.seconds_to_click));
  const actions = Object.entries(data.actions ?? {}).sort();
  showBars(byId('actions'), actions.map(([name, value]) => ({ name, value, text: count(value) })));
  setShown(byId('actions-empty'), actions.length === 0);
  fill(sessions, data.last_sessions?.slice(0, ROWS) ?? [], sessionCells);
  fill(totals, data.top_totals?.slice(0, ROWS) ?? [], totalCells);
}

function showArrivals({ interval_s: interval, points }) {
  arrivals.render({ series: [1, 2].map((column) => (
    points.map((point) => [point[0], point[column] / interval]))) });
}

function fill({ body }, rows, cells) {
  syncList(body, rows, JSON.stringify, (row) => el('tr', {}, ...cells(row)), () => {});
}

function sessionCells(row) {
  return [el('th', { scope: 'row' }, idElement(row.user_id)),
    el('td', {}, timeElement(row.session_start, 'minutes'), ' to ',
      timeElement(row.session_end, 'minutes')),
    el('td', { class: 'number' }, count(row.action_count)),
    el('td', { class: 'number' }, money(row.amount_total))];
}

function totalCells(row) {
  return [el('th', { scope: 'row' }, idElement(row.user_id)),
    el('td', { class: 'number' }, count(row.purchase_count)),
    el('td', { class: 'number' }, money(row.amount_total))];
}

/** Return the bars of a histogram of upper bounds in seconds, and of what lies above the last. */
function histogramBars({ bounds, counts }) {
  const labels = [...bounds.map((bound) => `≤ ${shortSeconds(bound)}`), 'more'];
  return counts.map((value, index) => ({ label: labels[index], value }));
}

function shortSeconds(seconds) {
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${+(seconds / 60).toFixed(1)} min` : `${+(seconds / 3600).toFixed(1)} h`;
}
