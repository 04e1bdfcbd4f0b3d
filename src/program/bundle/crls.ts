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

/** Why a list is not taken. The one that is known already stays. */
export type ListFault =
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

/** The lists that verifiers can use. */
export interface UsableLists {
  /** Empty unless they leave no root out. */
  readonly lists: readonly Crl[];
  /** The roots without a list, which keep every list from use. */
  readonly missing: readonly X509Certificate[];
  /** When a list runs out, and the answer changes. */
  readonly until: Date | undefined;
}

/** The time that a verifier beside this process takes to get another answer. */
const nearSeconds = 5;

/**
 * The newest revocation list of each authority.
 *
 * OpenSSL and BoringSSL refuse every certificate whose issuer has no current list, as soon as they have a list of
 * anybody. Lists are therefore used together or not at all: each root needs one of its own, or of a known
 * intermediate below it. A list that is late or broken takes nothing away but itself.
 */
export class KnownLists {
  readonly #lists = new Map<string, Crl>();
  readonly #issuers = new Map<string, ListIssuer>();
  readonly #marginSeconds: number;

  /**
   * @param marginSeconds How long before its end a list is out of use. Verifiers refuse everything that an
   *   expired list is about.
   */
  constructor(marginSeconds: number = nearSeconds) {
    this.#marginSeconds = marginSeconds;
  }

