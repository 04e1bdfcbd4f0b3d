import { verify, type X509Certificate } from "node:crypto";
import { CaError } from "../../foundation/errors.ts";
import { FetchError } from "../../foundation/fetch.ts";
import { parseBase64 } from "../../pki/encoding/base64.ts";
import { bytesEqual, toHex } from "../../pki/encoding/bytes.ts";
import { DerError } from "../../pki/encoding/der-reader.ts";
import { revocationListBlocks, toPem } from "../../pki/encoding/pem.ts";
import { signatureAlgorithms } from "../../pki/signature-algorithm.ts";
import { parseCertificate } from "../../pki/x509/certificate.ts";
import {
  type Crl,
  crlIssuerOf,
  isCrlOf,
  isCurrentAt,
  namedIn,
  parseCrl,
} from "../../pki/x509/crl/crl.ts";
import { parseSubjectPublicKey } from "../../pki/x509/subject-public-key.ts";
import { addSeconds, earlier } from "../../pki/x509/validity.ts";
import type { DocumentKind } from "./document-follower.ts";

/** Why a CRL is not taken. The one that is known already stays. */
export type CrlFault =
  | "issuer-unknown"
  | "signature-invalid"
  | "key-identifier-missing"
  | "critical-extension-unknown"
  | "number-backwards"
  | "not-current";

/** The CAs whose certificates verifiers of the mesh may meet. */
export interface MeshAuthorities {
  readonly roots: readonly X509Certificate[];
  /** As far as they are known: a mesh under another CA's root has more of them than one workload sees. */
  readonly intermediates: readonly X509Certificate[];
}

/** The CRLs that verifiers can use. */
export interface UsableCrls {
  /** Empty unless they leave no root out. */
  readonly crls: readonly Crl[];
  /** Those that are current, whether they leave a root out or not. */
  readonly current: readonly Crl[];
  /** The roots without a CRL, which keep every CRL from use. */
  readonly missing: readonly X509Certificate[];
  /** When a CRL runs out, and the answer changes. */
  readonly until: Date | undefined;
}

/** The time that a verifier beside this process takes to get another answer. */
const nearSeconds = 5;

/**
 * The newest CRL of each authority.
 *
 * OpenSSL and BoringSSL refuse every certificate whose issuer has no current CRL, as soon as they have a CRL of
 * anybody. Lists are therefore used together or not at all: each root needs one of its own, or of a known
 * intermediate below it. A CRL that is late or broken takes nothing away but itself.
 */
export class MeshCrls {
  readonly #crls = new Map<string, Crl>();
  readonly #issuers = new Map<string, CrlAuthority>();
  readonly #marginSeconds: number;

  /**
   * @param marginSeconds How long before its end a CRL is out of use. Verifiers refuse everything that an
   *   expired CRL is about.
   */
  constructor(marginSeconds: number = nearSeconds) {
    this.#marginSeconds = marginSeconds;
  }

