/** The list of incidents, and what a person can do about each. */

import { noticeOf, sendCommand } from './commands.js';
import { byId, el, keepFocus, setAttribute, setShown, setText, syncList } from './dom.js';
import {
  count, duration, faultyAlertingText, idElement, plural, ruleName, setTime, toMs, visible,
} from './format.js';
import { incidentKey, isOpen } from './store.js';

/** How many rows to show at first, and more on demand. */
const ROWS = matchMedia('(max-width: 700px)').matches ? 10 : 50;
/** For how long after a movement of the pointer the rows keep their places. */
const HOLD_MS = 800;
const SILENCES = [['15 minutes', 15], ['1 hour', 60], ['4 hours', 240], ['24 hours', 1440]];
const ANNOUNCE_EVERY_MS = 4000;

let store;
let openRack;
let schedule;
let shownStatus = 'open';
let limit = ROWS;
let isOld = true;
let lastPointerMove = -Infinity;
let lastAnnounced = -Infinity;
const announced = new Map();
let newlyOpened = 0;
/** Whether the first snapshot was counted; a later one follows a lost connection. */
let hasStarted = false;

/** Prepare the list; `open(rackId)` opens a rack, `redraw()` asks for the next frame. */
export function initIncidents(theStore, open, redraw) {
  store = theStore;
  openRack = open;
  schedule = redraw;
  const list = byId('incidents-list');
  list.addEventListener('pointermove', () => { lastPointerMove = performance.now(); });
  for (const button of byId('incident-filter').children) {
    button.addEventListener('click', () => {
      shownStatus = button.dataset.show;
      limit = ROWS;
      lastPointerMove = -Infinity;
      isOld = true;
      schedule();
    });
  }
  byId('incidents-more').addEventListener('click', () => {
    limit += ROWS;
    isOld = true;
    schedule();
  });
}

/** Draw the list if an incident changed; relative times change with every tick. */
export function updateIncidents(changes) {
  if (changes.incidents.size > 0 || changes.everything) {
    isOld = true;
    countNew(changes);
  }
  if (changes.tick) announce();
  if (!isOld && !changes.tick) return;
  const all = [...store.incidents.values()];
  const open = all.filter(isOpen);
  showCounts(open.length, all.length - open.length);
  showFaultyAlerting();
  const isHeld = performance.now() - lastPointerMove < HOLD_MS;
  const list = byId('incidents-list');
  const chosen = (shownStatus === 'open' ? open : all.filter((incident) => !isOpen(incident)))
    .sort(byTime);
  if (isHeld && list.children.length > 0) {
    for (const row of list.children) {
      const incident = store.incidents.get(incidentKey(row.dataset.rule, row.dataset.subject));
      if (incident) updateIncidentRow(row, incident);
    }
    return;
  }
  keepFocus(list, byId('incidents-title'), () => {
    syncList(list, chosen.slice(0, limit), keyOf, createIncidentRow, updateIncidentRow);
  });
  setShown(byId('incidents-more'), chosen.length > limit);
  setShown(byId('incidents-empty'), chosen.length === 0);
  setText(byId('incidents-empty'), emptyText());
  isOld = false;
}

function emptyText() {
  if (shownStatus !== 'open') return 'No incident was resolved in the last 24 hours.';
  return store.faultyAlerting() ? 'No open incident was known then.'
    : 'No open incident. All racks are normal as far as the rules know.';
}

/** Say above the list that alerting is not working. */
function showFaultyAlerting() {
  const alerting = store.faultyAlerting();
  setShown(byId('incidents-outdated'), Boolean(alerting));
  if (alerting) setText(byId('incidents-outdated'), faultyAlertingText(alerting));
}

const keyOf = ({ rule, subject }) => incidentKey(rule, subject);

function byTime(a, b) {
  const time = (incident) => toMs(isOpen(incident) ? incident.start_time : incident.end_time) ?? 0;
  return time(b) - time(a) || (keyOf(a) < keyOf(b) ? -1 : 1);
}

function showCounts(open, resolved) {
  const [openButton, resolvedButton] = byId('incident-filter').children;
  setText(openButton, `Open (${count(open)})`);
  setText(resolvedButton, `Resolved (${count(resolved)})`);
  setAttribute(openButton, 'aria-pressed', String(shownStatus === 'open'));
  setAttribute(resolvedButton, 'aria-pressed', String(shownStatus === 'resolved'));
  setText(byId('nav-incidents'), open > 0 ? count(open) : '');
}

/** Count the incidents that opened since the last announcement; those at the start are not new. */
function countNew(changes) {
  if (changes.everything) {
    for (const key of announced.keys()) if (!store.incidents.has(key)) announced.delete(key);
  }
  for (const key of changes.everything ? store.incidents.keys() : changes.incidents) {
    const incident = store.incidents.get(key);
    if (!incident || !isOpen(incident)) {
      announced.delete(key);
    } else if (announced.get(key) !== incident.alert_id) {
      announced.set(key, incident.alert_id);
      if (hasStarted) newlyOpened++;
    }
  }
  hasStarted ||= store.received;
}

function announce() {
  if (newlyOpened === 0 || performance.now() - lastAnnounced < ANNOUNCE_EVERY_MS) return;
  lastAnnounced = performance.now();
  setText(byId('announcer'),
    `${plural(newlyOpened, 'new incident')}, ${count(announced.size)} open.`);
  newlyOpened = 0;
}

