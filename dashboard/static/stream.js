/** Receive the server's events, and connect again for as long as it takes. */

const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 10_000;

/**
 * Open the stream. `receive(message, isSnapshot)` gets each message, `lost()` is called when the
 * connection breaks.
 *
 * The browser connects again after most failures, but gives up when the server refuses a
 * connection. Then this module does it.
 */
export function openStream(address, receive, lost) {
  let retry = FIRST_RETRY_MS;

  const connect = () => {
    const source = new EventSource(address);
    const listen = (name, isSnapshot) => source.addEventListener(name, (event) => {
      retry = FIRST_RETRY_MS;
      receive(JSON.parse(event.data), isSnapshot);
    });
    listen('snapshot', true);
    listen('update', false);
    source.addEventListener('error', () => {
      lost();
      if (source.readyState !== EventSource.CLOSED) return;
      setTimeout(connect, retry);
      retry = Math.min(LAST_RETRY_MS, retry * 2);
    });
  };
  connect();
}
