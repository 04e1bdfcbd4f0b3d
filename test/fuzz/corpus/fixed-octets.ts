import { createHash } from "node:crypto";
import type { Octets } from "../../testkit/der/mutation.ts";

/** Octets that depend on a name alone (SHAKE256). */
export const fixedOctets = (name: string, length: number): Octets =>
  Buffer.from(createHash("shake256", { outputLength: length }).update(name).digest());
