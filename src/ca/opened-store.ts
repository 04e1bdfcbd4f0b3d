import { RecordError } from "../custody/authority-record.ts";
import { maximumIdLength, type RecordName, type StoredRecord } from "../custody/authority-store.ts";
import { type BackupContent, openBackupDate } from "../custody/backup-statement.ts";
import { type DenialContent, openDenial } from "../custody/denial-statement.ts";
import type { KekRing } from "../custody/kek.ts";
import { type AuthorityRequest, openRequest } from "../custody/request-record.ts";
import { openRevocation, type RevocationContent } from "../custody/revocation-statement.ts";
import { openRoot } from "../custody/root-statement.ts";
import { openAuthority } from "../custody/seal.ts";
import { openTaint, taintedSubject } from "../custody/taint-statement.ts";
import type { AuthorityRoot, RotationState } from "../pki/authority/rotation.ts";
import type { PhaseLengths } from "../pki/authority/schedule.ts";
import type { Issuer, SigningAuthority } from "../pki/authority/signing-authority.ts";
import { applyTaints, type ConfiguredTaint, type Taint, taintsOf } from "../pki/authority/taint.ts";
import type { AdditionalRoot } from "../pki/authority/trust-bundle.ts";
import type { CryptoProvider } from "../pki/crypto-provider.ts";
import type { TrustDomain } from "../pki/spiffe-id.ts";
import { type Denial, toDenial } from "./denial.ts";
import type { EventLog } from "./issuance/audit-event.ts";

/** A record, opened or refused. */
export type OpenedRecord =
  | { readonly kind: "authority"; readonly id: string; readonly issuer: Issuer }
  | { readonly kind: "root"; readonly id: string; readonly root: AdditionalRoot }
  | { readonly kind: "taint"; readonly id: string; readonly taint: Taint }
  | { readonly kind: "request"; readonly id: string; readonly request: AuthorityRequest }
  | { readonly kind: "denial"; readonly id: string; readonly denial: Denial }
  | {
      readonly kind: "revocation";
      readonly id: string;
      readonly revocation: RevocationContent;
    }
  | { readonly kind: "backup"; readonly id: string; readonly backup: BackupContent }
  | RefusedRecord;

/** A record that did not open, and why. */
export interface RefusedRecord extends RecordName {
  readonly refusal: RecordError;
}

/** All that it takes to open records. */
export interface RecordOpening extends StorePolicy {
  readonly trustDomain: TrustDomain;
  readonly keks: KekRing;
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
  /** Every authority with its key open and the schedule that the taints leave it. */
  readonly issuers: readonly Issuer[];
  /** Every authority with the schedule that it was minted with. */
  readonly authorities: readonly SigningAuthority[];
  readonly additionalRoots: readonly AdditionalRoot[];
  /** The taints that the store holds, and those that the configuration states. */
  readonly taints: readonly Taint[];
  readonly storedTaints: readonly Taint[];
  /** The requests without an answer: none has the id of an authority. */
  readonly requests: readonly AuthorityRequest[];
  readonly phaseLengths: PhaseLengths;
  readonly denials: readonly Denial[];
  readonly revocations: readonly RevocationContent[];
  /** When somebody last made a backup, as far as the store knows. */
  readonly lastBackup: Date | undefined;
  readonly refusals: readonly RefusedRecord[];
}

/** Opens one record. One that does not open is logged and becomes a value, so that the others still count. */
export async function openRecord(
  stored: StoredRecord,
  opening: RecordOpening,
): Promise<OpenedRecord> {
  try {
    return await openWhole(stored, opening);
  } catch (error) {
    if (!(error instanceof RecordError)) throw error;
    const { kind, id } = stored;
    opening.log.operation({
      event: "record-refused",
      level: "error",
      record: kind,
      authority: id.slice(0, maximumIdLength),
      check: error.check,
      detail: error.message,
    });
    return { kind, id, refusal: error };
  }
}

/** Opens one record of any kind. @throws RecordError */
export async function openWhole(
  stored: StoredRecord,
  { trustDomain, keks, cryptoProvider }: Omit<RecordOpening, "log" | keyof StorePolicy>,
): Promise<OpenedRecord> {
  const { kind, id } = stored;
  switch (kind) {
    case "authority":
      return { kind, id, issuer: await openAuthority(stored, trustDomain, keks, cryptoProvider) };
    case "root":
      return { kind, id, root: await openRoot(stored, trustDomain, keks) };
    case "taint":
      return { kind, id, taint: await openTaint(stored, trustDomain, keks) };
    case "request":
      return { kind, id, request: await openRequest(stored, trustDomain, keks) };
    case "denial":
      return { kind, id, denial: requireKnown(await openDenial(stored, trustDomain, keks)) };
    case "revocation":
      return { kind, id, revocation: await openRevocation(stored, trustDomain, keks) };
    case "backup":
      return { kind, id, backup: await openBackupDate(stored, trustDomain, keks) };
  }
}

/** A newer version may know descriptions that this one does not. */
function requireKnown(content: DenialContent): Denial {
  const denial = toDenial(content);
  if (denial) return denial;
  throw new RecordError("form", "a denial of an unknown form");
}

/** Opens every record of a store. */
export async function openStored(
  stored: readonly StoredRecord[],
  opening: RecordOpening,
): Promise<OpenedStore> {
  const records = await Promise.all(stored.map((record) => openRecord(record, opening)));
  return assemble(records, opening);
}

/** Combines the opened records of a store. */
export function assemble(
  records: readonly OpenedRecord[],
  { configuredTaints, authorityRoot, phaseLengths }: StorePolicy,
): OpenedStore {
  const opened = records.flatMap((each) => ("issuer" in each ? [each.issuer] : []));
  const authorities = opened.map(({ authority }) => authority);
  const additionalRoots = records.flatMap((each) => ("root" in each ? [each.root] : []));
  const storedTaints = records.flatMap((each) => taintOf(each, authorities));
  const stated = taintsOf(configuredTaints, [...authorities, ...additionalRoots]);
  const taints = [...storedTaints, ...stated];
  const requests = records.flatMap((each) => ("request" in each ? [each.request] : []));
  const effective = new Map(applyTaints(authorities, taints).map((each) => [each.id, each]));
  return {
    issuers: opened.map((issuer) => ({
      ...issuer,
      authority: effective.get(issuer.authority.id) ?? issuer.authority,
    })),
    authorities,
    additionalRoots,
    taints,
    storedTaints,
    requests: requests.filter((request) => !authorities.some(({ id }) => id === request.id)),
    authorityRoot,
    phaseLengths,
    denials: records.flatMap((each) => ("denial" in each ? [each.denial] : [])),
    revocations: records.flatMap((each) => ("revocation" in each ? [each.revocation] : [])),
    lastBackup: records.flatMap((each) => ("backup" in each ? [each.backup.madeAt] : []))[0],
    refusals: records.flatMap((each) => ("refusal" in each ? [each] : [])),
  };
}

/**
 * The taint of a record. A taint that does not open may mean that a key is stolen: its authority stops
 * signing, and the root keeps its schedule.
 */
function taintOf(record: OpenedRecord, authorities: readonly SigningAuthority[]): Taint[] {
  if ("taint" in record) return [record.taint];
  if (record.kind !== "taint") return [];
  const subject = authorities.find(({ id }) => id === taintedSubject(record));
  if (!subject) return [];
  const { id, schedule } = subject;
  return [{ id, taintedAt: schedule.signsFrom, retiresAt: schedule.retiresAt }];
}
