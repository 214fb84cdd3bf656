/** Send what a person does about an incident, and remember what is on its way. */

import { postJson } from './api.js';
import { incidentKey } from './store.js';

const UNCONFIRMED_AFTER_MS = 5000;
const WORDS = { ack: 'Acknowledgement', silence: 'Silence', unsilence: 'End of silence' };
/** What to check when alerting has not confirmed a command. An incident may be silenced twice. */
const CHECK = { unsilence: 'Is its site silenced, too, or alerting not running?' };

/** By incident: what to say of its last command, and what the incident was when it was sent. */
const notices = new Map();

/** Return what to say about the last command of an incident, or null. */
export function noticeOf(incident) {
  const key = incidentKey(incident.rule, incident.subject);
  const notice = notices.get(key);
  if (!notice) return null;
  if (fingerprint(incident, notice.command) !== notice.before) {
    notices.delete(key);
    return null;
  }
  if (!notice.failed && performance.now() - notice.sentAt > UNCONFIRMED_AFTER_MS) {
    return { ...notice, pending: false,
      text: `${WORDS[notice.command]} sent, not yet confirmed by alerting. `
        + (CHECK[notice.command] ?? 'Is it running?') };
  }
  return notice;
}

/** Send a command about an incident; `changed()` is called when its notice changes. */
export async function sendCommand(incident, command, fields, changed) {
  const key = incidentKey(incident.rule, incident.subject);
  const notice = { command, before: fingerprint(incident, command), sentAt: performance.now(),
    pending: true, failed: false, text: `${WORDS[command]} sent …` };
  notices.set(key, notice);
  changed();
  try {
    const { rule, subject } = incident;
    await postJson('/api/commands', { command, rule, subject, ...fields });
  } catch (error) {
    if (notices.get(key) !== notice) return; // a later command has taken its place
    notices.set(key, { ...notice, pending: false, failed: true, text: error.message });
    changed();
  }
}

/** Return what a command is meant to change. An ack holds only up to the severity that it names. */
function fingerprint(incident, command) {
  const { status, acknowledged_by: by, silenced_until: until, alert_id: alertId } = incident;
  const severity = command === 'ack' ? incident.severity : null;
  return JSON.stringify([status, by, until, alertId, severity]);
}
