import { maximumRecordOctets } from "../../custody/authority-store.ts";
import {
  maximumObjects,
  maximumSpaceOctets,
  type ObjectSpace,
  type StoredObject,
} from "../../custody/shared/object-space.ts";
import type { KubernetesClient } from "../../kubernetes/client.ts";
import {
  parseRecordSecret,
  type RecordSecret,
  recordListing,
} from "../../kubernetes/record-secret.ts";
import { watchCollection } from "../../kubernetes/watch.ts";

/** The means to watch the Secrets of a namespace. */
export interface SecretWatch {
  readonly client: KubernetesClient;
  readonly namespace: string;
  /** The API server ends a watch after this long, so that a dead connection is soon noticed. */
  readonly watchSeconds: number;
  readonly clock: () => Date;
  /** Ends the watch. */
  readonly signal: AbortSignal;
  readonly failed: (error: unknown) => void;
}

/** How long a list that a watch has shown is trusted after the last sign of it, in parts of `watchSeconds`. */
export const silencePart = 1.5;

/** How long an own write counts that the watch has not shown: longer than the API server is behind. */
const ownWriteSeconds = 8;

/** A write of this process: the value, or `undefined` for an object that it has removed. */
interface OwnWrite {
  readonly value: string | undefined;
  readonly until: number;
}

/**
 * A space whose recent lists come from a watch, so that replicas see each other's writes within a second and
 * ask for none. After a silence of the API server, each list is a request.
 */
export function watchSecrets(space: ObjectSpace, watch: SecretWatch): ObjectSpace {
  const { client, namespace, watchSeconds, clock, signal, failed } = watch;
  const ownWrites = new Map<string, OwnWrite>();

  const watched = watchCollection<RecordSecret>({
    ...{ client, watchSeconds, clock, signal, failed },
    listing: recordListing(namespace),
    bound: {
      items: maximumObjects,
      octets: maximumSpaceOctets,
      octetsOf: ({ value }) => value.length,
    },
    keep: (object) => {
      const secret = parseRecordSecret(object, maximumRecordOctets);
      return secret && [secret.key, secret];
    },
    changed: (before, after) => {
      const key = (after ?? before)?.key ?? "";
      if (ownWrites.get(key)?.value === after?.value) ownWrites.delete(key);
    },
  });

  function isCurrent(): boolean {
    const asOf = watched.asOf()?.getTime() ?? Number.NaN;
    return Math.abs(clock().getTime() - asOf) < 1000 * silencePart * watchSeconds;
  }

  function current(): ReadonlyMap<string, StoredObject> {
    const objects = new Map<string, StoredObject>(watched.items);
    for (const [key, { value, until }] of ownWrites) {
      if (until <= clock().getTime()) ownWrites.delete(key);
      else if (value === undefined) objects.delete(key);
      else objects.set(key, { value, version: "" });
    }
    return objects;
  }

  function remember(key: string, value: string | undefined): void {
    // The watch may have been faster than the answer.
    if (watched.items.get(key)?.value === value) ownWrites.delete(key);
    else ownWrites.set(key, { value, until: clock().getTime() + 1000 * ownWriteSeconds });
  }

  return {
    read: space.read,
    list: async (freshness) =>
      freshness === "recent" && isCurrent() ? current() : space.list("now"),
    write: async (key, value, version) => {
      const isWritten = await space.write(key, value, version);
      if (isWritten) remember(key, value);
      return isWritten;
    },
    remove: async (key) => {
      await space.remove(key);
      remember(key, undefined);
    },
  };
}
