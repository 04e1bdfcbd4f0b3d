import type { Load } from "../loads.ts";

/** A CA under measurement. */
export interface Peer {
  readonly name: string;
  readonly version: string;
  /** The API by which its own clients ask it. */
  readonly api: string;
  readonly rootKey: RootKey;
  /** The work of a call that it leaves to others; empty for none. */
  readonly less: string;
  /** Issues so many certificates. */
  readonly load: Load;
  /** CPU that its processes have used so far, in microseconds. */
  readonly cpu: () => number;
  readonly end: () => Promise<void>;
}

/** The kinds of a signing key. */
export type RootKey = "EC-P256" | "RSA-2048";

/** A CA that could not be started, and why. */
export interface MissingPeer {
  readonly name: string;
  readonly why: string;
}
