import type { EventLog, OperationalEvent } from "../ca/audit-event.ts";
import type { Mint } from "../ca/mint.ts";
import { assemble, type OpenedStore, openRecord } from "../ca/opened-store.ts";
import { compose } from "../config/composition.ts";
import type { Configuration } from "../config/configuration.ts";
import type { AuthorityStore } from "../custody/authority-store.ts";
import { type DeploymentChoice, openDeployment } from "./deployment.ts";
import { Obstacle } from "./obstacle.ts";
import { createSessionStore, type SessionStore } from "./session-store.ts";

/** One run of a verb: a CA, what may be done to it, and the instant at which it is looked at. */
export interface Session {
  readonly mint: Mint & { readonly store: SessionStore };
  readonly configuration: Configuration;
  readonly place: string;
  readonly now: Date;
  /** Whether nothing that it writes leaves the session. */
  readonly isDry: boolean;
}

/** The options that a session is made from. */
export interface SessionOptions extends DeploymentChoice {
  readonly dryRun?: boolean;
}

/** Opens the chosen CA for one verb, and closes it after. */
export async function withSession(
  options: SessionOptions,
  now: Date,
  use: (session: Session) => Promise<void>,
): Promise<void> {
  const { configuration, store, place, close } = await openDeployment(options);
  try {
    const isDry = options.dryRun ?? false;
    const sessionStore = createSessionStore(inWords(store, place), isDry);
    const platform = { store: sessionStore, log: isDry ? dryLog : terminalLog, clock: () => now };
    const { mint } = await compose(configuration, platform);
    await use({ mint: { ...mint, store: sessionStore }, configuration, place, now, isDry });
  } finally {
    await close();
  }
}

/** What keeps a store from its work is no defect of the verb. */
function inWords(store: AuthorityStore, place: string): AuthorityStore {
  const tell =
    (act: string) =>
    (error: unknown): never => {
      if (error instanceof Obstacle) throw error;
      const why = error instanceof Error ? error.message : "the store fails";
      throw new Obstacle(`the ${place} cannot be ${act}: ${why}`);
    };
  return {
    load: () => store.load().catch(tell("read")),
    put: (record) => store.put(record).catch(tell("written")),
    delete: (name) => store.delete(name).catch(tell("written")),
  };
}

/** What the session's store says, as far as it opens. */
export async function openStore({ mint }: Session): Promise<OpenedStore> {
  const stored = await mint.store.load();
  return assemble(await Promise.all(stored.map((record) => openRecord(record, mint))));
}

/** What was shown is what opens: an answer that lacks something is a failure all the same. */
export function requireAllOpen({ refusals }: OpenedStore): void {
  if (refusals.length > 0) throw new Obstacle(`records that do not open: ${refusals.length}`);
}

/** Events on the standard error, so that the standard output is the verb's answer alone. */
const terminalLog: EventLog = {
  audit: () => {},
  operation: ({ event, level, detail, ...fields }: OperationalEvent) => {
    const evidence = Object.entries(fields).map(([name, value]) => `${name} ${value}`);
    console.error(`${level}: ${event}: ${[detail, ...evidence].join(", ")}`);
  },
};

/** What a dry run only pretends to do did not happen; what is wrong is wrong all the same. */
const dryLog: EventLog = {
  ...terminalLog,
  operation: (event) => {
    if (event.level === "error") terminalLog.operation(event);
  },
};
