import { maximumRecordOctets } from "../../custody/authority-store.ts";
import {
  maximumObjects,
  maximumSpaceOctets,
  type ObjectSpace,
  type StoredObject,
} from "../../custody/shared/object-space.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { maximumObjectOctets, type SendRequest } from "../../kubernetes/client.ts";
import { listPages } from "../../kubernetes/list-pages.ts";
import { sendUnlessConflict } from "../../kubernetes/optimistic-write.ts";
import {
  parseRecordSecret,
  recordListing,
  recordSecret,
  secretName,
  secretsPath,
} from "../../kubernetes/record-secret.ts";

/**
 * The Secrets of one namespace as an {@link ObjectSpace}. The API server decides between two writers: it
 * creates a name once, and replaces only the version that a writer names. Lists are consistent, because they
 * ask for no older version.
 *
 * @throws FetchError from every call.
 */
export function createSecretSpace(send: SendRequest, namespace: string): ObjectSpace {
  const collection = secretsPath(namespace);
  const pathOf = (key: string): string => `${collection}/${secretName(key)}`;

  async function list(): Promise<ReadonlyMap<string, StoredObject>> {
    const objects = new Map<string, StoredObject>();
    let octets = 0;
    for await (const page of listPages(send, recordListing(namespace))) {
      if (page.isFirst) objects.clear();
      for (const object of page.items) {
        const secret = parseRecordSecret(object, maximumRecordOctets);
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
      const json = await send({ path: pathOf(key), maximumOctets: maximumObjectOctets });
      if (json === undefined) return undefined;
      const secret = parseRecordSecret(json, maximumRecordOctets);
      // Absent would be wrong: the name is taken, and every write to it would meet a conflict.
      return secret ?? Promise.reject(strange(namespace, key));
    },
    write: (key, value, version) => {
      const body = recordSecret(key, value, version);
      return version === undefined
        ? sendUnlessConflict(send, namespace, { method: "POST", path: collection, body })
        : sendUnlessConflict(send, namespace, { method: "PUT", path: pathOf(key), body });
    },
    remove: async (key) => {
      await send({ method: "DELETE", path: pathOf(key), maximumOctets: maximumObjectOctets });
    },
  };
}

const tooMuch = (namespace: string): FetchError =>
  new FetchError(`has more records in namespace ${namespace} than any CA`);

const strange = (namespace: string, key: string): FetchError =>
  new FetchError(
    `has a Secret at the name of ${key} in namespace ${namespace}, which is no record`,
  );
