import { FetchError } from "../../foundation/fetch.ts";
import type { Credential } from "../../kubernetes/client.ts";

type Credentials = ReadonlyMap<string, Credential>;

/** Credentials that follow the configuration: a watch that outlives a change reads its token from the new place. */
export class CurrentCredentials {
  #current: Credentials = new Map();
  readonly #steady = new Map<string, Credential>();

  get current(): Credentials {
    return this.#current;
  }

  /** Replaces the credentials. @returns Credentials under the same names that follow every later change. */
  use(current: Credentials): Credentials {
    this.#current = current;
    return new Map([...current.keys()].map((name) => [name, this.#steadyOf(name)]));
  }

  #steadyOf(name: string): Credential {
    const known = this.#steady.get(name);
    if (known) return known;
    const steady: Credential = async () => {
      const credential = this.#current.get(name);
      if (!credential) throw new FetchError(`cannot be asked: ${name} is not configured any more`);
      return credential();
    };
    this.#steady.set(name, steady);
    return steady;
  }
}
