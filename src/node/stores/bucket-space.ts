import { randomUUID } from "node:crypto";
import { AuthorityStore } from "../../custody/authority-store.ts";
import { KeyServiceError } from "../../custody/key-service/key-service.ts";
import { OperatorError } from "../../foundation/errors.ts";
import { type Fetch, FetchError } from "../../foundation/fetch.ts";
import type { Pause } from "../../foundation/pause.ts";
import { Semaphore } from "../../foundation/shared-work.ts";
import { SingleFlight } from "../../foundation/single-flight.ts";
import { NodeFetch } from "../../program/http/http-client.ts";
import type { ListedObject } from "./bucket-answers.ts";
import { type BucketAnswer, listObjects, type SendToBucket } from "./bucket-client.ts";
import { createSteadyClient, requirePromises } from "./bucket-promises.ts";
import {
  type Freshness,
  issuedFolder,
  maximumObjects,
  maximumSpaceOctets,
  type ObjectSpace,
  type StoredObject,
} from "./object-space.ts";
import { named } from "./retries.ts";
import type { BucketPlace } from "./store-place.ts";

/** How long a list may take, with the objects that it reads. The next list reads the rest. */
const listMilliseconds = 30_000;

const maximumReads = 16;

type Objects = ReadonlyMap<string, StoredObject>;

interface BucketOptions {
  /** How old a `recent` list may be; by default every list is requested anew. */
  readonly recentSeconds?: number;
  readonly pause?: Pause | undefined;
}

/**
 * Opens the objects of a bucket. The bucket and the source of the credential may be unreachable for now.
 *
 * @throws OperatorError when the roots or the credential cannot be read.
 */
export async function openBucket(
  place: BucketPlace,
  clock: () => Date,
  recentSeconds?: number,
): Promise<BucketSpace> {
  const fetch = await NodeFetch.trustingFile(place.rootsFile);
  await place.credentials(clock()).catch((error: unknown) => {
    if (!(error instanceof KeyServiceError)) throw error;
  });
  return new BucketSpace(place, fetch, clock, recentSeconds === undefined ? {} : { recentSeconds });
}

/**
 * The objects of a bucket below a prefix as an {@link ObjectSpace}. The service decides between concurrent writers, by
 * conditions on the entity tag: it creates a name once, and replaces only the version that a writer names. Before its
 * first write, a process tests that the service does so. A list is one request for each thousand objects, and one for
 * each new or changed object. Requests are repeated after transient failures.
 *
 * Each object begins with a random id of its write. So its entity tag changes with every write, and a writer whose
 * response was lost recognizes its object. If a service still shows a version that it refuses to replace, its reads are
 * stale, and lists fail until it shows another version.
 *
 * @throws FetchError from every call.
 */
export class BucketSpace implements ObjectSpace {
  readonly #service: string;
  readonly #prefix: string;
  readonly #send: SendToBucket;
  readonly #clock: () => Date;
  readonly #recentMilliseconds: number;
  #known = new Map<string, StoredObject>();
  readonly #lists = new SingleFlight<Objects>();
  /** When the last list began. */
  #listedAt = 0;
  readonly #proofs = new SingleFlight<OperatorError | undefined>();
  /** The version that the service refused to replace but still shows. */
  #outdated: Pick<ListedObject, "name" | "version"> | undefined;

  constructor(
    place: BucketPlace,
    fetch: Fetch,
    clock: () => Date,
    { recentSeconds = 0, pause }: BucketOptions = {},
  ) {
    this.#service = `the bucket ${place.url}`;
    this.#prefix = place.prefix;
    this.#send = createSteadyClient(place, fetch, clock, pause);
    this.#clock = clock;
    this.#recentMilliseconds = 1000 * recentSeconds;
  }

  // Arrow functions, because they are passed on one by one.

  readonly read = async (key: string): Promise<StoredObject | undefined> =>
    this.#read(this.#nameOf(key));

  /** A recent list is requested at most once in `recentSeconds` for all callers, because each request costs money. */
  readonly list = async (freshness: Freshness): Promise<Objects> =>
    this.#request(freshness === "recent" && this.#isRecent());

  readonly write = async (key: string, value: string, version?: string): Promise<boolean> => {
    const name = this.#nameOf(key);
    await this.prove();
    return this.#write(name, value, version);
  };

  readonly remove = async (key: string): Promise<void> => {
    const name = this.#nameOf(key);
    await this.#forgetAfter(name, this.#send({ method: "DELETE", name }));
  };

