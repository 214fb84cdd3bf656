/**
 * The floor plan: sites with one tile per rack.
 *
 * A frame changes a limited number of tiles, and of these only what differs. Many racks get small
 * tiles without text, whose readout is shown below the plan.
 */

import { gradient, stepOf, widen } from './colour.js';
import { byId, el, setAttribute, setShown, setText } from './dom.js';
import {
  age, celsius, decimal, idElement, idParts, idText, plural, ruleWord, setId,
} from './format.js';

const TILES_PER_FRAME = 100;
const DENSE_ABOVE = 160;
/** Three times the animation of `.flash` in floor.css. */
const FLASH_MS = 1500;
/** How long a person pauses before the page says what a search has found. */
const ANNOUNCE_AFTER_MS = 700;
const natural = new Intl.Collator('en', { numeric: true });

const tiles = new Map();
const sites = new Map();
const waiting = new Set();
let store;
let openRack;
let ends = null;
let dense = false;
let current = null;
let pointed = null;
let filterIsOld = false;
let announcement;

/** Prepare the floor plan; `open(rackId)` is called for the rack that a person chooses. */
export function initFloor(theStore, open) {
  store = theStore;
  openRack = open;
  const plan = byId('plan');
  plan.addEventListener('keydown', onKey);
  plan.addEventListener('click', (event) => {
    const tile = event.target.closest('.tile');
    if (tile) openRack(tile.dataset.rack);
  });
  plan.addEventListener('focusin', (event) => point(event.target.closest('.tile'), true));
  plan.addEventListener('pointerover', (event) => point(event.target.closest('.tile'), false));
  plan.addEventListener('pointerleave', () => point(null, false));
  byId('legend-bar').style.background = gradient();
  byId('rack-filter').addEventListener('input', search);
  byId('only-warning').addEventListener('change', search);
}

/** Return the tile of a rack. */
export const tileOf = (rackId) => tiles.get(rackId)?.node;

/** Draw what changed; return whether tiles are left for the next frame. */
export function updateFloor(changes) {
  if (changes.everything) removeGone();
  const changed = changes.everything ? store.racks.keys() : changes.racks;
  for (const rackId of changed) if (store.racks.has(rackId)) waiting.add(rackId);
  if (changes.tick || changes.everything) {
    for (const [rackId, tile] of tiles) {
      const rack = store.racks.get(rackId);
      if (rack && (tile.stale || store.isStale(rack))) waiting.add(rackId);
    }
    widenScale();
    updateSites();
  }
  addNewTiles();
  let left = TILES_PER_FRAME;
  for (const rackId of waiting) {
    if (left-- === 0) break;
    waiting.delete(rackId);
    updateTile(tiles.get(rackId), store.racks.get(rackId));
  }
  if (filterIsOld && byId('only-warning').checked) applyFilter();
  filterIsOld = false;
  if (pointed) showReadout();
  return waiting.size > 0;
}

function widenScale() {
  const before = ends;
  ends = widen(ends, [...store.racks.values()]);
  if (ends === null || (before?.[0] === ends[0] && before?.[1] === ends[1])) return;
  for (const tile of tiles.values()) {
    tile.step = null;
    waiting.add(tile.rackId);
  }
  const labels = byId('legend-labels');
  const parts = [0, 0.25, 0.5, 0.75, 1].map((part) => ends[0] + part * (ends[1] - ends[0]));
  labels.replaceChildren(...parts.map((value) => el('span', {}, `${decimal(value, 0)} °C`)));
  setShown(byId('legend'), true);
}

/** Insert the tiles of racks that are new, or at another site, in the order of sites and racks. */
function addNewTiles() {
  const focused = document.activeElement?.dataset?.rack;
  const added = [];
  for (const rackId of waiting) {
    const rack = store.racks.get(rackId);
    const tile = tiles.get(rackId);
    if (tile?.siteId === rack.site_id) continue;
    if (tile) removeTile(tile);
    added.push(rack);
  }
  if (added.length === 0) return;
  for (const rack of added) {
    const tile = createTile(rack);
    placeTile(tile);
    waiting.add(rack.rack_id);
    if (rack.rack_id === focused) tile.node.focus();
  }
  setShown(byId('plan-empty'), false);
  if (current === null) makeCurrent(tiles.get(added[0].rack_id));
  dense = tiles.size > DENSE_ABOVE;
  byId('plan').classList.toggle('dense', dense);
  applyFilter();
}

