import { join } from "node:path";
import { isSafeToFetch } from "../../../../foundation/addresses.ts";
import { Backoff } from "../../../../foundation/backoff.ts";
import { OperatorError } from "../../../../foundation/errors.ts";
import { FetchError } from "../../../../foundation/fetch.ts";
import type { Members } from "../../../../foundation/json-members.ts";
import { PemFile } from "../../../../program/files/pem-file.ts";
import { NodeFetch } from "../../../../program/http/http-client.ts";
import { Collector, otelPairs } from "../../../../program/otlp/collector.ts";
import { usageError } from "../../../terminal/command-line.ts";
import { orOperatorError } from "../../../terminal/failures.ts";
import type { Environment, Terminal } from "../../../terminal/terminal.ts";
import { printable } from "../../../terminal/text.ts";
import type { EventBatch, ExportSource } from "./event-sources.ts";
import { ExportState } from "./export-state.ts";
import { type ExportedEvent, toOcsf, toOtlp } from "./exported-event.ts";
import { digestOf } from "./file-mark.ts";
import { FileTarget } from "./file-target.ts";

/**
 * The options that say where events go (`to`: `-`, a file, or the URL of a collector) and where the copies are (`dir`).
 */
export interface ExportOptions {
  readonly to: string;
  readonly dir: string;
  readonly ocsf?: boolean;
}

/** The name under which is stored how many records of a source the collector has rejected. */
const rejectedOf = (source: string): string => `rejected ${source}`;

/** Writes a batch, and stores the position after it. */
type WriteBatch = (batch: EventBatch, source: string) => Promise<void>;

/** The longest wait that a collector may ask for. */
const longestWaitSeconds = 300;

/** Exports what is new in sources of events to one place, and remembers how far. */
export class Export implements Disposable {
  readonly #terminal: Terminal;
  readonly #state: ExportState;
  readonly #write: WriteBatch;
  readonly #finish: () => Promise<void>;
  #findings = 0;
  #failures = 0;
  #due = 0;
  #pause = 0;

  private constructor(
    terminal: Terminal,
    state: ExportState,
    write: WriteBatch,
    finish = async () => {},
  ) {
    this.#terminal = terminal;
    this.#state = state;
    this.#write = write;
    this.#finish = finish;
  }

  /**
   * Opens the place and the stored positions.
   * @throws OperatorError for an unsafe URL or a malformed variable, and if another process exports to the same place.
   */
  static async open(terminal: Terminal, { to, dir, ocsf = false }: ExportOptions): Promise<Export> {
    const bodyOf = ocsf ? toOcsf : ({ fields }: ExportedEvent): Members => fields;
    const linesOf = (events: readonly ExportedEvent[]): string =>
      events.map((event) => `${JSON.stringify(bodyOf(event))}\n`).join("");
    const collector = await collectorAt(to, terminal.environment);
    const isFile = !collector && to !== "-";
    const name = digestOf(Buffer.from(collector?.url ?? to)).slice(0, 12);
    const state = new ExportState(isFile ? `${to}.state` : join(dir, `export-${name}.sqlite`));
    if (isFile) {
      const file = new FileTarget(to, state);
      const write: WriteBatch = ({ events, position }, source) =>
        file.write(linesOf(events), source, position);
      return new Export(terminal, state, write, () => file.finish());
    }
    const send = async (events: readonly ExportedEvent[]): Promise<Rejection | undefined> => {
      if (collector)
        return sendTo(collector.of, toOtlp(events, bodyOf, terminal.clock()), events.length);
      await terminal.write(linesOf(events));
      return undefined;
    };
    const exporting = new Export(terminal, state, async ({ events, position }, source) => {
      const rejection = await send(events);
      if (rejection) exporting.#printRejection(rejection, source, events);
      const at = exporting.#rejected(source) + (rejection?.count ?? 0);
      state.save({ [source]: position, ...(at > 0 && { [rejectedOf(source)]: { at, mark: "" } }) });
    });
    return exporting;
  }

  /** How many findings `records-rejected` it has printed. */
  get findings(): number {
    return this.#findings;
  }

