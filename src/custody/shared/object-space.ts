/** An object in a service that several machines reach. */
export interface StoredObject {
  readonly value: string;
  /** Changes with every write. */
  readonly version: string;
}

/**
 * How fresh a list has to be: it shows every write that was confirmed before the call (`now`), or may be a
 * few seconds old (`recent`). Either shows all writes of this process.
 */
export type Freshness = "now" | "recent";

/**
 * Objects by their keys, in a service that several machines reach, such as the Secrets of a namespace or the
 * objects of a bucket. Keys are lower-case paths, such as `authorities/<id>`.
 *
 * An implementation promises that a write is durable once it is confirmed, that a reader sees a whole object or
 * none, and that of several writes to one version at most one is confirmed. All of it is bounded: the time of
 * a call, the number of objects, and their sizes. The service is not trusted: it may lose or change anything.
 *
 * Calls reject when the service does not answer, or refuses. A write that rejects may have happened.
 */
export interface ObjectSpace {
  readonly list: (freshness: Freshness) => Promise<ReadonlyMap<string, StoredObject>>;
  /** As fresh as `now`. */
  readonly read: (key: string) => Promise<StoredObject | undefined>;
  /**
   * Creates an object, or replaces the one of this version and no other.
   *
   * @returns Whether no other write came before.
   */
  readonly write: (key: string, value: string, version?: string) => Promise<boolean>;
  /** Removes an object of whatever version, if there is one. */
  readonly remove: (key: string) => Promise<void>;
}

/** The most objects that a list has: more than the records of all signers. A longer one is refused. */
export const maximumObjects = 10_000;

/** The most octets that the values of a list have together. A longer one is refused. */
export const maximumSpaceOctets: number = 64 * 1024 * 1024;
