import { openAuthority, sealAuthority } from "../custody/authority-record.ts";
import type { AuthorityStore, StoredRecord } from "../custody/authority-store.ts";
import type { KekRing } from "../custody/kek.ts";
import { sealKeyed } from "../custody/keyed-statement.ts";
import type { StatementName, Statements } from "../custody/record-kinds.ts";
import { sealStatement } from "../custody/statement.ts";
import type { EventName } from "../foundation/events.ts";
import {
  type AuthorityKey,
  createAuthority,
  type NewAuthority,
} from "../pki/authority/new-authority.ts";
import type { AuthorityRoot } from "../pki/authority/rotation.ts";
import type { PhaseLengths, Schedule } from "../pki/authority/schedule.ts";
import type { ConfiguredTaint, Taint } from "../pki/authority/taint.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import {
  generateTokenKey,
  planTokenKeys,
  type StatedTokenKey,
  type TokenAlgorithm,
} from "../pki/jose/token-key.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { prepareCrl, signCrl } from "../pki/x509/crl/signed-crl.ts";
import type { CertificateSigner } from "../pki/x509/leaf/certificate-signer.ts";
import { addSeconds, wholeSeconds } from "../pki/x509/validity.ts";
import type { EventLog } from "./issuance/audit-event.ts";
import { openWhole } from "./opened-store.ts";
import { type CrlLifetime, planCrl } from "./revocation/crl-plan.ts";
import type { UpstreamAuthority } from "./upstream-authority.ts";

/** A root in a key service, and what has those of all mints sign their CRLs. */
export interface CrlRoot {
  readonly signer: CertificateSigner;
  readonly keep: (mints: readonly Mint[], now: Date) => Promise<void>;
}

/** How authorities are made, and where they are stored. */
export interface Mint {
  readonly store: AuthorityStore;
  readonly keks: KekRing;
  readonly cryptoProvider: CryptoProvider;
  readonly trustDomain: TrustDomain;
  readonly authorityKey: AuthorityKey;
  readonly phaseLengths: PhaseLengths;
  /** Absent where the CA publishes no CRLs. */
  readonly crl?: CrlLifetime | undefined;
  readonly authorityRoot: AuthorityRoot;
  /** The CA that certifies the authorities, where `authorityRoot` is `upstream`. */
  readonly upstream?: UpstreamAuthority | undefined;
  /** The root in a key service that signs CRLs; absent where the CA publishes none. */
  readonly crlRoot?: CrlRoot | undefined;
  /** `YYYY-MM-DD`: the UTC day on which, and only on which, an empty store gets its first authority. */
  readonly inceptionDate: string | undefined;
  readonly configuredTaints: readonly ConfiguredTaint[];
  /** The algorithm of new keys for tokens; absent where the CA issues none. */
  readonly tokenAlgorithm?: TokenAlgorithm | undefined;
  readonly log: EventLog;
  /** Set for a named signer: the mesh has verifiers, which must know its first authority before it signs. */
  readonly joinsMesh?: boolean;
}

/**
 * Stores a record that opens.
 *
 * @param before The value that it replaces, and no other.
 * @returns Whether it was stored.
 * @throws RecordError if it does not open.
 */
export async function storeRecord(
  mint: Mint,
  record: StoredRecord,
  before?: string,
): Promise<boolean> {
  await openWhole(record, mint);
  return mint.store.put(record, before);
}

/** Stores a statement under a seal of the newest KEK. @throws RecordError if its record does not open. */
export async function storeStatement<K extends StatementName>(
  mint: Mint,
  kind: K,
  value: Statements[K],
): Promise<void> {
  await storeRecord(mint, await sealStatement(kind, value, mint));
}

/** The whole second from which every process of the CA knows a statement that is written now. */
export const knownFrom = ({ phaseLengths }: Pick<Mint, "phaseLengths">, now: Date): Date =>
  addSeconds(wholeSeconds(new Date(now.getTime() + 999)), phaseLengths.propagationSeconds);