  get all(): readonly Crl[] {
    return [...this.#crls.values()];
  }

  hasCurrent(now: Date): boolean {
    return this.all.some((crl) => isCurrentAt(crl, now));
  }

  /** Takes each CRL that is good and no older than the known one. @returns The faults of the others. */
  take(crls: readonly Crl[], authorities: MeshAuthorities, now: Date): readonly CrlFault[] {
    const faults = crls.flatMap((crl) => {
      const fault = this.#faultOf(crl, authorities, now);
      if (fault === undefined) this.#crls.set(keyOf(crl), crl);
      return fault ?? [];
    });
    for (const [key, crl] of this.#crls) if (!isCurrentAt(crl, now)) this.#crls.delete(key);
    return faults;
  }

  usable(authorities: MeshAuthorities, now: Date): UsableCrls {
    const latest = addSeconds(now, this.#marginSeconds);
    const current = this.all.filter(
      (crl) => isCurrentAt(crl, latest) && this.#isOfMesh(crl, authorities),
    );
    const missing = authorities.roots.filter(
      (root) => !this.#isCovered(root, authorities.intermediates, current),
    );
    const ends = current.flatMap(({ nextUpdate }) => nextUpdate ?? []);
    return {
      crls: missing.length === 0 ? current : [],
      current,
      missing,
      until: ends.length > 0 ? addSeconds(ends.reduce(earlier), -this.#marginSeconds) : undefined,
    };
  }

  #faultOf(crl: Crl, authorities: MeshAuthorities, now: Date): CrlFault | undefined {
    if (crl.hasUnknownCritical) return "critical-extension-unknown";
    // Authorities of one name are told apart by their keys alone.
    if (crl.authorityKeyIdentifier === undefined) return "key-identifier-missing";
    if (!this.#isOfMesh(crl, authorities)) return "issuer-unknown";
    const named = this.#namedBy(crl, authorities);
    if (named.length > 0 && !named.some((each) => each.hasSigned(crl))) return "signature-invalid";
    const known = this.#crls.get(keyOf(crl));
    if (known && isOlder(crl, known)) return "number-backwards";
    return isCurrentAt(crl, now) ? undefined : "not-current";
  }

  /** No agent has the certificates of other workloads' intermediates. The verifiers get them with each leaf. */
  #isOfMesh(crl: Crl, authorities: MeshAuthorities): boolean {
    return authorities.intermediates.length > 0 || this.#namedBy(crl, authorities).length > 0;
  }

  #isCovered(
    root: X509Certificate,
    intermediates: readonly X509Certificate[],
    crls: readonly Crl[],
  ): boolean {
    const below = intermediates.filter((each) => each.checkIssued(root));
    return [root, ...below]
      .map((each) => this.#issuerOf(each))
      .some((issuer) => crls.some((crl) => issuer.isNamedBy(crl) && issuer.hasSigned(crl)));
  }

  #namedBy(crl: Crl, { roots, intermediates }: MeshAuthorities): readonly CrlAuthority[] {
    return [...roots, ...intermediates]
      .map((each) => this.#issuerOf(each))
      .filter((issuer) => issuer.isNamedBy(crl));
  }

  #issuerOf(certificate: X509Certificate): CrlAuthority {
    const { fingerprint256 } = certificate;
    const known = this.#issuers.get(fingerprint256) ?? issuerWith(certificate);
    this.#issuers.set(fingerprint256, known);
    return known;
  }
}

/** The authorities of a mesh share one name. */
function keyOf({ issuer, authorityKeyIdentifier }: Crl): string {
  return `${toHex(issuer)} ${toHex(authorityKeyIdentifier ?? new Uint8Array())}`;
}

function isOlder(crl: Crl, known: Crl): boolean {
  if (crl.number !== undefined && known.number !== undefined && crl.number !== known.number) {
    return crl.number < known.number;
  }
  return crl.thisUpdate < known.thisUpdate;
}

/** A CA that may have signed a CRL. */
interface CrlAuthority {
  /** Whether a CRL names this CA as its issuer. */
  readonly isNamedBy: (crl: Crl) => boolean;
  /** Whether this CA has signed the CRL, and may sign CRLs. */
  readonly hasSigned: (crl: Crl) => boolean;
}

/** A CA whose certificate or key cannot be read here has issued no CRL. */
function issuerWith(certificate: X509Certificate): CrlAuthority {
  try {
    const parsed = parseCertificate(Uint8Array.from(certificate.raw));
    const { algorithm } = parseSubjectPublicKey(parsed.toBeSigned.spki);
    const signer = crlIssuerOf(parsed);
    // A CRL may have megabytes, and is looked at again whenever the roots change.
    const verdicts = new WeakMap<Crl, boolean>();
    const isSigned = ({ signatureAlgorithm, signedBytes, signature }: Crl): boolean => {
      const scheme = signatureAlgorithms[algorithm].find(({ identifier }) =>
        bytesEqual(identifier, signatureAlgorithm),
      );
      if (!scheme || !signer.maySign) return false;
      return verify(scheme.hash, signedBytes, certificate.publicKey, signature);
    };
    return {
      isNamedBy: (crl) => isCrlOf(crl, signer),
      hasSigned: (crl) => {
        const verdict = verdicts.get(crl) ?? isSigned(crl);
        verdicts.set(crl, verdict);
        return verdict;
      },
    };
  } catch (error) {
    if (!(error instanceof DerError || error instanceof CaError)) throw error;
    return { isNamedBy: () => false, hasSigned: () => false };
  }
}

/** More authorities than a mesh has at once. */
const maximumCrls = 100;

/** The document of `/crl.pem`: a CRL of each authority. Three hundred thousand entries fit into it. */
export const crlDocument: DocumentKind<readonly Crl[]> = {
  name: "CRL",
  mediaType: "application/x-pem-file",
  maximumOctets: 16 << 20,
  parse: (octets) => parseCrls(Buffer.from(octets).toString("latin1")),
  // An authority revokes at any time, so an endpoint that holds no answers is asked often.
  refreshSeconds: () => 60,
};

/**
 * The CRLs in a PEM text.
 *
 * @throws FetchError for a text without a CRL, with too many, with any other block, or with one that is no CRL.
 */
export function parseCrls(text: string): readonly Crl[] {
  const blocks = revocationListBlocks(text);
  const begun = text.match(/-----BEGIN /g)?.length ?? 0;
  if (blocks.length === 0 || blocks.length > maximumCrls || blocks.length !== begun) {
    throw new FetchError("did not answer CRLs");
  }
  return blocks.map(parseOne);
}

function parseOne(base64: string): Crl {
  try {
    const der = parseBase64(base64);
    const crl = der && parseCrl(der);
    // Later readers of the entries need not expect a broken one.
    if (crl && namedIn(crl, new Set()).length === 0) return crl;
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw new FetchError("answered a broken CRL", { cause: error });
  }
  throw new FetchError("answered a broken CRL");
}

/** PEM of CRLs, each with its last newline; empty for none. */
export function crlsPem(crls: readonly Crl[]): string {
  return crls.map(({ der }) => toPem("X509 CRL", der)).join("");
}