/** Create the row of an incident; `updateIncidentRow` fills it. */
export function createIncidentRow(incident) {
  const silences = el('div', { class: 'durations', role: 'group', 'aria-label': 'Silence for',
    hidden: true });
  const silence = el('button', { type: 'button', 'aria-expanded': 'false' }, 'Silence');
  const parts = {
    status: el('span', { class: 'status-word' }),
    severity: el('span', { class: 'severity' }),
    summary: el('p', { class: 'summary' }),
    since: el('time'),
    lasted: el('span'),
    remarks: el('span', { class: 'remarks' }),
    ack: el('button', { type: 'button' }, 'Acknowledge'),
    silence,
    unsilence: el('button', { type: 'button' }, 'Unsilence'),
    silences,
    notice: el('p', { class: 'notice', role: 'status' }),
    incident,
  };
  const row = el('li', { class: 'incident' },
    el('div', { class: 'incident-state' }, el('span', { class: 'mark', 'aria-hidden': 'true' }),
      parts.status, parts.severity),
    el('div', { class: 'incident-what' },
      el('p', { class: 'incident-title' }, el('strong', {}, ruleName(incident.rule)), ' ',
        subjectOf(incident)),
      parts.summary,
      el('p', { class: 'incident-facts' }, ...siteOf(incident), 'since ', parts.since, ' ',
        parts.lasted, parts.remarks)),
    el('div', { class: 'incident-actions' }, parts.ack, silence, parts.unsilence, silences),
    parts.notice);
  row.dataset.rule = incident.rule;
  row.dataset.subject = incident.subject;
  addActions(parts);
  rowParts.set(row, parts);
  return row;
}

const rowParts = new WeakMap();

function subjectOf({ rule, subject }) {
  if (rule === 'site-outage') return idElement(subject);
  const open = { click: () => openRack(subject) };
  return el('button', { type: 'button', class: 'link', on: open }, idElement(subject));
}

function siteOf({ rule, site_id: site }) {
  return rule === 'site-outage' ? [] : ['at ', idElement(site), ' '];
}

function addActions(parts) {
  const redraw = () => {
    isOld = true;
    schedule();
  };
  const send = (command, fields = {}) => {
    if (!noticeOf(parts.incident)?.pending) sendCommand(parts.incident, command, fields, redraw);
  };
  parts.ack.addEventListener('click', () => {
    const { alert_id: alertId, severity } = parts.incident;
    send('ack', { alert_id: alertId, severity });
  });
  parts.unsilence.addEventListener('click', () => send('unsilence'));
  parts.silence.addEventListener('click', () => unfold(parts, parts.silences.hidden));
  for (const [label, minutes] of SILENCES) {
    parts.silences.append(el('button', { type: 'button', on: { click: () => {
      const until = new Date(store.serverNow() + minutes * 60_000).toISOString();
      send('silence', { until });
      unfold(parts, false);
      parts.silence.focus();
    } } }, label));
  }
  parts.silences.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    unfold(parts, false);
    parts.silence.focus();
  });
}

/** Show or hide the durations of a silence. */
function unfold(parts, unfolded) {
  setAttribute(parts.silence, 'aria-expanded', String(unfolded));
  setShown(parts.silences, unfolded);
}

/** Show an incident in its row. */
export function updateIncidentRow(row, incident) {
  const parts = rowParts.get(row);
  parts.incident = incident;
  setAttribute(row, 'data-status', incident.status);
  setAttribute(row, 'data-severity', incident.severity);
  setText(parts.status, incident.status);
  setText(parts.severity, incident.severity);
  setText(parts.summary, visible(incident.summary));
  setTime(parts.since, incident.start_time);
  const end = toMs(incident.end_time) ?? store.serverNow();
  setText(parts.lasted, `for ${duration(end - (toMs(incident.start_time) ?? end))}`);
  setText(parts.remarks, remarksOf(incident));
  const notice = noticeOf(incident);
  setText(parts.notice, notice?.text ?? '');
  setAttribute(parts.notice, 'data-failed', notice?.failed ?? false);
  offer(parts, incident, notice?.pending ?? false);
}

/** Offer what is possible now; the focus goes to the next possible action. */
function offer(parts, incident, pending) {
  const silenced = toMs(incident.silenced_until) > store.serverNow();
  const open = isOpen(incident);
  const possible = new Map([
    [parts.ack, open && incident.acknowledged_by === null],
    [parts.silence, open && !silenced],
    [parts.unsilence, silenced],
  ]);
  const inDurations = parts.silences.contains(document.activeElement);
  const focused = inDurations ? parts.silence : document.activeElement;
  for (const [button, shown] of possible) {
    setShown(button, shown);
    setAttribute(button, 'aria-disabled', pending ? 'true' : null);
  }
  if (!possible.get(parts.silence)) unfold(parts, false);
  if (possible.get(focused) === false) {
    for (const [button, shown] of possible) {
      if (shown) {
        button.focus({ preventScroll: true });
        break;
      }
    }
  }
}

function remarksOf(incident) {
  const remarks = [];
  const by = incident.acknowledged_by;
  if (by) remarks.push(`acknowledged by ${visible(by)}`);
  const left = (toMs(incident.silenced_until) ?? 0) - store.serverNow();
  if (left > 0) remarks.push(`silenced for another ${duration(left)}`);
  if (incident.inhibited) remarks.push('notifications suppressed by the site’s outage');
  if (incident.flapping) remarks.push('flapping');
  if (incident.repeats > 0) remarks.push(plural(incident.repeats, 'repeat'));
  return remarks.map((remark) => ` · ${remark}`).join('');
}