  /** Lists when the objects whose keys begin with `beginning` were written, with one request for each thousand. */
  readonly written = async (beginning: string): Promise<ReadonlyMap<string, number>> => {
    const prefix = `${this.#prefix}${beginning}`;
    const signal = AbortSignal.timeout(listMilliseconds);
    const all = await listObjects(this.#send, { prefix }, maximumObjects, signal);
    return new Map(all.map(({ name, at }) => [name.slice(this.#prefix.length), at]));
  };

  /**
   * Tests once in each process, by an object of its own, that the service obeys the conditions of a write. Many
   * services that are compatible with S3 ignore them, so that replicas would undo each other's writes.
   *
   * @throws OperatorError for a service that breaks a promise, FetchError for one that cannot be asked.
   */
  async prove(): Promise<void> {
    const { read, list, remove } = this;
    const write: ObjectSpace["write"] = (key, ...object) =>
      this.#write(this.#nameOf(key), ...object);
    // A transient failure is not remembered, because it breaks no promise.
    const prove = () =>
      requirePromises({ read, list, write, remove }, this.#service).then(
        () => undefined,
        (error: unknown) => {
          if (error instanceof OperatorError) return error;
          throw error;
        },
      );
    const broken = await this.#proofs.join(prove, () => true);
    if (broken) throw broken;
  }

  async #write(name: string, value: string, version?: string): Promise<boolean> {
    const writeId = randomUUID();
    const body = `${heading}${writeId}\n${value}`;
    const sent = this.#send({ method: "PUT", name, body, replaces: { version } });
    const { outcome } = await this.#forgetAfter(name, sent);
    if (outcome === "done") return true;
    const found = await this.#read(name);
    if (version !== undefined && found?.version === version) {
      this.#outdated = { name, version };
      throw this.#isBehind();
    }
    // The conflict may be with this very write, whose first response was lost.
    return found?.writeId === writeId;
  }

  #isBehind(): FetchError {
    return named(this.#service, new FetchError("shows an older version than it has"));
  }

  async #read(name: string, signal?: AbortSignal): Promise<BucketObject | undefined> {
    const request = { method: "GET", name, ...(signal && { signal }) } as const;
    return toObject(await this.#send(request, maximumObjectOctets));
  }

  #isRecent(): boolean {
    return Math.abs(this.#clock().getTime() - this.#listedAt) < this.#recentMilliseconds;
  }

  #request(mayBeShared: boolean): Promise<Objects> {
    if (!mayBeShared) this.#lists.forget();
    const list = () => {
      this.#listedAt = this.#clock().getTime();
      return this.#listAll();
    };
    return this.#lists.join(list, () => true);
  }

  /** Performs a write, and forgets lists that began before its end and have the object. */
  async #forgetAfter<T>(name: string, act: Promise<T>): Promise<T> {
    try {
      return await act;
    } finally {
      if (this.#isListed(name)) this.#lists.forget();
    }
  }

  readonly #isListed = (name: string): boolean => !name.startsWith(this.#prefix + issuedFolder);

  async #listAll(): Promise<Objects> {
    const failing = new AbortController();
    const signal = AbortSignal.any([failing.signal, AbortSignal.timeout(listMilliseconds)]);
    // "~" comes after every character of a key.
    const names = { prefix: this.#prefix, after: `${this.#prefix}${issuedFolder}~` };
    const found = await listObjects(this.#send, names, maximumObjects, signal);
    const all = found.filter(({ name }) => this.#isListed(name));
    const { name: outdated, version } = this.#outdated ?? {};
    if (all.some((each) => each.name === outdated && each.version === version))
      throw this.#isBehind();
    this.#outdated = undefined;
    const listed = all.filter(({ name }) => keyPattern.test(name.slice(this.#prefix.length)));
    const kept = new Set(listed.map(({ name }) => name));
    this.#known = new Map([...this.#known].filter(([name]) => kept.has(name)));
    const places = new Semaphore(maximumReads);
    let octets = 0;
    const reading = listed.map(async (each): Promise<[string, StoredObject][]> => {
      const object = await places.run(() => this.#unlessKnown(each, signal));
      octets += object?.value.length ?? 0;
      if (octets > maximumSpaceOctets)
        throw new FetchError("has longer objects than the records of any CA");
      return object ? [[each.name.slice(this.#prefix.length), object]] : [];
    });
    try {
      return new Map((await Promise.all(reading)).flat());
    } finally {
      failing.abort();
    }
  }

  async #unlessKnown(
    { name, version }: ListedObject,
    signal: AbortSignal,
  ): Promise<StoredObject | undefined> {
    const before = this.#known.get(name);
    if (before?.version === version) return before;
    signal.throwIfAborted();
    const object = await this.#read(name, signal);
    // Remembered only if it is of the listed version, because the list shows no change of another version.
    if (object?.version === version) this.#known.set(name, object);
    return object;
  }

  #nameOf(key: string): string {
    const name = `${this.#prefix}${key}`;
    if (name.length <= 1024 && keyPattern.test(key)) return name;
    throw new Error("a record's name is too long for an object, or has other characters");
  }
}

const keyPattern = /^[a-z0-9][a-z0-9._-]*(?:\/[a-z0-9][a-z0-9._-]*)*$/;

/** An object, and the id of the write that made it. */
interface BucketObject extends StoredObject {
  readonly writeId: string;
}

const heading = "rampart object 1 ";
const pattern = /^rampart object 1 ([0-9a-f-]{36})\n/;
const maximumObjectOctets = AuthorityStore.maximumRecordOctets + heading.length + 37;

/** Parses an object. A malformed one is empty, so that readers refuse the record instead of overlooking it. */
function toObject(answer: BucketAnswer): BucketObject | undefined {
  if (answer.outcome !== "done") return undefined;
  const { octets = new Uint8Array(), version } = answer;
  if (version === "") throw new FetchError("answered an object without an entity tag");
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(octets);
  const [head = "", writeId = ""] = pattern.exec(text) ?? [];
  return { value: head === "" ? "" : text.slice(head.length), version, writeId };
}
