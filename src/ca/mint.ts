import { AuthorityRecord } from "../custody/authority-record.ts";
import type { AuthorityStore, StoredRecord } from "../custody/authority-store.ts";
import type { StatementName, Statements } from "../custody/record-kinds.ts";
import { KeyedStatement, Statement } from "../custody/statement.ts";
import type { OperationalEvent } from "../foundation/events.ts";
import { type AuthorityKey, NewAuthority } from "../pki/authority/new-authority.ts";
import type { Schedule } from "../pki/authority/schedule.ts";
import type { Taint } from "../pki/authority/taint.ts";
import { TrustBundle } from "../pki/authority/trust-bundle.ts";
import { TokenKey } from "../pki/jose/token-key.ts";
import { UnsignedCrl } from "../pki/x509/crl/signed-crl.ts";
import type { CertificateSigner } from "../pki/x509/leaf/certificate-signer.ts";
import { addSeconds, wholeSeconds } from "../pki/x509/validity.ts";
import {
  type OpenedStore,
  openRecordOrThrow,
  type RecordOpening,
  type StorePolicy,
} from "./opened-store.ts";
import { type CrlLifetime, planCrl } from "./revocation/crl-plan.ts";
import type { UpstreamAuthority } from "./upstream-authority.ts";

/** A root in a key service, and the function that has the roots of all mints sign their CRLs. */
interface CrlRoot {
  readonly signer: CertificateSigner;
  readonly keep: (mints: readonly Mint[], now: Date) => Promise<void>;
}

/** A store, and the KEKs with which its records are sealed and opened. */
export interface RecordWriting extends RecordOpening {
  readonly store: AuthorityStore;
}

/** What making and storing authorities needs: the store, the KEKs, the kind of root, and the lengths of the phases. */
export interface Mint extends RecordWriting, StorePolicy {
  readonly authorityKey: AuthorityKey;
  /** Absent where the CA publishes no CRLs. */
  readonly crl?: CrlLifetime | undefined;
  /** The CA that certifies the authorities, where `authorityRoot` is `upstream`. */
  readonly upstream?: UpstreamAuthority | undefined;
  /** The root in a key service that signs CRLs; absent where the CA publishes none. */
  readonly crlRoot?: CrlRoot | undefined;
  /** `YYYY-MM-DD`: the UTC day on which, and only on which, an empty store gets its first authority. */
  readonly inceptionDate: string | undefined;
  /** The algorithm of new keys for tokens; absent where the CA issues none. */
  readonly tokenAlgorithm?: TokenKey["algorithm"] | undefined;
  /** Set for a named signer: the mesh has verifiers, which must know its first authority before it signs. */
  readonly joinsMesh?: boolean;
}

/** Stores records, and makes authorities. */
export const Mint = {
  /**
   * Stores a record, after it has made sure that the record opens.
   *
   * @param before The value that it may replace. If the store has another one by now, nothing is stored.
   * @returns Whether it was stored.
   * @throws RecordError if it does not open.
   */
  async storeRecord(mint: RecordWriting, record: StoredRecord, before?: string): Promise<boolean> {
    await openRecordOrThrow(record, mint);
    return mint.store.put(record, before);
  },

  /** Stores a statement under a seal of the newest KEK. @throws RecordError if its record does not open. */
  async storeStatement<K extends StatementName>(
    mint: RecordWriting,
    kind: K,
    value: Statements[K],
  ): Promise<void> {
    await Mint.storeRecord(mint, await Statement.seal(kind, value, mint));
  },

  /** The instant, in whole seconds, from which every process of the CA knows a statement that is written now. */
  knownFrom: ({ phaseLengths }: Pick<Mint, "phaseLengths">, now: Date): Date =>
    addSeconds(wholeSeconds(new Date(now.getTime() + 999)), phaseLengths.propagationSeconds),

  /** Makes an authority for a schedule, stores it sealed, and drops its open key. */
  async mintAuthority(mint: Mint, schedule: Schedule): Promise<void> {
    const created = await NewAuthority.create(mint.trustDomain, mint.authorityKey, schedule);
    await addAuthority(mint, created, "authority-minted", "a new authority is in the store");
  },

  /** Records a taint. Callers rotate right after it: the rotation mints a successor if no other authority may sign. */
  async recordTaint(mint: RecordWriting, taint: Taint): Promise<void> {
    await Mint.storeStatement(mint, "taint", taint);
    mint.log.operation({
      event: "authority-tainted",
      level: "warning",
      detail: "the authority signs nothing any more; its root leaves the trust bundle",
      authority: taint.id,
      taintedAt: taint.taintedAt.toISOString(),
      retiresAt: taint.retiresAt.toISOString(),
    });
  },
};

