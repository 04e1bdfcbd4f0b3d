import { join } from "node:path";
import { Backoff } from "../../../../foundation/backoff.ts";
import { FetchError } from "../../../../foundation/fetch.ts";
import type { Members } from "../../../../foundation/json.ts";
import { PemFile } from "../../../../program/files/pem-file.ts";
import { NodeFetch } from "../../../../program/http/http-client.ts";
import { orOperatorError } from "../../../terminal/failures.ts";
import type { Environment, Terminal } from "../../../terminal/terminal.ts";
import { CollectorTarget, headersIn } from "./collector-target.ts";
import type { EventBatch, ExportSource } from "./event-sources.ts";
import { ExportState } from "./export-state.ts";
import { type ExportedEvent, toOcsf, toOtlp } from "./exported-event.ts";
import { digestOf } from "./file-mark.ts";
import { FileTarget } from "./file-target.ts";

/** Where events go: `-`, a file, or the URL of a collector. */
export interface ExportOptions {
  readonly to: string;
  readonly dir: string;
  readonly ocsf?: boolean;
}

/** Writes a batch, and keeps the position after it in the state. */
type WriteBatch = (batch: EventBatch, source: string) => Promise<void>;

/** A collector may ask for so long a wait, and no longer. */
const longestWaitSeconds = 300;

/** Writes what is new in sources of events to one place. */
export class Export implements Disposable {
  readonly #terminal: Terminal;
  readonly #state: ExportState;
  readonly #write: WriteBatch;
  readonly #finish: () => Promise<void>;
  #failures = 0;
  #due = 0;

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

  /** @throws OperatorError, also if another process exports to the same place. */
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
    const send = collector
      ? (events: readonly ExportedEvent[]) =>
          collector.send(toOtlp(events, bodyOf, terminal.clock()))
      : (events: readonly ExportedEvent[]) => terminal.write(linesOf(events));
    return new Export(terminal, state, async ({ events, position }, source) => {
      await send(events);
      state.save({ [source]: position });
    });
  }

  /** How far a source is exported. */
  exported = (source: string): number => this.#state.position(source)?.at ?? 0;

  /**
   * Writes everything that is new, a source after the other.
   *
   * @returns After how many milliseconds a collector that is away is asked again; 0 if everything is written.
   */
  async run(sources: readonly ExportSource[]): Promise<number> {
    const early = this.#due - this.#terminal.clock().getTime();
    if (early > 0) return early;
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

/** The collector at a URL; `undefined` for any other place. */
async function collectorAt(
  to: string,
  { OTEL_EXPORTER_OTLP_HEADERS: headers, OTEL_EXPORTER_OTLP_CERTIFICATE: roots }: Environment,
): Promise<CollectorTarget | undefined> {
  if (!/^https?:/.test(to)) return undefined;
  const fetch = NodeFetch.trusting(await PemFile.readRoots(roots));
  return new CollectorTarget(to, headersIn(headers), fetch);
}
