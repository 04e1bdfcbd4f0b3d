import { randomUUID } from "node:crypto";
import { maximumRecordOctets } from "../../../custody/authority-store.ts";
import {
  maximumObjects,
  maximumSpaceOctets,
  type ObjectSpace,
  type StoredObject,
} from "../../../custody/shared/object-space.ts";
import { FetchError } from "../../../foundation/fetch.ts";
import { Semaphore } from "../../../foundation/shared-work.ts";
import type { BucketAnswer, SendToBucket } from "./bucket-client.ts";
import { type ListedObject, listObjects } from "./listing.ts";

/** How long a list may take with all that it reads. Where it is not enough, the next one reads the rest. */
const listMilliseconds = 30_000;

/** The requests of one list at a time. */
const maximumReads = 16;

/**
 * The objects of a bucket below a prefix as an {@link ObjectSpace}. The service decides between two writers, by
 * conditions on the entity tag: it creates a name once, and replaces only the version that a writer names. A
 * list is one request for each thousand objects, and one for each object that is new or has changed.
 *
 * Each object begins with a number of its own write. So its entity tag changes with every write, and a writer
 * whose answer was lost knows its object again.
 *
 * @throws FetchError from every call.
 */
export function createBucketSpace(send: SendToBucket, prefix: string): ObjectSpace {
  let known = new Map<string, StoredObject>();

  async function read(name: string, signal?: AbortSignal): Promise<BucketObject | undefined> {
    const request = { method: "GET", name, ...(signal && { signal }) } as const;
    return toObject(await send(request, maximumObjectOctets));
  }

  async function list(): Promise<ReadonlyMap<string, StoredObject>> {
    const failing = new AbortController();
    const signal = AbortSignal.any([failing.signal, AbortSignal.timeout(listMilliseconds)]);
    const all = await listObjects(send, prefix, maximumObjects, signal);
    const listed = all.filter(({ name }) => keyForm.test(name.slice(prefix.length)));
    const names = new Set(listed.map(({ name }) => name));
    known = new Map([...known].filter(([name]) => names.has(name)));
    const places = new Semaphore(maximumReads);
    let octets = 0;
    const reading = listed.map(async (each): Promise<[string, StoredObject][]> => {
      const object = await places.run(() => unlessKnown(each, signal));
      octets += object?.value.length ?? 0;
      if (octets > maximumSpaceOctets) throw tooMuch();
      return object ? [[each.name.slice(prefix.length), object]] : [];
    });
    try {
      return new Map((await Promise.all(reading)).flat());
    } finally {
      failing.abort();
    }
  }

  async function unlessKnown(
    { name, version }: ListedObject,
    signal: AbortSignal,
  ): Promise<StoredObject | undefined> {
    const before = known.get(name);
    if (before?.version === version) return before;
    signal.throwIfAborted();
    const object = await read(name, signal);
    // Of another version, the list does not say when it changes.
    if (object?.version === version) known.set(name, object);
    return object;
  }

  return {
    list,
    read: (key) => read(nameOf(prefix, key)),
    write: async (key, value, version) => {
      const name = nameOf(prefix, key);
      const writeId = randomUUID();
      const body = `${heading}${writeId}\n${value}`;
      const { outcome } = await send({ method: "PUT", name, body, replaces: { version } });
      if (outcome === "done") return true;
      // The conflict may be with this very write, whose first answer was lost.
      return (await read(name))?.writeId === writeId;
    },
    remove: async (key) => {
      await send({ method: "DELETE", name: nameOf(prefix, key) });
    },
  };
}

const tooMuch = (): FetchError => new FetchError("has longer objects than the records of any CA");

const keyForm = /^[a-z0-9][a-z0-9._-]*(?:\/[a-z0-9][a-z0-9._-]*)*$/;

function nameOf(prefix: string, key: string): string {
  const name = `${prefix}${key}`;
  if (name.length <= 1024 && keyForm.test(key)) return name;
  throw new Error("a record's name is too long for an object, or has other characters");
}

/** An object, and the number of the write that made it. */
interface BucketObject extends StoredObject {
  readonly writeId: string;
}

const heading = "rampart object 1 ";
const form = /^rampart object 1 ([0-9a-f-]{36})\n/;
const maximumObjectOctets = maximumRecordOctets + heading.length + 37;

/** An object of any other form counts as empty: readers refuse such a record, and must not overlook it. */
function toObject(answer: BucketAnswer): BucketObject | undefined {
  if (answer.outcome !== "done") return undefined;
  const { octets = new Uint8Array(), version } = answer;
  if (version === "") throw new FetchError("answered an object without an entity tag");
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(octets);
  const [head = "", writeId = ""] = form.exec(text) ?? [];
  return { value: head === "" ? "" : text.slice(head.length), version, writeId };
}