/**
 * Stores an authority that is new to this CA, and logs when it signs.
 * @throws RecordError if its record does not open; Error if the mesh has CRLs and it can sign none: without a CRL of each
 *   root, no verifier could use those of the others.
 */
export async function addAuthority(
  mint: Mint,
  created: NewAuthority,
  event: OperationalEvent["event"],
  detail: string,
): Promise<void> {
  const record = await AuthorityRecord.seal(created, mint);
  const { id, schedule } = created.authority;
  if (mint.crl) {
    const issuer = await AuthorityRecord.open(record, mint, mint.cryptoProvider);
    const { propagationSeconds } = mint.phaseLengths;
    const content = planCrl(id, [], { ...mint.crl, propagationSeconds }, schedule.publishedFrom);
    await UnsignedCrl.sign(issuer, UnsignedCrl.prepare(issuer, content));
  }
  await Mint.storeRecord(mint, record);
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

/** Makes a key for tokens, stores it sealed, and drops its open key. */
export async function mintTokenKey(
  mint: Mint,
  algorithm: TokenKey["algorithm"],
  schedule: Schedule,
): Promise<void> {
  const { key, extractablePrivateKey } = await TokenKey.generate(algorithm, schedule);
  await Mint.storeRecord(
    mint,
    await KeyedStatement.seal("tokenKey", key, extractablePrivateKey, mint),
  );
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

/** An authority that has signed for less than this was founded just now: no relying party has tokens of this mesh yet. */
const foundingSeconds = 60;

/**
 * Plans which keys for tokens are made and which are deleted. A key that nobody needs stays while the bundle's
 * sequence number depends on it.
 *
 * @param store `undefined` before the first authority.
 */
export function planKeys(
  { tokenAlgorithm, phaseLengths: { propagationSeconds } }: Mint,
  store: OpenedStore | undefined,
  now: Date,
): ReturnType<typeof TokenKey.plan> {
  const { authorities = [], additionalRoots = [], tokenKeys = [] } = store ?? {};
  const isMeshRunning = authorities.some(
    ({ schedule }) => schedule.signsFrom <= addSeconds(now, -foundingSeconds),
  );
  const terms = { algorithm: tokenAlgorithm, propagationSeconds, isMeshRunning };
  const plan = TokenKey.plan(tokenKeys, terms, now);
  const old = tokenKeys.filter(({ id }) => plan.prune.includes(id));
  const all = [...authorities, ...additionalRoots, ...tokenKeys];
  const since = addSeconds(now, -propagationSeconds);
  return { ...plan, prune: TrustBundle.dispensable(old, all, since) };
}

/** Mints and prunes the keys for tokens. */
export async function carryOutKeyPlan(
  mint: Mint,
  plan: ReturnType<typeof TokenKey.plan>,
): Promise<void> {
  if (plan.mint && mint.tokenAlgorithm) await mintTokenKey(mint, mint.tokenAlgorithm, plan.mint);
  for (const id of plan.prune) {
    await mint.store.delete({ kind: "tokenKey", id });
    const detail = "a key whose last token has ended was deleted from the store";
    mint.log.operation({ event: "token-key-pruned", level: "info", detail, key: id });
  }
}