  /** Says how far a source is exported, and how much of it was rejected. */
  progress(source: string): string {
    const rejected = this.#rejected(source);
    const of = rejected > 0 ? ` (${rejected} rejected by the collector)` : "";
    return `${this.#state.position(source)?.at ?? 0} exported${of}`;
  }

  readonly #rejected = (source: string): number =>
    this.#state.position(rejectedOf(source))?.at ?? 0;

  #printRejection(
    { count, why }: Rejection,
    source: string,
    events: readonly ExportedEvent[],
  ): void {
    const [first, last] = [events.at(0)?.uid, events.at(-1)?.uid];
    const detail = `the collector rejected ${count} of the records ${first} to ${last}${why === undefined ? "" : `: ${why}`}`;
    this.#findings++;
    this.#terminal.print(JSON.stringify({ log: source, finding: "records-rejected", detail }));
  }

  /**
   * Writes everything that is new, one source after the other.
   * @returns 0 if everything is written; otherwise in how many milliseconds to call it again, because the collector
   *   does not answer or asked for a wait.
   * @throws OperatorError for any other failure.
   */
  async run(sources: readonly ExportSource[]): Promise<number> {
    const early = this.#due - this.#terminal.clock().getTime();
    // If the clock was set back, nobody knows how long the collector has had.
    if (early > 0 && early <= this.#pause) return early;
    try {
      await orOperatorError(this.#finish);
      for (const source of sources) await orOperatorError(() => this.#drain(source));
      return 0;
    } catch (error) {
      if (!(error instanceof FetchError)) throw error;
      return this.#wait(error);
    }
  }

  #wait(error: FetchError): number {
    const wait = Backoff.milliseconds(
      Backoff.usual.outage,
      ++this.#failures,
      Math.random(),
      Math.min(error.retryAfterSeconds ?? 0, longestWaitSeconds),
    );
    this.#pause = wait;
    this.#due = this.#terminal.clock().getTime() + wait;
    const seconds = Math.ceil(wait / 1000);
    this.#terminal.complain(`the collector ${error.message}, and is asked again in ${seconds} s`);
    return wait;
  }

  async #drain(source: ExportSource): Promise<void> {
    for (;;) {
      const batch = await source.after(this.#state.position(source.name));
      if (!batch) return;
      if (batch.events.length > 0) await this.#write(batch, source.name);
      else this.#state.save({ [source.name]: batch.position });
      this.#failures = 0;
    }
  }

  [Symbol.dispose](): void {
    this.#state[Symbol.dispose]();
  }
}

/**
 * Makes the collector at a URL, and normalizes the URL, which names the stored positions; `undefined` for any other
 * place.
 */
async function collectorAt(
  to: string,
  { OTEL_EXPORTER_OTLP_HEADERS: given = "", OTEL_EXPORTER_OTLP_CERTIFICATE: roots }: Environment,
): Promise<{ readonly url: string; readonly of: Collector } | undefined> {
  if (!/^https?:/.test(to)) return undefined;
  if (!isSafeToFetch(to)) throw usageError("--to must be an https URL: who got what is sent there");
  const url = `${new URL(to).href.replace(/(?:\/v1\/logs)?\/*$/, "")}/v1/logs`;
  const headers = otelPairs(given);
  if (!headers)
    throw usageError("OTEL_EXPORTER_OTLP_HEADERS must be name=value, with commas between them");
  const fetch = NodeFetch.trusting(await PemFile.readRoots(roots));
  return { url, of: new Collector({ url, headers, fetch }) };
}

/** How many records of a request a collector has rejected for good, and its reason, if it gives one. */
interface Rejection {
  readonly count: number;
  readonly why: string | undefined;
}

/**
 * Sends a request with this number of records.
 * @throws FetchError if it may be accepted later, OperatorError if never.
 */
async function sendTo(
  collector: Collector,
  request: object,
  records: number,
): Promise<Rejection | undefined> {
  const { status, isAccepted, rejected: count, said } = await collector.send(request, records);
  const why = said === undefined ? undefined : printable(said);
  if (isAccepted) return count === 0 ? undefined : { count, why };
  throw new OperatorError(`the collector answered ${status}${why === undefined ? "" : `: ${why}`}`);
}
