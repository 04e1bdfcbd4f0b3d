import type { AuthorityView } from "../../ca/authority-view.ts";
import type { EventLog } from "../../ca/issuance/event-log.ts";
import type { Mint } from "../../ca/mint.ts";
import { OpenedStore } from "../../ca/opened-store.ts";
import { type UpstreamAuthority, UpstreamError } from "../../ca/upstream-authority.ts";
import type { Configuration } from "../../config/configuration.ts";
import {
  type AuthorityStore,
  RecordName,
  type StoredRecord,
} from "../../custody/authority-store.ts";
import { CaError, messageOf, OperatorError } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";
import { AuthorityStatus } from "../../status/authorities.ts";
import { errorsOf, explainingSignals, logOf } from "../terminal/failures.ts";
import { confirm } from "../terminal/questions.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { type Deployment, type DeploymentChoice, openDeployment } from "./deployment.ts";
import { currentView, storesAt } from "./stores.ts";

/** One run of a verb: a CA, the means to change it, and the instant of the run. */
export interface Session {
  readonly terminal: Terminal;
  readonly mint: Mint & { readonly store: SessionStore };
  readonly configuration: Configuration;
  readonly place: string;
  readonly now: Date;
  readonly log: OperationLog;
  /** Whether writes stay in the session. */
  readonly isDry: boolean;
  /** Whether nobody is asked before a change: in a dry run, and with `--yes`. */
  readonly isConfirmed: boolean;
  /** The authorities in the store of the CA, those of all signers included; `undefined` if it cannot be read. */
  readonly currentView: () => Promise<AuthorityView | undefined>;
}

/** The options that choose a deployment, and how a verb acts on it. */
export interface SessionOptions extends DeploymentChoice {
  readonly dryRun?: boolean;
  readonly json?: boolean;
  readonly yes?: boolean;
}

/** Opens sessions, and does in one what several verbs need. */
export const Session = {
  /**
   * Runs a verb on the chosen CA, which it opens before and closes afterwards.
   * @throws OperatorError if it cannot be opened.
   */
  async use(
    terminal: Terminal,
    options: SessionOptions,
    use: (session: Session) => Promise<void>,
  ): Promise<void> {
    const { signer } = options;
    terminal.nameCa(options);
    using _ = explainingSignals(
      terminal,
      "a part may be done: `rampart authority list` shows what the store holds",
    );
    const log = logOf(terminal);
    const open = () => openDeployment(options, terminal.environment, terminal.clock());
    const deployment = await terminal.progress("opening the store", open, options);
    const { place, close } = deployment;
    terminal.noticePlace(signer === undefined ? place : `${place}, signer ${signer}`, options);
    try {
      await use(await sessionOn(terminal, deployment, options, log));
    } finally {
      await close();
    }
  },

  /**
   * Makes the action of a verb that works in a session: Commander's options choose the CA, and the verb gets the
   * arguments and options.
   */
  action:
    <Typed extends readonly unknown[]>(
      terminal: Terminal,
      verb: (session: Session, ...typed: Typed) => Promise<void>,
    ) =>
    (...given: readonly unknown[]): Promise<void> =>
      Session.use(terminal, given.at(-2) as SessionOptions, (session) =>
        verb(session, ...(given.slice(0, -1) as unknown as Typed)),
      ),

  /**
   * Asks before a change that cannot be undone, except in a dry run or with `--yes`. An answer may take long, so that the
   * store is read again after it.
   * @throws OperatorError if the answer is no, or nobody can be asked.
   */
  async confirm({ terminal, isConfirmed, mint }: Session, question: string): Promise<void> {
    if (isConfirmed) return;
    await confirm(terminal, question);
    mint.store.forget();
  },

  /** Loads the store and unseals its records. Records that do not open are among its `refusals`. */
  async open({ mint }: Session): Promise<OpenedStore> {
    const stored = await mint.store.load();
    return OpenedStore.open(stored, mint);
  },

  /**
   * Opens the store for a verb that writes. Records that do not open are among its `refusals`.
   * @throws OperatorError if it holds authorities, and none of them opens with this KEK.
   */
  async openToWrite(session: Session): Promise<OpenedStore> {
    const store = await Session.open(session);
    const unopened = AuthorityStatus.unopenedIn(store);
    if (unopened === undefined) return store;
    throw new OperatorError(`${unopened} Compare KEK with your copy of it: nothing was written`);
  },

  /**
   * Requires that every record of the store has opened, because an incomplete answer would be wrong.
   * @throws OperatorError with the number of records that did not open.
   */
  requireAllOpen({ refusals }: OpenedStore): void {
    if (refusals.length > 0)
      throw new OperatorError(`the store holds records that do not open: ${refusals.length}`);
  },

  /**
   * Prints a list of what a store holds. If a record of the store does not open, the list may be incomplete: it is printed
   * unless it is empty, and then the error is thrown.
   * @throws OperatorError as {@link requireAllOpen}
   */
  answerList(
    { terminal }: Session,
    store: OpenedStore,
    list: readonly unknown[],
    options: SessionOptions,
    format: () => string,
  ): void {
    if (list.length === 0) Session.requireAllOpen(store);
    terminal.answer(list, options, format);
    Session.requireAllOpen(store);
  },
};

