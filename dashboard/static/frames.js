/** Spread work over frames, so that no frame is long. */

const waiting = new Set();

/** Do this in one of the next frames, which do one such work each; asking twice does it once. */
export function inOneOfTheNextFrames(work) {
  if (waiting.size === 0) requestAnimationFrame(doNext);
  waiting.add(work);
}

function doNext() {
  const [work] = waiting;
  waiting.delete(work);
  if (waiting.size > 0) requestAnimationFrame(doNext);
  work();
}