/** Stores an authority under a seal of the newest KEK. @throws RecordError if its record does not open. */
export async function storeAuthority(mint: Mint, created: NewAuthority): Promise<void> {
  await storeRecord(mint, await sealAuthority(created, mint));
}

/**
 * Stores an authority that this CA may publish, because its record opens and it signs CRLs where there are any: one
 * root without a CRL keeps those of all others from use.
 */
async function storePublishable(mint: Mint, created: NewAuthority): Promise<void> {
  const record = await sealAuthority(created, mint);
  if (mint.crl) {
    const issuer = await openAuthority(record, mint, mint.cryptoProvider);
    const { id, schedule } = issuer.authority;
    const { propagationSeconds } = mint.phaseLengths;
    const content = planCrl(id, [], { ...mint.crl, propagationSeconds }, schedule.publishedFrom);
    await signCrl(issuer, prepareCrl(issuer, content));
  }
  await storeRecord(mint, record);
}

/** Stores an authority that is new to this CA, and logs when it signs. */
export async function addAuthority(
  mint: Mint,
  created: NewAuthority,
  event: EventName,
  detail: string,
): Promise<void> {
  await storePublishable(mint, created);
  const { id, schedule } = created.authority;
  mint.log.operation({
    event,
    level: "info",
    detail,
    authority: id,
    publishedFrom: schedule.publishedFrom.toISOString(),
    signsFrom: schedule.signsFrom.toISOString(),
    signsUntil: schedule.signsUntil.toISOString(),
  });
}

/** Makes an authority for a schedule, stores it sealed, and drops its open key. */
export async function mintAuthority(mint: Mint, schedule: Schedule): Promise<void> {
  const created = await createAuthority(mint.trustDomain, mint.authorityKey, schedule);
  await addAuthority(mint, created, "authority-minted", "a new authority is in the store");
}

/**
 * Records a taint. Callers rotate right after it: the rotation mints a successor if no other authority
 * may sign.
 */
export async function recordTaint(mint: Mint, taint: Taint): Promise<void> {
  await storeStatement(mint, "taint", taint);
  mint.log.operation({
    event: "authority-tainted",
    level: "warning",
    detail: "the authority signs nothing any more; its root leaves the trust bundle",
    authority: taint.id,
    taintedAt: taint.taintedAt.toISOString(),
    retiresAt: taint.retiresAt.toISOString(),
  });
}

/** Makes a key for tokens, stores it sealed, and drops its open key. */
export async function mintTokenKey(
  mint: Mint,
  algorithm: TokenAlgorithm,
  schedule: Schedule,
): Promise<void> {
  const { key, extractablePrivateKey } = await generateTokenKey(algorithm, schedule);
  await storeRecord(mint, await sealKeyed("tokenKey", key, extractablePrivateKey, mint));
  mint.log.operation({
    event: "token-key-minted",
    level: "info",
    detail: "a new key for JWT-SVIDs is in the store",
    key: key.id,
    publishedFrom: schedule.publishedFrom.toISOString(),
    signsFrom: schedule.signsFrom.toISOString(),
    signsUntil: schedule.signsUntil.toISOString(),
  });
}

/** Mints and prunes the keys for tokens. */
export async function carryOutKeyPlan(
  mint: Mint,
  keys: readonly StatedTokenKey[],
  now: Date,
): Promise<void> {
  const { tokenAlgorithm, phaseLengths } = mint;
  const plan = planTokenKeys(keys, tokenAlgorithm, phaseLengths.propagationSeconds, now);
  if (plan.mint && tokenAlgorithm) await mintTokenKey(mint, tokenAlgorithm, plan.mint);
  for (const id of plan.prune) await pruneTokenKey(mint, id);
}

async function pruneTokenKey(mint: Mint, id: string): Promise<void> {
  await mint.store.delete({ kind: "tokenKey", id });
  mint.log.operation({
    event: "token-key-pruned",
    level: "info",
    detail: "a key whose last token has ended was deleted from the store",
    key: id,
  });
}
