import type { AuthorityStore } from "../../custody/authority-store.ts";
import { causeOf, messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/events.ts";

/** Most runs of a rotation write nothing, so a look finds out first that nothing could be written. */
export const lookSeconds = 60;

/** A store, and why it takes no record, as the last write or look has shown. */
export class WatchedStore implements AuthorityStore {
  readonly #store: AuthorityStore;
  readonly #log: OperationLog;
  #fault: string | undefined;
  #detail = "";

  constructor(store: AuthorityStore, log: OperationLog) {
    this.#store = store;
    this.#log = log;
  }

  /** One sentence. */
  readonly fault = (): string | undefined => this.#fault;

  readonly load: AuthorityStore["load"] = () => this.#store.load();

  readonly put: AuthorityStore["put"] = (record, before) =>
    this.#telling(() => this.#store.put(record, before));

  readonly delete: AuthorityStore["delete"] = (name) =>
    this.#telling(() => this.#store.delete(name));

  /** Tells each time in the log that it takes none, so that an alert lasts as long as that. */
  readonly look = async (): Promise<void> => {
    const { tryWriting } = this.#store;
    if (tryWriting) await this.#telling(tryWriting).catch(() => this.#tell());
    else if (this.#fault !== undefined) this.#tell();
  };

  #tell(): void {
    this.#log.operation({ event: "store-not-writable", level: "error", detail: this.#detail });
  }

  async #telling<T>(write: () => Promise<T>): Promise<T> {
    try {
      const done = await write();
      this.#fault = undefined;
      return done;
    } catch (error) {
      // `/readyz` is for strangers as well: no path.
      this.#fault = `the store takes no record (${causeOf(error)})`;
      this.#detail = messageOf(error);
      throw error;
    }
  }
}
