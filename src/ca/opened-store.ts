import { AuthorityRecord } from "../custody/authority-record.ts";
import { RecordName, type StoredRecord } from "../custody/authority-store.ts";
import type { Custodian } from "../custody/kek.ts";
import { RecordError } from "../custody/record-fields.ts";
import {
  type AuthorityRequest,
  type DenialContent,
  type RevocationContent,
  type StatementName,
  type Statements,
  statementKinds,
  taintedSubject,
} from "../custody/record-kinds.ts";
import { KeyedStatement, Statement } from "../custody/statement.ts";
import type { AuthorityRoot, RotationState } from "../pki/authority/rotation.ts";
import type { PhaseLengths } from "../pki/authority/schedule.ts";
import type { OpenAuthority, SigningAuthority } from "../pki/authority/signing-authority.ts";
import { type ConfiguredTaint, Taint } from "../pki/authority/taint.ts";
import type { AdditionalRoot } from "../pki/authority/trust-bundle.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import type { OpenTokenKey, StatedTokenKey, TokenKey } from "../pki/jose/token-key.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { Denial } from "./denial.ts";
import type { EventLog } from "./issuance/event-log.ts";

/** A record, opened or refused. */
export type OpenedRecord =
  | { readonly kind: "authority"; readonly id: string; readonly issuer: OpenAuthority }
  | OpenedStatement
  | RefusedRecord;

type OpenedStatement = {
  [K in StatementName]: {
    readonly kind: K;
    readonly id: string;
    readonly value: StatementValues[K];
  };
}[StatementName];

/** The values of the statements of each kind, with parsed denials and unsealed token keys. */
type StatementValues = Omit<Statements, "denial" | "tokenKey"> & {
  readonly denial: Denial;
  readonly tokenKey: OpenTokenKey;
};

/** A record that did not open, and why. */
export interface RefusedRecord extends RecordName {
  readonly refusal: RecordError;
}

/** The KEKs and the log that opening records needs. */
export interface RecordOpening extends Custodian {
  readonly trustDomain: TrustDomain;
  readonly cryptoProvider: CryptoProvider;
  readonly log: EventLog;
}

/** The configuration of the authorities of a store. */
export interface StorePolicy {
  readonly configuredTaints: readonly ConfiguredTaint[];
  readonly authorityRoot: AuthorityRoot;
  readonly phaseLengths: PhaseLengths;
}

/** The contents of a store, as far as its records open. */
export interface OpenedStore extends RotationState {
  /** Every authority with its key unsealed, and with its schedule as shortened by taints. */
  readonly openAuthorities: readonly OpenAuthority[];
  /** Every authority with the schedule that it was minted with. */
  readonly authorities: readonly SigningAuthority[];
  readonly additionalRoots: readonly AdditionalRoot[];
  /** The taints of the store and of the configuration. A stored taint that does not open still ends signing. */
  readonly taints: readonly Taint[];
  readonly storedTaints: readonly Taint[];
  /** The keys for tokens. A tainted one signs nothing and is in no document. */
  readonly tokenKeys: readonly StatedTokenKey<OpenTokenKey>[];
  /** The requests for intermediates that have no answer: none has the id of an authority. */
  readonly requests: readonly AuthorityRequest[];
  readonly phaseLengths: PhaseLengths;
  readonly denials: readonly Denial[];
  readonly revocations: readonly RevocationContent[];
  /** When the last backup was made, as far as the store knows. */
  readonly lastBackup: Date | undefined;
  /** All statements that opened, by their kinds: the input of a backup. */
  readonly statements: { readonly [K in StatementName]: readonly StatementValues[K][] };
  readonly refusals: readonly RefusedRecord[];
}

/** Opens one record. A record that does not open is logged and returned with its refusal, so that the others can still be used. */
export async function openRecord(
  stored: StoredRecord,
  opening: RecordOpening,
): Promise<OpenedRecord> {
  try {
    return await openRecordOrThrow(stored, opening);
  } catch (error) {
    if (!(error instanceof RecordError)) throw error;
    const { kind, id } = stored;
    opening.log.operation({
      event: "record-refused",
      level: "error",
      record: kind,
      authority: id.slice(0, RecordName.maximumIdLength),
      check: error.check,
      detail: error.message,
    });
    return { kind, id, refusal: error };
  }
}

