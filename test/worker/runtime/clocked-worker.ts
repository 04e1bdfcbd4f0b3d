import type { Worker } from "../../../src/worker/variables.ts";
import { createWorker } from "../../../src/worker/worker.ts";

/** The CA that an event is for, and the time at that CA. */
interface Addressee {
  readonly name: string;
  readonly now: Date;
}

/** One CA, with its own clock, isolate and namespace. */
interface ClockedCa {
  now: Date;
  readonly worker: Worker;
  readonly variables: Readonly<Record<string, unknown>>;
}

const cas = new Map<string, ClockedCa>();

/** The CA of this name, at this instant. It is founded on the day of its first event. */
function caAt({ name, now }: Addressee, environment: Readonly<Record<string, unknown>>): ClockedCa {
  const known = cas.get(name);
  if (known) return Object.assign(known, { now });
  const variables = {
    AUTHORITIES: environment[`AUTHORITIES_${name}`],
    INCEPTION_DATE: now.toISOString().slice(0, 10),
  };
  const ca: ClockedCa = { now, variables, worker: createWorker({ clock: () => ca.now }) };
  cas.set(name, ca);
  return ca;
}

/** The Worker for tests whose subject is time: several CAs, each by the clock that its test sets. */
export default {
  fetch(request, environment) {
    const [name = "", now = ""] = ["ca-name", "ca-now"].map(
      (key) => request.headers.get(key) ?? "",
    );
    const { worker, variables } = caAt({ name, now: new Date(now) }, environment);
    return worker.fetch(request, { ...environment, ...variables });
  },
  /** The cron's string names the CA. */
  scheduled(event, environment) {
    const now = new Date(event.scheduledTime);
    const { worker, variables } = caAt({ name: event.cron, now }, environment);
    return worker.scheduled(event, { ...environment, ...variables });
  },
} satisfies Worker;