  get all(): readonly Crl[] {
    return [...this.#lists.values()];
  }

  hasCurrent(now: Date): boolean {
    return this.all.some((list) => isCurrentAt(list, now));
  }

  /** Takes each list that is good and no older than the known one. @returns The faults of the others. */
  take(lists: readonly Crl[], authorities: MeshAuthorities, now: Date): readonly ListFault[] {
    const faults = lists.flatMap((list) => {
      const fault = this.#faultOf(list, authorities, now);
      if (fault === undefined) this.#lists.set(keyOf(list), list);
      return fault ?? [];
    });
    for (const [key, list] of this.#lists) if (!isCurrentAt(list, now)) this.#lists.delete(key);
    return faults;
  }

  usable(authorities: MeshAuthorities, now: Date): UsableLists {
    const latest = addSeconds(now, this.#marginSeconds);
    const current = this.all.filter(
      (list) => isCurrentAt(list, latest) && this.#isOfMesh(list, authorities),
    );
    const missing = authorities.roots.filter(
      (root) => !this.#isCovered(root, authorities.intermediates, current),
    );
    const ends = current.flatMap(({ nextUpdate }) => nextUpdate ?? []);
    return {
      lists: missing.length === 0 ? current : [],
      missing,
      until: ends.length > 0 ? addSeconds(ends.reduce(earlier), -this.#marginSeconds) : undefined,
    };
  }

  #faultOf(list: Crl, authorities: MeshAuthorities, now: Date): ListFault | undefined {
    if (list.hasUnknownCritical) return "critical-extension-unknown";
    // Authorities of one name are told apart by their keys alone.
    if (list.authorityKeyIdentifier === undefined) return "key-identifier-missing";
    if (!this.#isOfMesh(list, authorities)) return "issuer-unknown";
    const named = this.#namedBy(list, authorities);
    if (named.length > 0 && !named.some((each) => each.hasSigned(list))) return "signature-invalid";
    const known = this.#lists.get(keyOf(list));
    if (known && isOlder(list, known)) return "number-backwards";
    return isCurrentAt(list, now) ? undefined : "not-current";
  }

  /** No agent has the certificates of other workloads' intermediates. The verifiers get them with each leaf. */
  #isOfMesh(list: Crl, authorities: MeshAuthorities): boolean {
    return authorities.intermediates.length > 0 || this.#namedBy(list, authorities).length > 0;
  }

  #isCovered(
    root: X509Certificate,
    intermediates: readonly X509Certificate[],
    lists: readonly Crl[],
  ): boolean {
    const below = intermediates.filter((each) => each.checkIssued(root));
    return [root, ...below]
      .map((each) => this.#issuerOf(each))
      .some((issuer) => lists.some((list) => issuer.isNamedBy(list) && issuer.hasSigned(list)));
  }

  #namedBy(list: Crl, { roots, intermediates }: MeshAuthorities): readonly ListIssuer[] {
    return [...roots, ...intermediates]
      .map((each) => this.#issuerOf(each))
      .filter((issuer) => issuer.isNamedBy(list));
  }

  #issuerOf(certificate: X509Certificate): ListIssuer {
    const { fingerprint256 } = certificate;
    const known = this.#issuers.get(fingerprint256) ?? listIssuerOf(certificate);
    this.#issuers.set(fingerprint256, known);
    return known;
  }
}

/** The authorities of a mesh share one name. */
function keyOf({ issuer, authorityKeyIdentifier }: Crl): string {
  return `${toHex(issuer)} ${toHex(authorityKeyIdentifier ?? new Uint8Array())}`;
}

function isOlder(list: Crl, known: Crl): boolean {
  if (list.number !== undefined && known.number !== undefined && list.number !== known.number) {
    return list.number < known.number;
  }
  return list.thisUpdate < known.thisUpdate;
}

/** A CA that may have signed a list. */
interface ListIssuer {
  /** Whether a list names this CA as its issuer. */
  readonly isNamedBy: (list: Crl) => boolean;
  /** Whether this CA has signed the list, and may sign lists. */
  readonly hasSigned: (list: Crl) => boolean;
}

/** A CA whose certificate or key cannot be read here has issued no list. */
function listIssuerOf(certificate: X509Certificate): ListIssuer {
  try {
    const parsed = parseCertificate(Uint8Array.from(certificate.raw));
    const { algorithm } = parseSubjectPublicKey(parsed.toBeSigned.spki);
    const signer = crlIssuerOf(parsed);
    // A list may have megabytes, and is looked at again whenever the roots change.
    const verdicts = new WeakMap<Crl, boolean>();
    const isSigned = ({ signatureAlgorithm, signedBytes, signature }: Crl): boolean => {
      const scheme = signatureAlgorithms[algorithm].find(({ identifier }) =>
        bytesEqual(identifier, signatureAlgorithm),
      );
      if (!scheme || !signer.maySign) return false;
      return verify(scheme.hash, signedBytes, certificate.publicKey, signature);
    };
    return {
      isNamedBy: (list) => isCrlOf(list, signer),
      hasSigned: (list) => {
        const verdict = verdicts.get(list) ?? isSigned(list);
        verdicts.set(list, verdict);
        return verdict;
      },
    };
  } catch (error) {
    if (!(error instanceof DerError || error instanceof CaError)) throw error;
    return { isNamedBy: () => false, hasSigned: () => false };
  }
}

/** More authorities than a mesh has at once. */
const maximumLists = 100;

/** The document of `/crl.pem`: a list of each authority. Three hundred thousand entries fit into it. */
export const revocationLists: DocumentKind<readonly Crl[]> = {
  name: "revocation list",
  mediaType: "application/x-pem-file",
  maximumOctets: 16 << 20,
  parse: (octets) => parseRevocationLists(Buffer.from(octets).toString("latin1")),
  // An authority revokes at any time, so an endpoint that holds no answers is asked often.
  refreshSeconds: () => 60,
};

/**
 * The lists in a PEM text.
 *
 * @throws FetchError for a text without a list, with too many, with any other block, or with one that is no list.
 */
export function parseRevocationLists(text: string): readonly Crl[] {
  const blocks = revocationListBlocks(text);
  const begun = text.match(/-----BEGIN /g)?.length ?? 0;
  if (blocks.length === 0 || blocks.length > maximumLists || blocks.length !== begun) {
    throw new FetchError("did not answer certificate revocation lists");
  }
  return blocks.map(parseList);
}

function parseList(base64: string): Crl {
  try {
    const der = parseBase64(base64);
    const list = der && parseCrl(der);
    // Later readers of the entries need not expect a broken one.
    if (list && namedIn(list, new Set()).length === 0) return list;
  } catch (error) {
    if (!(error instanceof DerError)) throw error;
    throw new FetchError("answered a broken revocation list", { cause: error });
  }
  throw new FetchError("answered a broken revocation list");
}

/** PEM of lists, each with its last newline; empty for none. */
export function listsPem(lists: readonly Crl[]): string {
  return lists.map(({ der }) => toPem("X509 CRL", der)).join("");
}