function createTile(rack) {
  const name = el('bdi', { class: 'tile-name', title: idText(rack.rack_id) },
    ...idParts(rack.rack_id).map((part) => el('span', {}, part)));
  const value = el('span', { class: 'tile-value' });
  const note = el('span', { class: 'tile-note' });
  const node = el('button', { type: 'button', class: 'tile', tabindex: -1,
    'aria-label': idText(rack.rack_id) },
    name, value, el('span', { class: 'tile-state' }, el('span', { class: 'mark' }), note));
  node.dataset.rack = rack.rack_id;
  const tile = { rackId: rack.rack_id, siteId: rack.site_id, node, value, note, step: null,
    stale: false, state: null, words: '' };
  tiles.set(rack.rack_id, tile);
  return tile;
}

function siteOf(siteId) {
  if (sites.has(siteId)) return sites.get(siteId);
  const floor = el('div', { class: 'racks', role: 'group' });
  const facts = el('span', { class: 'site-facts' });
  const heading = el('h3', {}, idElement(siteId));
  const node = el('section', { class: 'site' }, el('div', { class: 'site-head' }, heading, facts),
    floor);
  floor.setAttribute('aria-label', `Racks of ${idText(siteId)}`);
  const site = { siteId, node, floor, facts, order: [] };
  const after = [...sites.values()].filter((other) => natural.compare(other.siteId, siteId) > 0)
    .sort((a, b) => natural.compare(a.siteId, b.siteId))[0];
  byId('plan').insertBefore(node, after?.node ?? null);
  sites.set(siteId, site);
  return site;
}

function placeTile(tile) {
  const { order, floor } = siteOf(tile.siteId);
  let low = 0;
  let high = order.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (natural.compare(order[middle].rackId, tile.rackId) < 0) low = middle + 1;
    else high = middle;
  }
  floor.insertBefore(tile.node, order[low]?.node ?? null);
  order.splice(low, 0, tile);
}

function removeTile(tile) {
  const site = sites.get(tile.siteId);
  site.order.splice(site.order.indexOf(tile), 1);
  tile.node.remove();
  tiles.delete(tile.rackId);
  waiting.delete(tile.rackId);
  if (site.order.length === 0) {
    site.node.remove();
    sites.delete(tile.siteId);
  }
  if (current === tile) {
    current = null;
    const [next] = tiles.values();
    if (next) makeCurrent(next);
  }
}

function removeGone() {
  for (const tile of [...tiles.values()]) if (!store.racks.has(tile.rackId)) removeTile(tile);
  waiting.clear();
}

function updateTile(tile, rack) {
  const { node } = tile;
  const stale = store.isStale(rack);
  const warning = rack.state === 'WARNING';
  const open = warning ? store.openIncidents(rack.rack_id) : [];
  const handled = open.length > 0 && open.every((incident) => incident.status !== 'firing');
  const state = warning ? (handled ? 'handled' : 'WARNING') : 'NORMAL';
  const isKnown = Number.isFinite(rack.temperature_c);
  const step = stale || !isKnown || ends === null ? -1 : stepOf(rack.temperature_c, ...ends);
  if (step !== tile.step) {
    tile.step = step;
    node.style.background = step < 0 ? '' : `var(--heat-${step})`;
    node.style.color = step < 0 ? '' : `var(--heat-ink-${step})`;
  }
  if (state !== tile.state || stale !== tile.stale) {
    if (state === 'WARNING' && tile.state !== null && tile.state !== 'WARNING') flash(node);
    tile.state = state;
    tile.stale = stale;
    filterIsOld = true;
    setAttribute(node, 'data-state', rack.state);
    setAttribute(node, 'data-handled', handled);
    setAttribute(node, 'data-stale', stale);
  }
  const words = warning ? (rack.rules ?? []).map(ruleWord).join(', ') || 'warning' : null;
  const digits = dense ? 0 : 1;
  tile.words = `${decimal(rack.temperature_c, digits)} °C, `
    + stateText(rack, words, stale, handled);
  setAttribute(node, 'aria-label', `${idText(rack.rack_id)}, ${tile.words}`);
  if (dense) return;
  // Three digits leave no room for a decimal.
  const tenths = Math.abs(rack.temperature_c) < 99.95 ? 1 : 0;
  setText(tile.value, isKnown ? `${decimal(rack.temperature_c, tenths)}°` : '–');
  setText(tile.note, warning ? shortWords(rack.rules ?? []) : noteOf(rack, stale));
}

/** Return what stands on the tile of a normal rack. */
function noteOf(rack, stale) {
  if (!Number.isFinite(rack.temperature_c)) return 'no reading';
  return stale ? `${age(store.readingAge(rack))} old` : `of ${decimal(rack.threshold_c, 0)}°`;
}

/** Return what fits on a tile: the first rule's word, and how many more there are. */
function shortWords([first, ...more]) {
  if (first === undefined) return 'warning';
  return more.length > 0 ? `${ruleWord(first)} +${more.length}` : ruleWord(first);
}

