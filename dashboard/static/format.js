/** Write times, numbers, ids and the field's words for people. */

import { el, setAttribute, setText } from './dom.js';

const LANGUAGE = 'en-GB';
/** Characters that cannot be seen: controls, marks of direction, zero-width ones, line ends. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
/** So many last characters of an id stay when its middle is cut. */
const END_CHARACTERS = 4;
let zone;
let formats;

/** Show times in the viewer's zone, or in UTC. */
export function useUtc(utc) {
  zone = utc ? 'UTC' : undefined;
  const seconds = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' };
  const options = { timeZone: zone };
  formats = {
    seconds: new Intl.DateTimeFormat(LANGUAGE, { ...options, ...seconds }),
    minutes: new Intl.DateTimeFormat(LANGUAGE,
      { ...options, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
    milliseconds: new Intl.DateTimeFormat(LANGUAGE,
      { ...options, ...seconds, fractionalSecondDigits: 3 }),
    day: new Intl.DateTimeFormat(LANGUAGE, { ...options, day: 'numeric', month: 'short' }),
    dayKey: new Intl.DateTimeFormat('sv-SE', options),
    zone: new Intl.DateTimeFormat(LANGUAGE, { ...options, timeZoneName: 'short' }),
  };
}
useUtc(false);

/** Return the short name of the zone in which times are shown. */
export function zoneName() {
  const parts = formats.zone.formatToParts(Date.now());
  return parts.find((part) => part.type === 'timeZoneName')?.value ?? 'local';
}

/** Return epoch milliseconds of ISO text or a number, or null. */
export function toMs(time) {
  if (time === null || time === undefined) return null;
  const ms = typeof time === 'number' ? time : Date.parse(time);
  return Number.isFinite(ms) && Math.abs(ms) <= 8.64e15 ? ms : null;
}

/** Return a time of day without the day, for axes. */
export function timeOfDay(time, precision = 'seconds') {
  const ms = toMs(time);
  return ms === null ? '–' : formats[precision].format(ms);
}

/** Return a time of day; with the day unless it is today. */
export function clock(time, precision = 'seconds') {
  const ms = toMs(time);
  if (ms === null) return '–';
  const text = timeOfDay(ms, precision);
  const today = formats.dayKey.format(ms) === formats.dayKey.format(Date.now());
  return today ? text : `${formats.day.format(ms)}, ${text}`;
}

/** Return a time in UTC, as it is on the wire but easier to read. */
export function utc(time) {
  const ms = toMs(time);
  return ms === null ? '' : `${new Date(ms).toISOString().replace('T', ' ').replace('Z', '')} UTC`;
}

/** Make a `<time>` show a moment, with UTC in its title. */
export function setTime(node, time, precision = 'seconds') {
  const ms = toMs(time);
  setAttribute(node, 'data-precision', precision === 'seconds' ? null : precision);
  setText(node, clock(ms, precision));
  setAttribute(node, 'datetime', ms === null ? null : new Date(ms).toISOString());
  setAttribute(node, 'title', utc(ms));
}

/** Create a `<time>`. */
export function timeElement(time, precision) {
  const node = el('time');
  setTime(node, time, precision);
  return node;
}

/** Write all times on the page again, after the zone changed. */
export function rewriteTimes() {
  for (const node of document.querySelectorAll('time[datetime]')) {
    setTime(node, node.dateTime, node.dataset.precision);
  }
}

/** Return a length of time: `8 s`, `3 min`, `2 h 5 min`. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return '–';
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes} min ${seconds % 60} s`;
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Return an age in its largest unit, for narrow places: `8 s`, `3 min`. */
export function age(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  const hours = Math.floor(seconds / 3600);
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`;
}

/** Return a latency: in milliseconds below ten seconds. */
export function latencyText(ms) {
  return ms < 10_000 ? `${count(ms)} ms` : `${count(ms / 1000)} s`;
}

const integers = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 0 });
const decimals = [0, 1, 2, 3].map((digits) => new Intl.NumberFormat(LANGUAGE,
  { minimumFractionDigits: digits, maximumFractionDigits: digits }));

/** Return a whole number with separators, or a dash. */
export const count = (value) => (Number.isFinite(value) ? integers.format(value) : '–');

/** Return a number with this many decimals, or a dash. */
export const decimal = (value, digits = 1) => (
  Number.isFinite(value) ? decimals[digits].format(value) : '–');

/** Return a temperature in °C. */
export const celsius = (value) => (Number.isFinite(value) ? `${decimal(value)} °C` : '–');

/** Return an amount of money: digits as they came, with separators. */
export function money(text) {
  if (text === null || text === undefined) return '–';
  const [whole, cents = '00'] = String(text).split('.');
  return `${whole.replace(/\B(?=(\d{3})+$)/g, ',')}.${cents.padEnd(2, '0')}`;
}

/** Return a part of a whole as a percentage. */
export const percent = (part, whole) => (whole > 0 ? `${decimal((100 * part) / whole)} %` : '–');

/** Return a number of bytes. */
export function bytes(value) {
  if (!Number.isFinite(value)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, value)) / 10));
  return `${decimal(value / 1024 ** power, power === 0 ? 0 : 1)} ${units[power]}`;
}

/** Return a number of things: `1 rack`, `2 racks`. */
export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? '' : 's'}`;

/** Return text in which invisible characters are written as their code points. */
export function visible(text) {
  return text.replace(INVISIBLE, (character) => (character === '\n' ? character
    : `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`));
}

/** Return an id as one line in which nothing is invisible. */
export function idText(id) {
  const text = visible(id ?? '').replaceAll('\n', '⟨U+000A⟩');
  return text.trim() === '' ? '(empty)' : text;
}

/** Return an id in two parts; where it has no room, the end of the first is what may be cut. */
export function idParts(id) {
  const characters = [...idText(id)];
  const end = characters.splice(-END_CHARACTERS);
  return [characters.join(''), end.join('')];
}

/** Make an element show an id: isolated from its surroundings, the whole of it in the title. */
export function setId(node, id) {
  setText(node, idText(id));
  setAttribute(node, 'title', idText(id));
}

/** Create the element of an id. */
export function idElement(id) {
  const node = el('bdi', { class: 'id' });
  setId(node, id);
  return node;
}

/** Return a rule's name in words: Weak signal for weak-signal. */
export const ruleName = (rule) => {
  const words = rule.replaceAll('-', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
};

const RULE_WORDS = {
  'rack-overheating': 'hot',
  'lost-signal': 'lossy',
  'silent-sensor': 'silent',
  'weak-signal': 'weak',
  'site-outage': 'outage',
};

/** Return what to say while alerting does not work; it has published all up to `as_of_ms`. */
export function faultyAlertingText({ as_of_ms: ms }) {
  const asOf = toMs(ms) === null ? '' : ` The incidents are as of ${clock(ms)}.`;
  return `Alerting is not working.${asOf} Newer incidents are missing.`;
}

/** Return what a rule says of a rack, in a word; without one, the rule. */
export const ruleWord = (rule) => RULE_WORDS[rule] ?? rule;