/** Opens one record of any kind: unseals an authority's or a token's key, or verifies the MAC of a statement. @throws RecordError */
export async function openRecordOrThrow(
  stored: StoredRecord,
  opening: Omit<RecordOpening, "log">,
): Promise<OpenedRecord> {
  const { kind, id } = stored;
  if (kind === "authority") {
    const issuer = await AuthorityRecord.open(stored, opening, opening.cryptoProvider);
    return { kind, id, issuer };
  }
  if (kind === "tokenKey") {
    return { kind, id, value: await KeyedStatement.openTokenKey(stored, opening) };
  }
  const value = await Statement.open(kind, stored, opening);
  if (kind !== "denial") return { kind, id, value } as OpenedStatement;
  const denial = Denial.parse(value as DenialContent);
  if (denial) return { kind, id, value: denial };
  // Only a newer version can parse its subject.
  throw new RecordError("form", "a denial of an unknown form");
}

/** Opens stores. */
export const OpenedStore = {
  /** Opens every record of a store. Those that do not open are logged, and in `refusals`. */
  async open(
    stored: readonly StoredRecord[],
    opening: RecordOpening & StorePolicy,
  ): Promise<OpenedStore> {
    const records = await Promise.all(stored.map((record) => openRecord(record, opening)));
    return assemble(records, opening);
  },
};

/** Combines the opened records of a store. */
export function assemble(
  records: readonly OpenedRecord[],
  { configuredTaints, authorityRoot, phaseLengths }: StorePolicy,
): OpenedStore {
  const opened = records.flatMap((each) => ("issuer" in each ? [each.issuer] : []));
  const authorities = opened.map(({ authority }) => authority);
  const valuesOf = (kind: string): unknown[] =>
    records.flatMap((each) => ("value" in each && each.kind === kind ? [each.value] : []));
  const statements = Object.fromEntries(
    Object.keys(statementKinds).map((kind) => [kind, valuesOf(kind)]),
  ) as unknown as OpenedStore["statements"];
  const additionalRoots = statements.root;
  const storedTaints = records.flatMap((each) => taintOf(each, authorities, statements.tokenKey));
  const stated = Taint.fromConfiguration(configuredTaints, [...authorities, ...additionalRoots]);
  const statedKeys = Taint.fromConfiguration(configuredTaints, statements.tokenKey).map(goneAtOnce);
  const taints = [...storedTaints, ...stated, ...statedKeys];
  const effective = new Map(Taint.apply(authorities, taints).map((each) => [each.id, each]));
  return {
    openAuthorities: opened.map((issuer) => ({
      ...issuer,
      authority: effective.get(issuer.authority.id) ?? issuer.authority,
    })),
    authorities,
    additionalRoots,
    taints,
    storedTaints,
    tokenKeys: statements.tokenKey.map((key) => ({ ...key, isTainted: isIn(taints, key) })),
    requests: statements.request.filter((request) => !isIn(authorities, request)),
    authorityRoot,
    phaseLengths,
    denials: statements.denial,
    revocations: statements.revocation,
    lastBackup: statements.backup[0]?.madeAt,
    statements,
    refusals: records.flatMap((each) => ("refusal" in each ? [each] : [])),
  };
}

const isIn = (list: readonly { readonly id: string }[], { id }: { readonly id: string }): boolean =>
  list.some((each) => each.id === id);

/** The taint of a key for tokens: the key leaves the documents at once, whatever `retiresAt` the taint has. */
const goneAtOnce = ({ id, taintedAt }: Pick<Taint, "id" | "taintedAt">): Taint => ({
  id,
  taintedAt,
  retiresAt: taintedAt,
});

/**
 * The taint of a record. A taint that does not open may mean that a key is stolen: its authority stops
 * signing, and the root keeps its schedule.
 */
function taintOf(
  record: OpenedRecord,
  authorities: readonly SigningAuthority[],
  tokenKeys: readonly TokenKey[],
): Taint[] {
  if (record.kind !== "taint") return [];
  if ("value" in record) return [record.value];
  const key = tokenKeys.find(({ id }) => id === taintedSubject(record));
  if (key) return [goneAtOnce({ id: key.id, taintedAt: key.schedule.publishedFrom })];
  const subject = authorities.find(({ id }) => id === taintedSubject(record));
  if (!subject) return [];
  const { id, schedule } = subject;
  return [{ id, taintedAt: schedule.signsFrom, retiresAt: schedule.retiresAt }];
}
