/**
 * The scale of temperatures.
 *
 * It is a line through the colour space OKLab, divided into steps of equal length. So equal
 * differences of temperature look equally large. The lightness never turns back, so the order of
 * the steps can be seen without seeing hues. In light mode hot is dark, in dark mode hot is light.
 */

const STEPS = 24;
/** The scale begins at most this far below the lowest threshold, however cold a reading is. */
const MAX_BELOW_THRESHOLD = 60;
const ANCHORS = {
  light: [[0.96, -0.015, -0.025], [0.87, -0.005, 0.075], [0.72, 0.085, 0.115],
    [0.53, 0.165, 0.09], [0.34, 0.12, 0.035]],
  dark: [[0.26, -0.01, -0.07], [0.41, 0.065, -0.11], [0.57, 0.155, -0.01],
    [0.75, 0.085, 0.125], [0.94, -0.015, 0.12]],
};

/** Return the channels 0 to 1 of a colour in OKLab, linear and not yet encoded. */
function toLinear([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((channel) => Math.min(1, Math.max(0, channel)));
}

function toCss(linear) {
  const channels = linear.map((value) => Math.round(255 * (
    value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055)));
  return `rgb(${channels.join(' ')})`;
}

/** Return black or white, whichever contrasts more (at least 4.5 to 1). */
function inkOn([red, green, blue]) {
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return (luminance + 0.05) ** 2 > 0.05 * 1.05 ? 'rgb(0 0 0)' : 'rgb(255 255 255)';
}

/** Return `STEPS` points at equal distances on the line through the anchors. */
function divide(anchors) {
  const lengths = anchors.slice(1).map((point, index) => Math.hypot(
    ...point.map((value, axis) => value - anchors[index][axis])));
  const total = lengths.reduce((sum, length) => sum + length, 0);
  return Array.from({ length: STEPS }, (_, step) => {
    let rest = (total * step) / (STEPS - 1);
    let leg = 0;
    while (leg < lengths.length - 1 && rest > lengths[leg]) rest -= lengths[leg++];
    const share = rest / lengths[leg];
    return anchors[leg].map((value, axis) => value + share * (anchors[leg + 1][axis] - value));
  });
}

/** Return the steps of a mode: `fill` and `ink` of each. */
function steps(mode) {
  return divide(ANCHORS[mode]).map(toLinear)
    .map((linear) => ({ fill: toCss(linear), ink: inkOn(linear) }));
}

/** Define the steps as properties of the page, which follow light and dark mode. */
export function defineProperties(style) {
  const light = steps('light');
  const dark = steps('dark');
  for (let step = 0; step < STEPS; step++) {
    style.setProperty(`--heat-${step}`, `light-dark(${light[step].fill}, ${dark[step].fill})`);
    style.setProperty(`--heat-ink-${step}`, `light-dark(${light[step].ink}, ${dark[step].ink})`);
  }
}

/** Return the step of a temperature between the ends of the scale. */
export function stepOf(temperature, low, high) {
  const step = Math.floor(((temperature - low) / (high - low)) * STEPS);
  return Math.min(STEPS - 1, Math.max(0, step));
}

/** Return a gradient of all steps, for the legend. */
export function gradient() {
  const stops = Array.from({ length: STEPS }, (_, step) => `var(--heat-${step})`);
  return `linear-gradient(to right, ${stops.join(', ')})`;
}

/**
 * Return the ends of the scale.
 * They follow the thresholds and all but the coldest racks, and only widen, so that a colour keeps
 * its meaning. Quarters of the scale are multiples of 5 °C.
 */
export function widen(ends, racks) {
  const thresholds = racks.map((rack) => rack.threshold_c).filter(Number.isFinite);
  const temperatures = racks.map((rack) => rack.temperature_c).filter(Number.isFinite)
    .sort((a, b) => a - b);
  if (thresholds.length === 0 || temperatures.length === 0) return ends;
  const threshold = Math.min(...thresholds);
  const cold = Math.max(temperatures[Math.floor(temperatures.length / 50)],
    threshold - MAX_BELOW_THRESHOLD);
  const low = Math.floor(Math.min(cold, threshold - 20, ends?.[0] ?? cold) / 5) * 5;
  const high = Math.max(Math.max(...thresholds) + 5, ends?.[1] ?? -Infinity);
  return [low, low + Math.ceil((high - low) / 20) * 20];
}
