/** The figures at the top, the state of the connection, and the banner when something is away. */

import { byId, setAttribute, setShown, setText, showFigure } from './dom.js';
import {
  celsius, clock, count, decimal, duration, faultyAlertingText, latencyText, setId,
} from './format.js';
import { isOpen } from './store.js';

/** After how long without a message the page says that it is stale. */
const STALE_AFTER_MS = 5000;
const SAY_RECOVERED_MS = 5000;

let store;
let connected = false;
let recoveredAt = -Infinity;
let whenBack = '';

/** Prepare the overview; `open(rackId)` opens a rack. */
export function initOverview(theStore, open) {
  store = theStore;
  byId('hottest').addEventListener('click', () => open(byId('hottest').dataset.rack));
}

/** Note whether the connection to the server works. */
export function setConnected(value) {
  connected = value;
}

/** Draw the overview. */
export function updateOverview(changes) {
  showConnection();
  if (changes.has('broker', 'pipeline') || changes.tick) showBanner();
  if (changes.tick || changes.everything) {
    showRacks();
    showIncidents();
  }
  if (changes.has('pipeline') && store.sections.pipeline) showPipeline(store.sections.pipeline);
}

function showConnection() {
  const age = performance.now() - store.lastMessageAt;
  const isAway = store.sections.broker?.reachable === false;
  const state = !connected ? 'lost' : isAway || age > STALE_AFTER_MS ? 'stale' : 'live';
  const pill = byId('connection');
  setAttribute(pill, 'data-state', state);
  const isOld = store.received && (isAway || age > STALE_AFTER_MS);
  document.body.classList.toggle('stale', isOld);
  const ago = Number.isFinite(age) ? `no update for ${duration(age)}` : 'connecting';
  setText(pill.lastElementChild, { live: 'Live',
    stale: age > STALE_AFTER_MS ? `Stale: ${ago}` : 'Stale: broker away',
    lost: store.received ? `Connection lost: ${ago}` : 'Connecting …' }[state]);
}

/** Say that the server, the broker or alerting is away, and for a moment that it is back. */
function showBanner() {
  const banner = byId('banner');
  const away = whatIsAway();
  if (away) [, whenBack] = away;
  else if (banner.dataset.kind === 'away' && !banner.hidden) recoveredAt = performance.now();
  const isBack = !away && performance.now() - recoveredAt < SAY_RECOVERED_MS;
  setAttribute(banner, 'data-kind', isBack ? 'back' : 'away');
  setText(banner.lastElementChild, away?.[0] ?? (isBack ? whenBack : ''));
  setShown(banner, Boolean(away) || isBack);
}

/** Return what to say of what is away, and what to say when it is back; null if nothing is. */
function whatIsAway() {
  const { broker } = store.sections;
  const alerting = store.faultyAlerting();
  const age = performance.now() - store.lastMessageAt;
  const live = 'The connection is back. The page is live again.';
  if (!connected && !store.received && performance.now() > STALE_AFTER_MS) {
    return ['The dashboard’s server does not accept this page’s connection. It may have too many '
      + 'already. The page keeps trying.', live];
  }
  if (!connected && store.received && age > STALE_AFTER_MS / 2) {
    return [`The dashboard’s server has not answered since ${clock(store.lastMessageTime)}. `
      + 'The page shows the last known state and keeps trying to connect.', live];
  }
  if (broker?.reachable === false) {
    return [`The Kafka broker has not answered since ${clock(broker.since_ms)}. The page shows the `
      + 'last known state and continues by itself when the broker is back.', live];
  }
  return alerting ? [faultyAlertingText(alerting), 'Alerting is working again.'] : null;
}

function showRacks() {
  const total = store.racks.size;
  let warning = 0;
  let stale = 0;
  let hottest = null;
  for (const rack of store.racks.values()) {
    if (rack.state === 'WARNING') warning++;
    if (store.isStale(rack)) stale++;
    else if (hottest === null || rack.temperature_c > hottest.temperature_c) hottest = rack;
  }
  showFigure('racks', total, count(total));
  const note = total > 0 ? 'none stale' : 'no reading yet';
  showFigure('stale', stale, stale > 0 ? `${count(stale)} stale` : note);
  showFigure('warning', warning, count(warning));
  byId('stat-warning').classList.toggle('alarming', warning > 0);
  setText(byId('figure-warning-note'), warning > 0
    ? `${decimal((100 * warning) / total, 0)} % of all racks` : whenNone('none now'));
  setShown(byId('hottest'), hottest !== null);
  showFigure('hottest', hottest?.temperature_c, celsius(hottest?.temperature_c));
  if (hottest === null) return;
  setId(byId('hottest').firstElementChild, hottest.rack_id);
  byId('hottest').dataset.rack = hottest.rack_id;
}

function showIncidents() {
  let critical = 0;
  let open = 0;
  let firing = 0;
  for (const incident of store.incidents.values()) {
    if (!isOpen(incident)) continue;
    open++;
    if (incident.status === 'firing') firing++;
    if (incident.severity === 'critical') critical++;
  }
  showFigure('incidents', open, count(open));
  document.title = open > 0 ? `(${open}) Rackstream` : 'Rackstream';
  byId('stat-incidents').classList.toggle('alarming', firing > 0);
  setText(byId('figure-incidents-note'), open === 0 ? whenNone('nothing to do')
    : `${count(firing)} firing${critical > 0 ? `, ${count(critical)} critical` : ''}`);
}

/** Return what to say where no incident is open; unless alerting works, nobody knows. */
const whenNone = (text) => (store.faultyAlerting() ? 'alerting is not working' : text);

const perSecond = (rate) => (Number.isFinite(rate) ? `${count(rate)}/s` : '–');

function showPipeline({ rates, latency_ms: latency }) {
  const last = rates?.in?.at(-1)?.[1];
  showFigure('rate_in', last, perSecond(last));
  setText(byId('figure-rate-note'), `${perSecond(rates?.out?.at(-1)?.[1])} out`);
  const measured = latency?.count > 0;
  showFigure('latency_p99', measured ? latency.p99 : null,
    measured ? latencyText(latency.p99) : '–');
  setText(byId('figure-latency-note'), measured
    ? `p50 ${latencyText(latency.p50)}` : 'no alert in the last minute');
}
