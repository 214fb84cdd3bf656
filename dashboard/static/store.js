/** Keep what the server sent last, and say what changed since the last drawing. */

/** How long a rack may be without a reading before its temperature is marked stale. */
const RACK_STALE_MS = 10_000;

const SECTIONS = ['broker', 'windows', 'clickstream', 'signals', 'pipeline', 'counts', 'alerts',
  'topics_missing', 'limits'];

/** What changed since the last drawing; bounded by the number of racks and incidents. */
class Changes {
  racks = new Set();
  incidents = new Set();
  sections = new Set();
  everything = false;
  tick = false;

  /** Return whether one of these sections changed. */
  has(...sections) {
    return this.everything || sections.some((section) => this.sections.has(section));
  }
}

/** Return the key of an incident, which a rule and a subject have one of. */
export const incidentKey = (rule, subject) => `${rule}|${subject}`;

/** Return whether an incident is not resolved. */
export const isOpen = (incident) => incident.status !== 'resolved';

/** The state of the pipeline as far as this page knows it. */
export class Store {
  racks = new Map();
  incidents = new Map();
  sections = {};
  changes = new Changes();
  received = false;
  lastMessageAt = -Infinity;
  lastMessageTime = null;
  #clockOffset = 0;
  #bySubject = new Map();

  /** Take a snapshot or an update. */
  apply(message, isSnapshot) {
    this.lastMessageAt = performance.now();
    this.lastMessageTime = Date.now();
    this.received = true;
    if (Number.isFinite(message.server_time_ms)) {
      this.#clockOffset = message.server_time_ms - Date.now();
    }
    if (isSnapshot) this.#forget();
    for (const rack of message.racks ?? []) {
      this.racks.set(rack.rack_id, rack);
      this.changes.racks.add(rack.rack_id);
    }
    for (const incident of message.incidents ?? []) this.#putIncident(incident);
    for (const [rule, subject] of message.incidents_removed ?? []) {
      this.#removeIncident(rule, subject);
    }
    for (const name of SECTIONS) {
      if (message[name] === undefined) continue;
      this.sections[name] = message[name];
      this.changes.sections.add(name);
    }
  }

  /** Return the changes, and start to collect the next ones. */
  takeChanges() {
    const changes = this.changes;
    this.changes = new Changes();
    return changes;
  }

  /** Return the server's clock in epoch milliseconds. */
  serverNow() {
    return Date.now() + this.#clockOffset;
  }

  /** Return for how long a rack has been without a reading, in milliseconds. */
  readingAge(rack) {
    return rack.append_time_ms ? Math.max(0, this.serverNow() - rack.append_time_ms) : Infinity;
  }

  /** Return whether a rack's temperature is no longer true. */
  isStale(rack) {
    return this.readingAge(rack) > RACK_STALE_MS;
  }

  /** Return what is known of alerting while it does not work, else null. */
  faultyAlerting() {
    const alerting = this.sections.pipeline?.alerting;
    return alerting?.healthy === false ? alerting : null;
  }

  /** Return the open incidents of a subject. */
  openIncidents(subject) {
    return [...this.#bySubject.get(subject)?.values() ?? []].filter(isOpen);
  }

  /** Return all incidents of a rack and of its site's outages. */
  incidentsOf(rack) {
    const own = [...this.#bySubject.get(rack.rack_id)?.values() ?? []];
    const site = this.incidents.get(incidentKey('site-outage', rack.site_id));
    return site ? [...own, site] : own;
  }

  #forget() {
    this.racks.clear();
    this.incidents.clear();
    this.#bySubject.clear();
    this.sections = {};
    this.changes.everything = true;
  }

  #putIncident(incident) {
    const { rule, subject } = incident;
    const key = incidentKey(rule, subject);
    this.incidents.set(key, incident);
    if (!this.#bySubject.has(subject)) this.#bySubject.set(subject, new Map());
    this.#bySubject.get(subject).set(rule, incident);
    this.changes.incidents.add(key);
    this.changes.racks.add(subject);
  }

  #removeIncident(rule, subject) {
    this.incidents.delete(incidentKey(rule, subject));
    const rules = this.#bySubject.get(subject);
    rules?.delete(rule);
    if (rules?.size === 0) this.#bySubject.delete(subject);
    this.changes.incidents.add(incidentKey(rule, subject));
    this.changes.racks.add(subject);
  }
}