function stateText(rack, words, stale, handled) {
  const parts = [words === null ? 'normal' : `warning: ${words}`];
  if (handled) parts.push('acknowledged or silenced');
  if (stale) parts.push('stale');
  parts.push(`threshold ${celsius(rack.threshold_c)}`);
  return parts.join(', ');
}

/** Let a tile flash. A tile that the filter hides has no animation, whose end could be awaited. */
function flash(node) {
  node.classList.add('flash');
  setTimeout(() => node.classList.remove('flash'), FLASH_MS);
}

function updateSites() {
  for (const site of sites.values()) {
    let warning = 0;
    let stale = 0;
    for (const tile of site.order) {
      const rack = store.racks.get(tile.rackId);
      if (rack?.state === 'WARNING') warning++;
      if (rack && store.isStale(rack)) stale++;
    }
    const outage = store.openIncidents(site.siteId).some(({ rule }) => rule === 'site-outage');
    const parts = [plural(site.order.length, 'rack')];
    if (warning > 0) parts.push(`${warning} in warning`);
    if (stale > 0) parts.push(`${stale} stale`);
    if (outage) parts.push('site outage');
    setText(site.facts, parts.join(' · '));
    setAttribute(site.node, 'data-outage', outage);
  }
}

/** Make a tile the one that Tab reaches. */
function makeCurrent(tile) {
  if (current) current.node.tabIndex = -1;
  current = tile;
  tile.node.tabIndex = 0;
}

function point(node, focused) {
  const tile = node ? tiles.get(node.dataset.rack) : null;
  if (tile && focused) makeCurrent(tile);
  pointed = tile ?? (focused ? null : tiles.get(document.activeElement?.dataset?.rack) ?? null);
  showReadout();
}

function showReadout() {
  const rack = pointed && store.racks.get(pointed.rackId);
  const readout = byId('plan-readout');
  const [id, words] = readout.children;
  if (rack) setId(id, rack.rack_id);
  setShown(id, Boolean(rack));
  setText(words, rack ? `, ${pointed.words}`
    : 'Arrow keys move between racks, Enter opens one.');
}

function onKey(event) {
  const tile = tiles.get(event.target.dataset?.rack);
  if (!tile) return;
  const next = neighbour(tile, event.key);
  if (next === undefined) return;
  event.preventDefault();
  if (next) next.node.focus();
}

/** Return the tile that a key leads to: undefined for another key, null at the edge. */
function neighbour(tile, key) {
  const shown = [...byId('plan').querySelectorAll('.tile:not([hidden])')];
  const at = shown.indexOf(tile.node);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
  if (step) return tiles.get(shown[at + step]?.dataset.rack) ?? null;
  if (key === 'Home') return tiles.get(shown[0].dataset.rack);
  if (key === 'End') return tiles.get(shown.at(-1).dataset.rack);
  if (key !== 'ArrowDown' && key !== 'ArrowUp') return undefined;
  const from = tile.node.getBoundingClientRect();
  const sign = key === 'ArrowDown' ? 1 : -1;
  let best = null;
  let bestDistance = Infinity;
  for (const node of shown) {
    const to = node.getBoundingClientRect();
    const down = sign * (to.top - from.top);
    if (down < from.height / 2) continue;
    const distance = down * 4 + Math.abs(to.left - from.left);
    if (distance < bestDistance) [best, bestDistance] = [node, distance];
  }
  return best ? tiles.get(best.dataset.rack) : null;
}

/** Show the racks that a person asks for, and announce how many these are. */
function search() {
  const shown = applyFilter();
  setText(byId('announcer'), ''); // or else the same result twice would be announced once
  clearTimeout(announcement);
  if (tiles.size === 0) return;
  announcement = setTimeout(() => {
    setText(byId('announcer'), shown ? `${plural(shown, 'rack')} shown.` : 'No rack matches.');
  }, ANNOUNCE_AFTER_MS);
}

/** Show only the racks that the search field and the switch ask for; return how many. */
function applyFilter() {
  const text = byId('rack-filter').value.trim().toLowerCase();
  const onlyWarning = byId('only-warning').checked;
  let shown = 0;
  for (const site of sites.values()) {
    let any = false;
    for (const tile of site.order) {
      const rack = store.racks.get(tile.rackId);
      const found = `${tile.rackId} ${tile.siteId}`.toLowerCase().includes(text);
      const matches = tile.node === document.activeElement
        || (found && (!onlyWarning || rack?.state === 'WARNING'));
      setShown(tile.node, matches);
      any ||= matches;
      if (matches) shown++;
    }
    setShown(site.node, any);
  }
  setShown(byId('plan-none'), shown === 0 && tiles.size > 0);
  if (current?.node.hidden) {
    const first = byId('plan').querySelector('.tile:not([hidden])');
    if (first) makeCurrent(tiles.get(first.dataset.rack));
  }
  return shown;
}