/** Makes the session of an open deployment. @throws OperatorError for a signer that the configuration does not have. */
async function sessionOn(
  terminal: Terminal,
  deployment: Deployment,
  options: SessionOptions,
  log: EventLog,
): Promise<Session> {
  const now = terminal.clock();
  const { signer, dryRun: isDry = false } = options;
  const { configuration, place } = deployment;
  if (signer !== undefined && !configuration.signers.some(({ name }) => name === signer)) {
    throw new OperatorError(`SIGNERS has no signer ${JSON.stringify(signer)}`);
  }
  const store = createSessionStore(reportingStore(terminal, deployment, options), isDry);
  const chosen = { ...deployment, store, signerStore: () => store };
  const stores = await storesAt(chosen, now, isDry || terminal.isWatched ? errorsOf(log) : log);
  const mint = signer === undefined ? stores.mint : stores.signerMints.get(signer);
  if (!mint) throw new Error("a signer whose store is not open");
  await stores.keks.hold(now)?.catch((error: unknown) => {
    throw error instanceof CaError ? new OperatorError(messageOf(error.cause)) : error;
  });
  return {
    mint: { ...mint, ...(isDry && { upstream: askNobody }), store },
    terminal,
    configuration,
    place,
    now,
    log,
    isDry,
    isConfirmed: isDry || options.yes === true,
    currentView: () => currentView(deployment, now),
  };
}

/** Wraps the chosen store, so that it shows progress, and its failures are OperatorErrors. */
function reportingStore(
  terminal: Terminal,
  { store, signerStore, place }: Deployment,
  options: SessionOptions,
): AuthorityStore {
  const chosen = options.signer === undefined ? store : signerStore(options.signer);
  const reporting = <T>(doing: string, done: string, work: () => Promise<T>): Promise<T> =>
    terminal.progress(
      `${doing} the ${place}`,
      () =>
        work().catch((error: unknown) => {
          if (error instanceof OperatorError) throw error;
          const why = error instanceof Error ? error.message : "the store failed";
          throw new OperatorError(`the ${place} cannot be ${done}: ${why}`);
        }),
      options,
    );
  return {
    load: () => reporting("reading", "read", () => chosen.load()),
    put: (...record) => reporting("writing to", "written", () => chosen.put(...record)),
    delete: (name) => reporting("writing to", "written", () => chosen.delete(name)),
  };
}

/** Refuses every request of a dry run, because it could not undo what the upstream CA signs. */
const askNobody: UpstreamAuthority = async () => {
  throw new UpstreamError("a dry run does not ask the CA upstream for anything");
};

/** A store in which a session reads its own writes at once, before KV has propagated them. */
export interface SessionStore extends AuthorityStore {
  /** The writes of the session, in their order. */
  readonly changes: readonly { readonly act: "put" | "delete"; readonly name: RecordName }[];
  /** Has the next load read the store again. */
  readonly forget: () => void;
}

/**
 * Overlays the writes of this session on its first read, because KV may still answer with old values. Later loads do not
 * read the store again, unless the session forgets it.
 *
 * @param isDry Whether the writes stay in the session.
 */
export function createSessionStore(store: AuthorityStore, isDry: boolean): SessionStore {
  const changes: { act: "put" | "delete"; name: RecordName }[] = [];
  const written = new Map<string, StoredRecord | undefined>();
  let before: Promise<readonly StoredRecord[]> | undefined;
  return {
    changes,
    forget: () => {
      before = undefined;
    },
    async load() {
      before ??= store.load();
      const untouched = (await before).filter((record) => !written.has(RecordName.key(record)));
      return [...untouched, ...[...written.values()].filter((record) => record !== undefined)];
    },
    async put(record, before) {
      if (!isDry && !(await store.put(record, before))) return false;
      written.set(RecordName.key(record), record);
      changes.push({ act: "put", name: record });
      return true;
    },
    async delete(name) {
      if (!isDry) await store.delete(name);
      written.set(RecordName.key(name), undefined);
      changes.push({ act: "delete", name });
    },
  };
}
