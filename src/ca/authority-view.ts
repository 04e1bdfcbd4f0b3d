import { RecordError } from "../custody/authority-record.ts";
import type { Issuer } from "../pki/issuer.ts";
import { toPem } from "../pki/pem.ts";
import { signingAuthorityAt } from "../pki/signing-authority.ts";
import { bundleSequenceAt, type TrustBundle, trustBundleAt } from "../pki/trust-bundle.ts";

/** Everything that requests need of the authorities, as it stands from one change to the next. */
export interface AuthorityView {
  readonly validFrom: Date;
  readonly validUntil: Date;
  /** The authority that signs, or nothing. */
  readonly issuer: Issuer | undefined;
  readonly trustBundle: TrustBundle;
  /** What follows a leaf in an answer: each intermediate alone, then every root as one element. */
  readonly chainPem: readonly string[];
  /** Grows with every change of the trust bundle: `spiffe_sequence`. */
  readonly sequence: number;
  /** Why nothing signs, or why not everything is as it should be; empty when all is well. */
  readonly reasons: readonly string[];
}

const never = new Date(8.64e15);

/** @param opened Every record of the store, opened or refused. */
export function viewAt(opened: readonly (Issuer | RecordError)[], now: Date): AuthorityView {
  const issuers = opened.filter(isOpen);
  const authorities = issuers.map(({ authority }) => authority);
  const signing = signingAuthorityAt(authorities, now);
  const issuer = issuers.find(({ authority }) => authority === signing);
  const trustBundle = trustBundleAt(authorities, now);
  const intermediates = signing?.intermediates.map((der) => toPem("CERTIFICATE", der)) ?? [];
  return {
    validFrom: now,
    validUntil: nextChange(issuers, now),
    issuer,
    trustBundle,
    chainPem: [...intermediates, trustBundle.pem],
    sequence: bundleSequenceAt(authorities, now),
    reasons: reasonsNotReady(opened, issuers, issuer),
  };
}

function isOpen(entry: Issuer | RecordError): entry is Issuer {
  return !(entry instanceof RecordError);
}

function nextChange(issuers: readonly Issuer[], now: Date): Date {
  return issuers
    .flatMap(({ authority: { schedule } }) => Object.values(schedule) as Date[])
    .filter((instant) => instant > now)
    .reduce((earliest, instant) => (instant < earliest ? instant : earliest), never);
}

function reasonsNotReady(
  opened: readonly (Issuer | RecordError)[],
  issuers: readonly Issuer[],
  issuer: Issuer | undefined,
): string[] {
  const refused = opened
    .filter((entry) => entry instanceof RecordError)
    .map((error) => `a record does not open: ${error.check}`);
  if (issuer) return refused;
  if (opened.length === 0) return ["the store holds no authority"];
  if (issuers.length === 0) return refused;
  return [...refused, "no authority signs at this time"];
}
