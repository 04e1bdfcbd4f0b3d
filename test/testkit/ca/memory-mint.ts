import type { Mint } from "../../../src/ca/mint.ts";
import { AuthorityRecord } from "../../../src/custody/authority-record.ts";
import type { KekRing } from "../../../src/custody/kek.ts";
import { nodeCryptoProvider } from "../../../src/node/node-crypto-provider.ts";
import type { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { createEventRecorder, type EventRecorder } from "../log/event-recorder.ts";
import { createMemoryStore, type MemoryStore } from "./memory-store.ts";
import { clusterLocal } from "./sealed-authorities.ts";

/** A mint over an empty memory store. */
export interface MemoryMint extends Mint {
  readonly store: MemoryStore;
  readonly log: EventRecorder;
}

const day = 86_400;

/** Istio's longest leaf, and the lengths that follow from it. */
export const istioPhaseLengths = {
  propagationSeconds: 600,
  longestLeafSeconds: 90 * day,
  signingSeconds: 360 * day,
};

/** A mint with the inception date 2026-11-21, and the changes of a test. */
export function createMemoryMint(keks: KekRing, changes: Partial<Mint> = {}): MemoryMint {
  return {
    keks,
    cryptoProvider: {
      ...webCryptoProvider,
      requireReadable: nodeCryptoProvider.requireReadable,
    },
    trustDomain: clusterLocal,
    authorityKey: "EC-P256",
    phaseLengths: istioPhaseLengths,
    inceptionDate: "2026-11-21",
    configuredTaints: [],
    authorityRoot: "self",
    ...changes,
    store: createMemoryStore(),
    log: createEventRecorder(),
  };
}

/** The authorities in the store of a mint, without taints applied. */
export async function authoritiesIn({
  store,
  keks,
  cryptoProvider,
}: MemoryMint): Promise<SigningAuthority[]> {
  const records = (await store.load()).filter(({ kind }) => kind === "authority");
  const opened = records.map((record) =>
    AuthorityRecord.open(record, { trustDomain: clusterLocal, keks }, cryptoProvider),
  );
  return (await Promise.all(opened)).map(({ authority }) => authority);
}
