/** Choose light or dark mode before the first paint: the viewer's choice, else the system's. */

const KEY = 'rackstream-theme';
const system = matchMedia('(prefers-color-scheme: dark)');

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

let choice = stored();

function apply() {
  document.documentElement.dataset.theme = currentTheme();
}

/** Return the mode that is shown: `light` or `dark`. */
export function currentTheme() {
  if (choice === 'light' || choice === 'dark') return choice;
  return system.matches ? 'dark' : 'light';
}

/** Switch to the other mode, and remember it unless it is the system's. */
export function toggleTheme() {
  const next = currentTheme() === 'dark' ? 'light' : 'dark';
  choice = (next === 'dark') === system.matches ? null : next;
  try {
    if (choice === null) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, choice);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  apply();
}

system.addEventListener('change', apply);
apply();
