/** The panel of one rack: its temperature over time, its windows, and its alerts with evidence. */

import { getJson } from './api.js';
import { lineChart, rangeChart } from './charts.js';
import {
  byId, el, keepFocus, scrollingTable, setAttribute, setShown, setText, syncList,
} from './dom.js';
import {
  celsius, count, decimal, duration, idElement, ruleName, ruleWord, setId, setTime, timeElement,
  timeOfDay, toMs, utc, visible,
} from './format.js';
import { createIncidentRow, updateIncidentRow } from './incidents.js';
import { incidentKey, isOpen } from './store.js';

const REFRESH_MS = 2000;
const MOST_READINGS = 600;
/** The server keeps a reading of a rack at most this often. */
const READING_INTERVAL_MS = 1000;
const GAP_MS = 5000;
/** A reading whose clock is further ahead is not drawn; the server keeps it out of the history. */
const FUTURE_MS = 5 * 60_000;
const wide = matchMedia('(min-width: 1100px)');

let store;
let focusTile;
let rackId = null;
let readings = [];
let timer = 0;
let request = null;
let temperatures;
let windows;

/** Prepare the panel; `leave(rackId)` puts the focus back when it closes. */
export function initRack(theStore, leave) {
  store = theStore;
  focusTile = leave;
  temperatures = lineChart({ title: 'Temperature', names: ['temperature'], height: 220,
    format: (value, isAxis) => (isAxis ? `${decimal(value, 0)}°` : celsius(value)),
    fromZero: false, gap: GAP_MS });
  windows = rangeChart({ title: 'Windows: lowest, average, highest', height: 150,
    columns: ['From', 'To', 'Readings', 'Lowest', 'Average', 'Highest'],
    format: (value) => `${decimal(value, 0)}°` });
  byId('rack-temperature').append(temperatures.figure);
  byId('rack-windows').append(windows.figure);
  const panel = byId('rack-panel');
  const head = panel.querySelector('.panel-head');
  // The head stays on top, and must not cover what has the focus.
  new ResizeObserver(() => {
    panel.style.scrollPaddingTop = `${head.offsetHeight}px`;
  }).observe(head);
  byId('rack-close').addEventListener('click', closeRack);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && !event.target.matches('input')) closeRack();
  });
  panel.addEventListener('cancel', (event) => {
    event.preventDefault();
    closeRack();
  });
  wide.addEventListener('change', () => {
    if (panel.open) {
      panel.close();
      show();
    }
  });
  addEventListener('hashchange', openFromAddress);
}

/** Open the rack that the address names, if it names one. */
export function openFromAddress() {
  const match = /^#rack=(.*)$/s.exec(location.hash);
  if (!match) return;
  let id;
  try {
    id = decodeURIComponent(match[1]);
  } catch {
    return; // Not an encoded text: the address names no rack.
  }
  openRack(id);
}

/** Open the panel of a rack. */
export function openRack(id) {
  if (rackId === id && byId('rack-panel').open) return;
  rackId = id;
  readings = [];
  history.replaceState(null, '', `#rack=${encodeURIComponent(id)}`);
  setId(byId('rack-id'), id);
  byId('rack-id').classList.toggle('long', id.length > 60);
  setText(byId('rack-error'), '');
  syncList(byId('rack-alerts'), [], alertKey, createAlert, () => {});
  setShown(byId('rack-alerts-empty'), false);
  temperatures.render({ series: [[]] });
  windows.render([]);
  updateRack(null);
  show();
  refresh();
}

function show() {
  const panel = byId('rack-panel');
  document.body.classList.toggle('has-panel', wide.matches);
  if (!panel.open && wide.matches) panel.show();
  else if (!panel.open) panel.showModal();
  panel.scrollTop = 0;
  byId('rack-close').focus();
}

function closeRack() {
  const panel = byId('rack-panel');
  if (!panel.open) return;
  const last = rackId;
  panel.close();
  clearTimeout(timer);
  request?.abort();
  rackId = null;
  document.body.classList.remove('has-panel');
  history.replaceState(null, '', location.pathname + location.search);
  focusTile(last);
}

async function refresh() {
  clearTimeout(timer);
  request?.abort();
  request = new AbortController();
  const { signal } = request;
  const id = rackId;
  try {
    showDetail(await getJson(`/api/rack?rack_id=${encodeURIComponent(id)}`, signal));
    setText(byId('rack-error'), '');
  } catch (error) {
    if (signal.aborted) return;
    setText(byId('rack-error'), error.message);
  }
  if (!signal.aborted) timer = setTimeout(refresh, REFRESH_MS);
}

