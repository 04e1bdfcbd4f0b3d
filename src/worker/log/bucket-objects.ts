import type { LogObjects } from "../../tlog/sequencer/storage.ts";

type Octets = Uint8Array<ArrayBuffer>;

/** The part of an R2 bucket that a log needs. */
export interface Bucket {
  get(key: string): Promise<{ bytes(): Promise<Uint8Array> } | null>;
  put(key: string, value: Uint8Array, options?: R2PutOptions): Promise<unknown>;
}

/**
 * The published objects of a log in R2, below its origin. R2 is strongly consistent, and creates an
 * object only if there is none (`etagDoesNotMatch: "*"`).
 */
export function bucketObjects(bucket: Bucket, origin: string): LogObjects {
  const read = async (path: string): Promise<Octets | undefined> => {
    const object = await bucket.get(`${origin}/${path}`);
    return object ? ((await object.bytes()) as Octets) : undefined;
  };
  return {
    read,
    create: async (path, octets) => {
      await bucket.put(`${origin}/${path}`, octets, { onlyIf: { etagDoesNotMatch: "*" } });
      // Read back: what a log has published must be there before it forgets the entries.
      return read(path);
    },
    replace: async (path, octets) => {
      await bucket.put(`${origin}/${path}`, octets);
    },
  };
}

export function isBucket(binding: unknown): binding is Bucket {
  return typeof binding === "object" && binding !== null && "put" in binding && "get" in binding;
}
