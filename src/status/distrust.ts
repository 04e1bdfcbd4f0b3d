import { CertificateVerifier } from "../authn/certificate-verifier.ts";
import type { Denial, RequestAttributes } from "../ca/denial.ts";
import { LogEntry } from "../ca/issuance/log-entry.ts";
import { revocationOf } from "../ca/revocation/crl-plan.ts";
import type { RevocationContent } from "../custody/record-kinds.ts";
import type { SigningAuthority } from "../pki/authority/signing-authority.ts";
import { Hex } from "../pki/encoding/bytes.ts";
import { DerError, Tag } from "../pki/encoding/der-reader.ts";
import { SerialNumber } from "../pki/encoding/serial-number.ts";
import { SpiffeId } from "../pki/spiffe-id.ts";
import { Certificate } from "../pki/x509/certificate.ts";
import { uriName } from "../pki/x509/certificate-extensions.ts";

/** Where a denial or revocation is stated. */
interface Stated {
  readonly stated: "store" | "configuration";
  readonly why: string | undefined;
}

/** A denial, as reports show it. */
export interface DenialStatus extends Stated {
  readonly subject: string;
  /** When the denial ends; `undefined` if it lasts until an operator removes it. */
  readonly until: Date | undefined;
  readonly hasEnded: boolean;
}

type Ending = Pick<Denial, "until">;

/** Finds what is stated against certificates and tokens. */
export const Distrust = {
  /** Whether one denial is still in force after another has ended. */
  endsLater: (one: Ending, other: Ending): boolean =>
    other.until !== undefined && (one.until === undefined || one.until > other.until),

  /**
   * Finds the revocation of a log entry's certificate, or else the denial in force that matches its holder or requester.
   *
   * @returns `undefined` if there is none, and for the entry of an authority.
   * @throws LogError, DerError if the octets are not a valid log entry.
   */
  of(
    octets: Uint8Array,
    { authorities, revocations, denials }: StatedDistrust,
    now: Date,
  ): Distrust | undefined {
    const entry = LogEntry.parse(octets);
    if (entry.proof === "authority") return undefined;
    if (entry.kind === "token") {
      const { spiffeId, expiresAt } = entry.token;
      return denialOf(entry, spiffeId, new Date(expiresAt), denials, now);
    }
    const certificate = Certificate.parse(entry.certificate);
    const signer = authorities.find((each) => isNamedIn(certificate, each));
    const { serialNumber, validity } = certificate.toBeSigned;
    const name = { authority: signer?.id ?? "", serialNumber: Hex.format(serialNumber) };
    const revoked = revocationOf(revocations, name);
    if (revoked) {
      const { reason, why, revokedAt: since } = revoked;
      const reasons = reason === "unspecified" ? [] : [reason];
      return { state: "revoked", since, detail: joined(...reasons, why) };
    }
    return denialOf(entry, Distrust.namesOf(certificate), validity.notAfter, denials, now);
  },

  /** The URI and the DNS names of a certificate, joined, up to the first name of another kind; empty if there are none. */
  namesOf({ toBeSigned }: Certificate): string {
    const names = toBeSigned.extensions.subjectAltName?.value.fork();
    if (!names?.nextIs(Tag.sequence)) return "";
    const list = names.enter(Tag.sequence);
    const found: string[] = [];
    while (list.nextIs(dnsName) || list.nextIs(uriName)) {
      found.push(new TextDecoder().decode(list.content(list.nextIs(uriName) ? uriName : dnsName)));
    }
    return found.join(", ");
  },
};

/** The denials of a CA. */
export const DenialStatus = {
  /** All denials, sorted by subject. Of several in the store for one subject, only the one that ends last. */
  all(
    stored: readonly Denial[],
    configured: readonly Denial[],
    now: Date,
  ): readonly DenialStatus[] {
    const statusOf =
      (stated: Stated["stated"]) =>
      ({ subject, until, why }: Denial): DenialStatus => {
        const hasEnded = until !== undefined && until <= now;
        return { subject, stated, until, hasEnded, why };
      };
    const last = new Map<string, Denial>();
    for (const each of stored) {
      const known = last.get(each.subject);
      if (!known || Distrust.endsLater(each, known)) last.set(each.subject, each);
    }
    const all = [
      ...[...last.values()].map(statusOf("store")),
      ...configured.map(statusOf("configuration")),
    ];
    return all.toSorted((a, b) => (a.subject < b.subject ? -1 : 1));
  },
};