function showDetail({ rack, readings: newReadings, windows: newWindows, alerts }) {
  readings = newReadings.map(([ms, temperature]) => [ms, temperature]).sort((a, b) => a[0] - b[0]);
  showTemperatures(store.racks.get(rackId) ?? rack);
  windows.render(newWindows.map(windowBar));
  syncList(byId('rack-alerts'), alerts, alertKey, createAlert, () => {});
  setShown(byId('rack-alerts-empty'), alerts.length === 0);
}

/** Return a window as a bar of a range chart. */
export function windowBar(record) {
  const { temperature_c_min: low, temperature_c_avg: mark, temperature_c_max: high } = record;
  return { label: timeOfDay(record.window_start, 'minutes'), low, mark, high,
    cells: [utc(record.window_start), utc(record.window_end), count(record.reading_count),
      celsius(low), celsius(mark), celsius(high)] };
}

function showTemperatures(rack) {
  temperatures.render({ series: [readings], threshold: rack?.threshold_c ?? null });
}

/** Show what the stream says of the open rack. */
export function updateRack(changes) {
  if (rackId === null) return;
  const rack = store.racks.get(rackId);
  if (changes && !changes.everything && !changes.tick && !changes.racks.has(rackId)
    && changes.incidents.size === 0) return;
  const list = byId('rack-incidents');
  keepFocus(list, byId('rack-close'), () => {
    syncList(list, rack ? store.incidentsOf(rack).filter(isOpen) : [],
      ({ rule, subject }) => incidentKey(rule, subject), createIncidentRow, updateIncidentRow);
  });
  setShown(byId('rack-facts'), Boolean(rack));
  if (!rack) return;
  const stale = store.isStale(rack);
  setText(byId('rack-now'), celsius(rack.temperature_c));
  setText(byId('rack-signal'), decimal(rack.signal_strength, 2));
  setText(byId('rack-threshold'), celsius(rack.threshold_c));
  setId(byId('rack-type'), rack.device_type ?? 'not in the inventory');
  setId(byId('rack-site'), rack.site_id);
  setTime(byId('rack-time'), rack.event_time_ms);
  setText(byId('rack-age'),
    stale ? `stale: no reading for ${duration(store.readingAge(rack))}` : '');
  const state = byId('rack-state');
  setAttribute(state, 'data-state', rack.state);
  const words = (rack.rules ?? []).map(ruleWord).join(', ');
  setText(state.lastElementChild, rack.state === 'WARNING' ? `WARNING: ${words}` : 'NORMAL');
  const last = readings.at(-1);
  const isFuture = rack.event_time_ms > rack.append_time_ms + FUTURE_MS;
  if (last && !isFuture && rack.event_time_ms >= last[0] + READING_INTERVAL_MS) {
    readings.push([rack.event_time_ms, rack.temperature_c]);
    if (readings.length > MOST_READINGS) readings.shift();
    showTemperatures(rack);
  }
}

const alertKey = (alert) => alert.alert_id;

function createAlert(alert) {
  const columns = [['Sequence', 'number'], 'Event time', ['Temperature', 'number'],
    ['Signal', 'number'], 'Event'];
  const label = `Evidence of alert ${visible(alert.alert_id.slice(0, 8))}`;
  const { region, body } = scrollingTable(label, columns);
  for (const reading of alert.evidence) {
    body.append(el('tr', {},
      el('td', { class: 'number' }, String(reading.sequence)),
      el('td', {}, timeElement(reading.event_time, 'milliseconds')),
      el('td', { class: 'number' }, celsius(reading.temperature_c)),
      el('td', { class: 'number' }, decimal(reading.signal_strength, 2)),
      el('td', {}, idElement(reading.event_id))));
  }
  const delay = toMs(alert.detected_time) - toMs(alert.event_time);
  return el('li', { class: 'alert', 'data-state': alert.state },
    el('details', {},
      el('summary', {}, el('span', { class: 'mark', 'aria-hidden': 'true' }),
        el('strong', {}, alert.state), ` ${ruleName(alert.rule)} · ${alert.severity} · `,
        timeElement(alert.event_time)),
      el('p', { class: 'summary' }, visible(alert.summary)),
      el('p', { class: 'facts' }, 'Event time ',
        timeElement(alert.event_time, 'milliseconds'),
        ', detected ', timeElement(alert.detected_time, 'milliseconds'),
        ` (${count(delay)} ms later). Alert `, el('code', {}, idElement(alert.alert_id)), '.'),
      alert.evidence.length > 0 ? region : el('p', { class: 'facts' }, 'No reading is evidence.')));
}
