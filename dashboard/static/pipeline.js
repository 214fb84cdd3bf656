/** Whether the pipeline keeps up: rates, latency, lag, late rows, and its queries. */

import { lineChart, showBars } from './charts.js';
import {
  byId, el, scrollingTable, setAttribute, setShown, setText, showFigure, syncList,
} from './dom.js';
import {
  age, bytes, count, decimal, latencyText, plural, ruleName, setTime, visible,
} from './format.js';

const CHART_EVERY_MS = 900;

let store;
let rates;
let queries;
let topics;
let drawnAt = -Infinity;

/** Prepare the chart and the tables. */
export function initPipeline(theStore) {
  store = theStore;
  rates = ['in', 'out'].map((name) => lineChart({ title: `Records ${name}`, names: ['per second'],
    height: 130, gap: 5000, format: (value) => decimal(value, value < 10 ? 1 : 0) }));
  byId('rates').append(...rates.map((chart) => chart.figure));
  queries = scrollingTable('Queries', ['Query', 'State', 'Trigger', ['Restarts', 'number'],
    ['Lag', 'number'], ['Late', 'number'], ['State rows', 'number'], ['State size', 'number'],
    'Last progress']);
  byId('queries').append(queries.region);
  topics = scrollingTable('Records by topic', ['Topic', ['Records', 'number']]);
  byId('topics').append(topics.region);
}

/** Draw the pipeline if it changed; the ages change with every tick. */
export function updatePipeline(changes) {
  const data = store.sections.pipeline;
  if (changes.has('counts')) showTopics(store.sections.counts ?? {});
  if (changes.has('alerts')) showAlerts(store.sections.alerts ?? {});
  if (!data) return;
  if (changes.has('pipeline')) {
    showFigures(data);
    if (changes.everything || performance.now() - drawnAt > CHART_EVERY_MS) {
      drawnAt = performance.now();
      rates[0].render({ series: [data.rates?.in ?? []] });
      rates[1].render({ series: [data.rates?.out ?? []] });
    }
  }
  if (changes.has('pipeline') || changes.tick) showQueries(data.queries ?? []);
  if (changes.has('pipeline', 'topics_missing', 'limits')) showProblems(data);
}

function showFigures(data) {
  const { latency_ms: latency } = data;
  const measured = latency?.count > 0;
  showFigure('latency_p50', measured ? latency.p50 : null,
    measured ? latencyText(latency.p50) : '–');
  setText(byId('latency-count'), measured
    ? `of ${count(latency.count)} alerts in the last minute` : 'no alert in the last minute');
  showFigure('lag', data.lag, count(data.lag));
  setText(byId('lag-query'), data.lag_query ? `records, of the query ${data.lag_query}`
    : 'records not yet processed');
  for (const name of ['late_rows', 'left_out', 'dead_letters']) {
    showFigure(name, data[name], count(data[name]));
  }
}

function showQueries(list) {
  setShown(queries.region, list.length > 0);
  setShown(byId('queries-empty'), list.length === 0);
  const stuck = list.filter((query) => query.stuck).length;
  const running = list.filter((query) => query.active).length - stuck;
  const stopped = list.filter((query) => !query.active && !query.finished).length;
  setText(byId('queries-facts'), list.length === 0 ? '' : `${running} running`
    + (stuck > 0 ? `, ${stuck} stuck` : '') + (stopped > 0 ? `, ${stopped} not running` : ''));
  syncList(queries.body, list, (query) => `${query.host}|${query.job}|${query.name}`,
    createQuery, updateQuery);
}