/** A revoked certificate, as reports show it. */
export interface RevokedStatus extends Stated, Pick<RevocationContent, "authority" | "reason"> {
  readonly serial: string;
  readonly revokedAt: Date;
  readonly expiresAt: Date;
}

/** The revoked certificates of a CA. */
export const RevokedStatus = {
  /** All revoked certificates, expired ones too, in the order of their revocation. */
  all(
    stored: readonly RevocationContent[],
    configured: readonly RevocationContent[],
  ): readonly RevokedStatus[] {
    const statusesOf =
      (stated: Stated["stated"]) =>
      ({ certificates, authority, revokedAt, reason, why }: RevocationContent): RevokedStatus[] =>
        [...certificates].map(([number, end]) => ({
          serial: SerialNumber.shown(number),
          authority,
          revokedAt,
          expiresAt: new Date(1000 * end),
          reason,
          stated,
          why,
        }));
    const all = [
      ...stored.flatMap(statusesOf("store")),
      ...configured.flatMap(statusesOf("configuration")),
    ];
    return all.toSorted((a, b) => (a.revokedAt < b.revokedAt ? -1 : 1));
  },
};

/** The denials and revocations of operators, and the authorities whose certificates they concern. */
export interface StatedDistrust {
  readonly authorities: readonly SigningAuthority[];
  readonly revocations: readonly RevocationContent[];
  readonly denials: readonly Denial[];
}

/** What is stated against a certificate or token in the log: it is revoked, or its holder is denied further ones. */
export interface Distrust {
  readonly state: "revoked" | "denied";
  /** When it was stated; `undefined` for a denial in the configuration without an instant. */
  readonly since: Date | undefined;
  /** The reason or the subject, and the note of the operator. */
  readonly detail: string;
}

/**
 * Finds the denial that matches the subject of a log entry, except one that began after the certificate or token
 * expired.
 */
function denialOf(
  entry: LogEntry,
  names: string,
  end: Date,
  denials: readonly Denial[],
  now: Date,
): Distrust | undefined {
  const known = knownOf(entry, names);
  const denial = denials.find(
    ({ until = never, knownFrom, concerns }) => until > now && knownFrom <= end && concerns(known),
  );
  if (!denial) return undefined;
  const { subject, knownFrom, why } = denial;
  const since = knownFrom.getTime() === 0 ? undefined : knownFrom;
  return { state: "denied", since, detail: joined(subject, why) };
}

/** Whether an authority is the certificate's issuer; `false` if the certificate is malformed. */
function isNamedIn(certificate: Certificate, authority: SigningAuthority): boolean {
  try {
    return CertificateVerifier.namesAuthority(certificate, authority);
  } catch (error) {
    if (error instanceof DerError) return false;
    throw error;
  }
}

const never = new Date(8.64e15);

const joined = (...parts: readonly (string | undefined)[]): string =>
  parts.filter((part) => part !== undefined).join(", ");

/** The attributes that a denial may match: the certificate's holder, and who requested it. */
function knownOf(entry: LogEntry, names: string): RequestAttributes {
  const { impersonator = "", gateway = "", cluster, issuer: name, pod, node, tokenId } = entry;
  const tokenSubject = entry.tokenSubject === "unknown" ? undefined : entry.tokenSubject;
  const ids = [...names.split(", "), impersonator, gateway];
  return {
    accounts: ids.flatMap((id) => SpiffeId.parseWorkload(id)?.account ?? []),
    issuers: [{ cluster, name }],
    bound: [{ pod, node, tokenId, tokenSubject }],
  };
}

const dnsName = Tag.contextPrimitive(2);
