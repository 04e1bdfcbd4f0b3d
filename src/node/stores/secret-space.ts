import { AuthorityStore } from "../../custody/authority-store.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { KubernetesClient, type SendRequest } from "../../kubernetes/client.ts";
import { Listing } from "../../kubernetes/list-pages.ts";
import { writeUnlessConflict } from "../../kubernetes/object-write.ts";
import { WatchedCollection } from "../../kubernetes/watch.ts";
import {
  maximumObjects,
  maximumSpaceOctets,
  type ObjectSpace,
  type StoredObject,
} from "./object-space.ts";
import {
  issuedType,
  parseRecordSecret,
  parseWritten,
  type RecordSecret,
  recordListing,
  recordSecret,
  secretName,
  secretsPath,
} from "./record-secret.ts";

/**
 * The Secrets of one namespace as an {@link ObjectSpace}. The API server decides between concurrent writers: it creates
 * a name once, and replaces only the version that a writer names. Lists are consistent, because they do not allow an
 * older version.
 *
 * @throws FetchError from every call.
 */
export function createSecretSpace(send: SendRequest, namespace: string): ObjectSpace {
  const collection = secretsPath(namespace);
  const pathOf = (key: string): string => `${collection}/${secretName(key)}`;

  async function list(): Promise<ReadonlyMap<string, StoredObject>> {
    const objects = new Map<string, StoredObject>();
    let octets = 0;
    for await (const page of Listing.pages(send, recordListing(namespace))) {
      if (page.isFirst) objects.clear();
      for (const object of page.items) {
        const secret = parseRecordSecret(object, AuthorityStore.maximumRecordOctets);
        if (!secret) continue;
        objects.set(secret.key, secret);
        octets += secret.value.length;
        if (objects.size > maximumObjects || octets > maximumSpaceOctets) throw tooMuch(namespace);
      }
    }
    return objects;
  }

  return {
    list,
    read: async (key) => {
      const json = await send({
        path: pathOf(key),
        maximumOctets: KubernetesClient.maximumObjectOctets,
      });
      if (json === undefined) return undefined;
      const secret = parseRecordSecret(json, AuthorityStore.maximumRecordOctets);
      // Not `undefined`: something else has the name, so every write to it would conflict.
      return secret ?? Promise.reject(foreignSecret(namespace, key));
    },
    write: (key, value, version) => {
      const body = recordSecret(key, value, version);
      const name = secretName(key);
      return writeUnlessConflict(send, {
        collection,
        namespace,
        name,
        body,
        version,
      });
    },
    remove: async (key) => {
      await send({
        method: "DELETE",
        path: pathOf(key),
        maximumOctets: KubernetesClient.maximumObjectOctets,
      });
    },
  };
}

/** Lists when the Secrets whose keys begin with `beginning` were written: those of issued certificates. */
export async function issuedSecrets(
  send: SendRequest,
  namespace: string,
  beginning: string,
): Promise<ReadonlyMap<string, number>> {
  const written = new Map<string, number>();
  const accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
  const sendForMetadata: SendRequest = (request) => send({ ...request, accept });
  for await (const page of Listing.pages(sendForMetadata, recordListing(namespace, issuedType))) {
    for (const object of page.items) {
      const [key = "", at = 0] = parseWritten(object) ?? [];
      if (key.startsWith(beginning)) written.set(key, at);
    }
  }
  return written;
}

const tooMuch = (namespace: string): FetchError =>
  new FetchError(`has more records in namespace ${namespace} than any CA`);

const foreignSecret = (namespace: string, key: string): FetchError =>
  new FetchError(
    `has a Secret at the name of ${key} in namespace ${namespace}, which is no record`,
  );

interface SecretWatch {
  readonly client: KubernetesClient;
  readonly namespace: string;
  /** The API server ends a watch after this long, so that a dead connection is soon noticed. */
  readonly watchSeconds: number;
  readonly clock: () => Date;
  readonly signal: AbortSignal;
  readonly failed: (error: unknown) => void;
}

/** How long a watched list is trusted after the last event of the watch, as a multiple of `watchSeconds` (bounded staleness). */
export const stalenessFactor = 1.5;

/** How long a write of this process is added to lists that come from the watch. The watch shows it sooner. */
const ownWriteSeconds = 8;

/** A write of this process: the value, or `undefined` for an object that it has removed. */
interface OwnWrite {
  readonly value: string | undefined;
  readonly until: number;
}

/**
 * A space whose recent lists come from a watch, so that replicas see each other's writes within a second without any
 * request. If the watch has been silent for too long, each list is a request. In a recent list, the `version` of an
 * object is empty until the watch has shown this process's write to it.
 */
export class WatchedSecrets implements ObjectSpace {
  readonly #space: ObjectSpace;
  readonly #clock: () => Date;
  readonly #trustedMilliseconds: number;
  readonly #watched: WatchedCollection<RecordSecret>;
  readonly #ownWrites = new Map<string, OwnWrite>();
  readonly read: ObjectSpace["read"];

  constructor(space: ObjectSpace, { namespace, ...watch }: SecretWatch) {
    this.#space = space;
    this.#clock = watch.clock;
    this.#trustedMilliseconds = 1000 * stalenessFactor * watch.watchSeconds;
    this.read = space.read;
    this.#watched = WatchedCollection.watch<RecordSecret>({
      ...watch,
      listing: recordListing(namespace),
      bound: {
        items: maximumObjects,
        octets: maximumSpaceOctets,
        octetsOf: ({ value }) => value.length,
      },
      keep: (object) => {
        const secret = parseRecordSecret(object, AuthorityStore.maximumRecordOctets);
        return secret && [secret.key, secret];
      },
      changed: (before, after) => {
        const key = (after ?? before)?.key ?? "";
        if (this.#ownWrites.get(key)?.value === after?.value) this.#ownWrites.delete(key);
      },
    });
  }

  readonly list: ObjectSpace["list"] = async (freshness) =>
    freshness === "recent" && this.#isCurrent() ? this.#current() : this.#space.list("now");

  readonly write: ObjectSpace["write"] = async (key, value, version) => {
    const isWritten = await this.#space.write(key, value, version);
    if (isWritten) this.#remember(key, value);
    return isWritten;
  };

  readonly remove: ObjectSpace["remove"] = async (key) => {
    await this.#space.remove(key);
    this.#remember(key, undefined);
  };

  #isCurrent(): boolean {
    const asOf = this.#watched.asOf()?.getTime() ?? Number.NaN;
    return Math.abs(this.#clock().getTime() - asOf) < this.#trustedMilliseconds;
  }

  #current(): ReadonlyMap<string, StoredObject> {
    const objects = new Map<string, StoredObject>(this.#watched.items);
    for (const [key, { value, until }] of this.#ownWrites) {
      if (until <= this.#clock().getTime()) this.#ownWrites.delete(key);
      else if (value === undefined) objects.delete(key);
      else objects.set(key, { value, version: "" });
    }
    return objects;
  }

  #remember(key: string, value: string | undefined): void {
    const until = this.#clock().getTime() + 1000 * ownWriteSeconds;
    // The watch may have shown the write before its response came.
    if (this.#watched.items.get(key)?.value === value) this.#ownWrites.delete(key);
    else this.#ownWrites.set(key, { value, until });
  }
}