/** Say what is wrong with the pipeline, and what is only worth knowing, a sentence each. */
function showProblems({ drivers = [], queries: list = [] }) {
  const missing = store.sections.topics_missing ?? [];
  const sentences = drivers.filter((driver) => !driver.healthy).map((driver) => visible(
    driver.error ?? `The driver with process id ${driver.pid} on ${driver.host} is not healthy.`));
  sentences.push(...list.filter((query) => query.stuck).map((query) => visible(query.error)));
  const alerting = store.faultyAlerting();
  if (alerting) {
    const [first = '', ...rest] = alerting.error ?? '';
    sentences.push(visible(`Alerting is not working. ${first.toUpperCase()}${rest.join('')}`));
  }
  if (missing.length > 0) {
    sentences.push(`The broker has no topic ${missing.join(', ')}. Create the topics by `
      + '“python -m broker topics”.');
  }
  const limits = store.sections.limits ?? {};
  sentences.push(...leftOutTexts(limits));
  syncList(byId('problems'), sentences, String, (sentence) => el('li', {},
    el('span', { class: 'mark', 'aria-hidden': 'true' }), el('span', {}, sentence)), () => {});
  const malformed = limits.malformed_readings ?? 0;
  setShown(byId('malformed'), malformed > 0);
  setText(byId('malformed'), `The floor plan leaves out ${plural(malformed, 'malformed reading')} `
    + 'of the sample that it sees. The job dead_letters reports each one.');
}

function leftOutTexts({ racks_left_out: racks, incidents_left_out: incidents, unreadable }) {
  const texts = [];
  if (racks > 0) texts.push(`${plural(racks, 'rack')} more than the page can show.`);
  if (incidents > 0) texts.push(`${plural(incidents, 'incident')} more than the page can show.`);
  if (unreadable > 0) {
    texts.push(`The page leaves out ${plural(unreadable, 'record')} of the output topics, which `
      + 'cannot be read. Is each program of the same version?');
  }
  return texts;
}

function showAlerts(alerts) {
  showBars(byId('alerts-by-rule'), Object.entries(alerts).sort()
    .map(([rule, value]) => ({ name: ruleName(rule), value, text: count(value) })));
}

function createQuery(query) {
  const cell = (kind) => el('td', { class: kind });
  return el('tr', {},
    el('th', { scope: 'row' }, visible(query.name)),
    el('td', {}, el('span', { class: 'state' },
      el('span', { class: 'mark', 'aria-hidden': 'true' }), el('span')),
    el('p', { class: 'query-error' })),
    cell(''), ...Array.from({ length: 5 }, () => cell('number')), el('td', {}, el('time')));
}

function stateOf({ active, stuck, finished }) {
  if (stuck) return ['stopped', 'stuck'];
  if (active) return ['running', 'running'];
  return finished ? ['finished', 'finished'] : ['stopped', 'not running'];
}

function updateQuery(row, query) {
  const [, state, trigger, restarts, lag, late, stateRows, stateBytes, progress] = row.children;
  const [kind, word] = stateOf(query);
  setAttribute(state.firstChild, 'data-state', kind);
  setText(state.firstChild.lastChild, word);
  const recovered = query.active && !query.stuck;
  setText(state.lastChild, `${recovered ? 'Last failure: ' : ''}${visible(query.error ?? '')}`);
  setShown(state.lastChild, Boolean(query.error));
  setText(trigger, query.trigger ?? '–');
  setText(restarts, count(query.restarts));
  setText(lag, count(query.lag));
  setText(late, count(query.late_records));
  setText(stateRows, count(query.state_rows));
  setText(stateBytes, bytes(query.state_bytes));
  const time = progress.firstChild;
  setTime(time, query.last_progress_ms);
  if (Number.isFinite(query.last_progress_ms)) {
    setText(time, `${age(store.serverNow() - query.last_progress_ms)} ago`);
  }
}

function showTopics(counts) {
  syncList(topics.body, Object.entries(counts).sort(), ([topic]) => topic,
    ([topic]) => el('tr', {}, el('th', { scope: 'row' }, topic), el('td', { class: 'number' })),
    (row, [topic, records]) => {
      setAttribute(row.lastChild, 'data-topic', topic);
      setText(row.lastChild, count(records));
    });
}
