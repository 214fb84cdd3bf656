/** Ask the server; every failure is an error whose message is a sentence for people. */

/** Return the JSON of an address. */
export async function getJson(address, signal) {
  return (await ask(address, { signal })).json();
}

/** Send JSON to an address. */
export async function postJson(address, body) {
  await ask(address, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Requested-With': 'rackstream-dashboard' },
    body: JSON.stringify(body),
  });
}

async function ask(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (cause) {
    throw new Error('The dashboard’s server does not answer.', { cause });
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new Error(body?.error ?? `The server answered with status ${response.status}.`);
}
