import { waitUntil } from "cloudflare:workers";
import { PlatformKeys } from "../../../src/config/platform-keys.ts";
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
  /** What its test has deployed over the variables of all, as JSON, with a number. */
  readonly deployment: string | null;
  readonly worker: Worker;
  readonly variables: Readonly<Record<string, unknown>>;
}

const cas = new Map<string, ClockedCa>();

/** The CA of this name, at this instant. It is founded on the day of its first event; a deployment starts an isolate. */
async function caAt(
  { name, now }: Addressee,
  environment: Readonly<Record<string, unknown>>,
): Promise<ClockedCa> {
  const AUTHORITIES = environment[`AUTHORITIES_${name}`] as KVNamespace;
  const deployment = await AUTHORITIES.get("deployment");
  const known = cas.get(name);
  if (known?.deployment === deployment) return Object.assign(known, { now });
  const variables = {
    INCEPTION_DATE: now.toISOString().slice(0, 10),
    ...JSON.parse(deployment ?? "{}").values,
    AUTHORITIES,
  };
  const worker = createWorker({
    clock: () => ca.now,
    openKeyCustody: PlatformKeys.open,
    inBackground: (work) => waitUntil(work),
  });
  const ca: ClockedCa = { now, deployment, variables, worker };
  cas.set(name, ca);
  return ca;
}

/** The Worker for tests whose subject is time: several CAs, each by the clock that its test sets. */
export default {
  async fetch(request, environment) {
    const [name = "", now = ""] = ["ca-name", "ca-now"].map(
      (key) => request.headers.get(key) ?? "",
    );
    const { worker, variables } = await caAt({ name, now: new Date(now) }, environment);
    return worker.fetch(request, { ...environment, ...variables });
  },
  /** The cron's string names the CA. */
  async scheduled(event, environment) {
    const now = new Date(event.scheduledTime);
    const { worker, variables } = await caAt({ name: event.cron, now }, environment);
    return worker.scheduled(event, { ...environment, ...variables });
  },
} satisfies Worker;
