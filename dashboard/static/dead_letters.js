/** Dead letters: how many for which reason, and on demand the last ones with their record. */

import { getJson } from './api.js';
import { byId, el, setShown, setText, syncList } from './dom.js';
import { bytes, count, timeElement, visible } from './format.js';

const REFRESH_MS = 2000;
const SHOWN_CHARACTERS = 2000;

let store;
let loadedCount = null;
let loadedAt = -Infinity;
let loading = false;

/** Prepare the list, which is loaded when it is opened. */
export function initDeadLetters(theStore) {
  store = theStore;
  byId('dead-letters').addEventListener('toggle', load);
}

/** Draw the reasons, and load the open list again when there are more. */
export function updateDeadLetters(changes) {
  const data = store.sections.pipeline;
  if (!data || !(changes.has('pipeline') || changes.tick)) return;
  const reasons = Object.entries(data.dead_letters_by_reason ?? {}).sort();
  setText(byId('dead-letter-reasons'), reasons.length === 0 ? ''
    : reasons.map(([reason, number]) => `${count(number)} ${reason}`).join(', '));
  setShown(byId('dead-letters'), data.dead_letters > 0);
  if (byId('dead-letters').open && data.dead_letters !== loadedCount) load();
}

async function load() {
  if (!byId('dead-letters').open || loading || performance.now() - loadedAt < REFRESH_MS) return;
  loading = true;
  const problem = byId('dead-letters-error');
  const number = store.sections.pipeline?.dead_letters;
  try {
    const { dead_letters: letters } = await getJson('/api/dead-letters');
    syncList(byId('dead-letters-list'), letters, positionOf, create, () => {});
    loadedCount = number;
    setText(problem, '');
  } catch (error) {
    setText(problem, error.message);
  } finally {
    loading = false;
    loadedAt = performance.now();
  }
}

const positionOf = (letter) => `${letter.source_topic}-${letter.partition} @ ${letter.offset}`;

function create(letter) {
  const node = el('details', {},
    el('summary', {}, el('span', { class: 'tag' }, letter.reason), ' ',
      el('code', {}, positionOf(letter)), ' ', timeElement(letter.seen_time), ' ',
      el('span', { class: 'letter-error' }, visible(letter.error))));
  node.addEventListener('toggle', () => {
    if (node.children.length === 1) node.append(...details(letter));
  });
  return el('li', {}, node);
}

function details(letter) {
  if (letter.value === null) {
    return [el('p', { class: 'facts' }, `The record, ${bytes(letter.value_size)}, is not UTF-8.`)];
  }
  const value = visible(letter.value);
  const record = el('pre', { class: 'record', tabindex: 0, role: 'region',
    'aria-label': `Record ${positionOf(letter)}` }, value.slice(0, SHOWN_CHARACTERS));
  const parts = [
    el('p', { class: 'facts' }, `The record, ${bytes(letter.value_size)}`
      + `${letter.value_cut ? `, cut at ${count(letter.value.length)} characters` : ''}:`),
    record,
  ];
  if (value.length > SHOWN_CHARACTERS) {
    const more = el('button', { type: 'button' }, `Show all ${count(value.length)} characters`);
    more.addEventListener('click', () => {
      setText(record, value);
      record.focus();
      more.remove();
    });
    parts.push(more);
  }
  return parts;
}
