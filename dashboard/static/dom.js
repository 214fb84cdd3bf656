/** Build and change elements; all text goes in as text nodes, never as markup. */

/** Create an element with attributes, listeners (`on`) and children. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else {
      setAttribute(node, name, value);
    }
  }
  node.append(...children);
  return node;
}

/** Return the element with this id. */
export const byId = (id) => document.getElementById(id);

/** Set the only text of an element, if it changed. */
export function setText(node, text) {
  const first = node.firstChild;
  if (first === null) node.append(text);
  else if (first.data !== text) first.data = text;
}

/** Set an attribute if it changed; null and false remove it. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** Show or hide an element. */
export function setShown(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}

/** Change a part of the page; if that takes the focus away from it, `fallback` gets it. */
export function keepFocus(part, fallback, change) {
  const hadFocus = part.contains(document.activeElement);
  change();
  if (hadFocus && !part.contains(document.activeElement)) fallback.focus();
}

const childrenByKey = new WeakMap();

/**
 * Make `parent` hold one child per item, in order.
 * Children are reused by key, and the focus stays where it is.
 */
export function syncList(parent, items, keyOf, create, update) {
  const before = childrenByKey.get(parent) ?? new Map();
  const after = new Map();
  for (const item of items) {
    const key = keyOf(item);
    after.set(key, before.get(key) ?? create(item));
  }
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  for (const [key, node] of before) if (!after.has(key)) node.remove();
  let cursor = parent.firstChild;
  for (const node of after.values()) {
    if (node === cursor) cursor = cursor.nextSibling;
    else parent.insertBefore(node, cursor);
  }
  if (focused?.isConnected && document.activeElement !== focused) {
    focused.focus({ preventScroll: true });
  }
  childrenByKey.set(parent, after);
  for (const item of items) update(after.get(keyOf(item)), item);
}

const figures = new Map();

/** Show a figure wherever the page has it, and keep its exact value in `data-value`. */
export function showFigure(name, value, text) {
  if (!figures.has(name)) figures.set(name, document.querySelectorAll(`[data-figure="${name}"]`));
  for (const node of figures.get(name)) {
    setAttribute(node, 'data-value', value ?? '');
    setText(node, text);
  }
}

/** Create a table inside a region that scrolls sideways, also by keyboard. */
export function scrollingTable(label, columns) {
  const body = el('tbody');
  const head = el('tr', {}, ...columns.map((column) => headerCell(column)));
  const table = el('table', {}, el('thead', {}, head), body);
  const region = el('div', { class: 'scroller', role: 'region', 'aria-label': label, tabindex: 0 },
    table);
  return { region, body };
}

function headerCell(column) {
  const [text, kind] = Array.isArray(column) ? column : [column, null];
  return el('th', { scope: 'col', class: kind }, text);
}
