/** Dead letters: how many for which reason, and on demand the last ones with their record. */

import { getJson } from './api.js';
import { byId, el, setShown, setText, syncList } from './dom.js';
import { bytes, count, idElement, idText, timeElement, visible } from './format.js';

const REFRESH_MS = 2000;
const SHOWN_CHARACTERS = 2000;
const HEX_BYTES = 16;

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
    const { dead_letters: deadLetters } = await getJson('/api/dead-letters');
    syncList(byId('dead-letters-list'), deadLetters, keyOf, create, () => {});
    loadedCount = number;
    setText(problem, '');
  } catch (error) {
    setText(problem, error.message);
  } finally {
    loading = false;
    loadedAt = performance.now();
  }
}

const keyOf = ({ source_topic: topic, partition, offset }) => `${topic}|${partition}|${offset}`;

const placeOf = ({ partition, offset }) => `-${partition} @ ${offset}`;

function create(deadLetter) {
  const node = el('details', {},
    el('summary', {}, el('span', { class: 'tag' }, deadLetter.reason), ' ',
      el('code', {}, idElement(deadLetter.source_topic), placeOf(deadLetter)), ' ',
      timeElement(deadLetter.seen_time), ' ',
      el('span', { class: 'dead-letter-error' }, visible(deadLetter.error))));
  node.addEventListener('toggle', () => {
    if (node.children.length === 1) node.append(...details(deadLetter));
  });
  return el('li', {}, node);
}

function details(deadLetter) {
  const { value, value_size: size, value_cut: isCut } = deadLetter;
  if (value === null) return hexDetails(deadLetter);
  const text = visible(value);
  const record = recordElement(deadLetter, text.slice(0, SHOWN_CHARACTERS));
  const parts = [
    el('p', { class: 'facts' }, `The record, ${bytes(size)}`
      + `${isCut ? `, cut at ${count(value.length)} characters` : ''}:`),
    record,
  ];
  if (text.length > SHOWN_CHARACTERS) {
    const more = el('button', { type: 'button' }, `Show all ${count(text.length)} characters`);
    more.addEventListener('click', () => {
      setText(record, text);
      record.focus();
      more.remove();
    });
    parts.push(more);
  }
  return parts;
}

/** Describe a record that is no text, by its first bytes where they are known. */
function hexDetails(deadLetter) {
  const fact = `The record, ${bytes(deadLetter.value_size)}, is not UTF-8.`;
  const data = decode(deadLetter.value_base64);
  if (data === '') return [el('p', { class: 'facts' }, fact)];
  const record = recordElement(deadLetter, hexDump(data));
  record.classList.add('hex');
  const all = data.length >= deadLetter.value_size;
  return [el('p', { class: 'facts' },
    all ? fact : `${fact} Its first ${count(data.length)} bytes:`), record];
}

function recordElement(deadLetter, text) {
  return el('pre', { class: 'record', tabindex: 0, role: 'region',
    'aria-label': `Record ${idText(deadLetter.source_topic)}${placeOf(deadLetter)}` }, text);
}

/** Return the bytes of base64 as a string of one character each; empty for what is no base64. */
function decode(base64) {
  try {
    return atob(base64 ?? '');
  } catch {
    return '';
  }
}

/** Return lines of an offset, bytes in hexadecimal, and the same as ASCII. */
function hexDump(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += HEX_BYTES) {
    const part = [...data.slice(at, at + HEX_BYTES)];
    const hex = part.map((byte) => byte.charCodeAt(0).toString(16).padStart(2, '0')).join(' ');
    const ascii = part.map((byte) => (byte >= ' ' && byte <= '~' ? byte : '.')).join('');
    lines.push(`${at.toString(16).padStart(4, '0')}  ${hex.padEnd(3 * HEX_BYTES - 1)}  ${ascii}`);
  }
  return lines.join('\n');
}
