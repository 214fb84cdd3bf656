/** Receive the server's events, and connect again for as long as it takes. */

const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 10_000;
/** The server sends at least every 2 s; after this long the connection is taken for dead. */
const SILENT_MS = 10_000;

/**
 * Open the stream. `receive(message, isSnapshot)` gets each message, `lost()` is called when the
 * connection breaks or falls silent.
 *
 * The browser notices neither a silent connection nor, when the server refuses one, that it should
 * try again. So this module connects after every failure, at random moments lest all pages do so at
 * once.
 */
export function openStream(address, receive, lost) {
  let retry = FIRST_RETRY_MS;

  const connect = () => {
    const source = new EventSource(address);
    let silence = 0;
    const reconnect = () => {
      clearTimeout(silence);
      source.close();
      lost();
      setTimeout(connect, retry * (0.5 + Math.random()));
      retry = Math.min(LAST_RETRY_MS, retry * 2);
    };
    const waitForMessage = () => {
      clearTimeout(silence);
      silence = setTimeout(reconnect, SILENT_MS);
    };
    const listen = (name, isSnapshot) => source.addEventListener(name, (event) => {
      waitForMessage();
      retry = FIRST_RETRY_MS;
      receive(JSON.parse(event.data), isSnapshot);
    });
    listen('snapshot', true);
    listen('update', false);
    source.addEventListener('error', reconnect);
    waitForMessage();
  };
  connect();
}
