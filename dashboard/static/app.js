/**
 * The page: receives the state, and draws what changed, at most once per frame.
 *
 * A message only marks what changed. All views draw in the next frame, so many messages cost one
 * drawing. A hidden page draws nothing until it is looked at.
 */

import { rangeChart } from './charts.js';
import { initClickstream, updateClickstream } from './clickstream.js';
import { defineProperties } from './colour.js';
import { initDeadLetters, updateDeadLetters } from './dead_letters.js';
import { byId, setAttribute, setText } from './dom.js';
import { initFloor, tileOf, updateFloor } from './floor.js';
import { decimal, duration, rewriteTimes, setTime, toMs, useUtc, zoneName } from './format.js';
import { initIncidents, updateIncidents } from './incidents.js';
import { initOverview, setConnected, updateOverview } from './overview.js';
import { initPipeline, updatePipeline } from './pipeline.js';
import { initRack, openFromAddress, openRack, updateRack, windowBar } from './rack.js';
import { initSignals, updateSignals } from './signals.js';
import { Store } from './store.js';
import { openStream } from './stream.js';
import { currentTheme, toggleTheme } from './theme.js';

const TICK_MS = 1000;

const store = new Store();
let isScheduled = false;
let isUtc = false;

const fleetWindows = rangeChart({ title: 'All racks: lowest, average, highest',
  columns: ['From', 'To', 'Readings', 'Lowest', 'Average', 'Highest'], height: 170,
  format: (value) => `${decimal(value, 0)}°` });

/** Each draws its part of the page; it returns true when it has more for the next frame. */
const views = [updateFloor, updateOverview, updateIncidents, updateRack, updateFleetWindows,
  updateClickstream, updateSignals, updatePipeline, updateDeadLetters];

function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(draw);
}

/** Draw what changed; a view that fails is reported, and does not stop the others. */
function draw() {
  isScheduled = false;
  const changes = store.takeChanges();
  for (const update of views) {
    try {
      if (update(changes) === true) schedule();
    } catch (error) {
      reportError(error);
    }
  }
}

function updateFleetWindows(changes) {
  if (!changes.has('windows')) return;
  const records = store.sections.windows?.fleet ?? [];
  fleetWindows.render(records.map(windowBar));
  const last = records.at(-1);
  setText(byId('windows-facts'), last
    ? `${duration(toMs(last.window_end) - toMs(last.window_start))} each` : '');
}

function tick() {
  store.changes.tick = true;
  setTime(byId('clock'), store.serverNow());
  schedule();
}

function showTheme() {
  const isDark = currentTheme() === 'dark';
  setText(byId('theme'), isDark ? 'Light mode' : 'Dark mode');
}

function showZone() {
  useUtc(isUtc);
  rewriteTimes();
  setAttribute(byId('zone'), 'title', isUtc ? 'Show local times' : 'Show UTC');
  setText(byId('zone-other'), isUtc ? ', show local times' : ', show UTC');
  setText(byId('clock-zone'), zoneName());
  store.changes.everything = true;
  tick();
}

function returnTo(rackId) {
  const tile = tileOf(rackId);
  if (tile && !tile.hidden) tile.focus();
  else byId('main').focus();
}

defineProperties(document.documentElement.style);
byId('fleet-windows').append(fleetWindows.figure);
initFloor(store, openRack);
initOverview(store, openRack);
initIncidents(store, openRack, schedule);
initRack(store, returnTo);
initClickstream(store);
initSignals(store);
initPipeline(store);
initDeadLetters(store);
byId('theme').addEventListener('click', () => {
  toggleTheme();
  showTheme();
});
byId('zone').addEventListener('click', () => {
  isUtc = !isUtc;
  showZone();
});
showTheme();
showZone();
setInterval(tick, TICK_MS);
new ResizeObserver(([entry]) => {
  const height = entry.borderBoxSize[0].blockSize;
  document.documentElement.style.setProperty('--top', `${Math.ceil(height)}px`);
}).observe(byId('top'));

openStream('/stream', (message, isSnapshot) => {
  setConnected(true);
  store.apply(message, isSnapshot);
  schedule();
  if (isSnapshot) openFromAddress();
}, () => {
  setConnected(false);
  tick();
});
