import type { X509Certificate } from "node:crypto";
import { mayBeRoot, parseCertificates } from "../files/pem-file.ts";

/** More fingerprints than a mesh has roots in years. */
const maximumKnown = 100;

/** The beginning of the line of a record with the address of the CA that named the roots. */
const namedBy = "named by ";
const namedByLine = /^named by (.*)$/m;
const formerLine = /^former ([0-9A-F:]{95})$/gm;

/**
 * The current and former roots of a mesh. In a program's file of roots, the current ones replace all of these
 * ({@link MeshRoots.forConnection}).
 */
export class MeshRoots {
  #current: readonly X509Certificate[] = [];
  /** Fingerprints (SHA-256) of current and former roots, the newest last. */
  readonly #known: Set<string>;
  readonly #ca: string;
  #namedBy: string | undefined;

  /**
   * @param ca The address of the CA.
   * @param former Its roots are taken over: the same CA may have another address now.
   */
  constructor(ca = "", former?: MeshRoots) {
    this.#ca = ca;
    this.#current = former ? former.#current : [];
    this.#known = new Set(former ? former.#known : []);
    this.#namedBy = former ? former.#namedBy : undefined;
  }

  get current(): readonly X509Certificate[] {
    return this.#current;
  }

  /** What {@link recall} reads in the next run: the current roots in PEM, and the fingerprints of all known roots. */
  get record(): string {
    const roots = this.#current.map((root) => root.toString().trimEnd());
    return [
      namedBy + (this.#namedBy ?? this.#ca),
      ...roots,
      ...[...this.#known].map((each) => `former ${each}`),
      "",
    ].join("\n");
  }

  /**
   * Adds the former roots of an earlier run's {@link record}; {@link current} stays. Lines of another form are left out.
   * @returns The roots that were current then, for {@link update}.
   */
  recall(record: string): readonly X509Certificate[] {
    this.#namedBy = namedByLine.exec(record)?.[1];
    for (const [, fingerprint = ""] of record.matchAll(formerLine)) this.#known.add(fingerprint);
    return parseCertificates(record);
  }

  /** Replaces the current roots. @param from Whether the CA named them, or the record of an earlier run. */
  update(roots: readonly X509Certificate[], from: "named" | "recalled" = "named"): void {
    if (from === "named") {
      // Another mesh withdraws no root of this one. Forgets them, so that a file with them is trusted if their CA
      // returns.
      if (this.#areAnothers(roots)) this.#known.clear();
      this.#namedBy = this.#ca;
    }
    this.#current = roots;
    for (const { fingerprint256 } of roots) {
      this.#known.delete(fingerprint256);
      this.#known.add(fingerprint256);
    }
    for (const oldest of this.#known) {
      if (this.#known.size <= maximumKnown) break;
      this.#known.delete(oldest);
    }
  }

  /** Whether the roots are of another mesh: named at another address, and none of them is current. */
  #areAnothers(roots: readonly X509Certificate[]): boolean {
    if (this.#namedBy === undefined || this.#namedBy === this.#ca) return false;
    const current = this.#current.map(({ fingerprint256 }) => fingerprint256);
    return !roots.some(({ fingerprint256 }) => current.includes(fingerprint256));
  }

  /**
   * The roots to trust for a connection to the CA, given those of a file that may be out of date. If the file has a
   * current or former root of the mesh, the current roots replace all of these. So a withdrawn root is not trusted,
   * even if the file still has it. Roots of the file that are not of the mesh stay.
   */
  forConnection(file: readonly X509Certificate[]): readonly X509Certificate[] {
    const others = file.filter(({ fingerprint256 }) => !this.#known.has(fingerprint256));
    const isOfMesh = others.length < file.length && this.#current.length > 0;
    return isOfMesh ? [...others, ...this.#current] : file;
  }
}

/**
 * Whether each certificate is issued by the next and the last by one of the roots. No issuer may have expired; those in
 * the chain must be CAs, and roots pass {@link mayBeRoot}. The first certificate may have expired. Unlike for
 * `SvidChain.leadsToRoot`, an empty chain passes.
 */
export function isIssuedBy(
  chain: readonly X509Certificate[],
  roots: readonly X509Certificate[],
  now: Date,
): boolean {
  return chain.every((certificate, i) => {
    const next = chain[i + 1];
    const issuers = next ? [next].filter(({ ca }) => ca) : roots.filter(mayBeRoot);
    return issuers.some(
      (issuer) =>
        now < issuer.validToDate &&
        certificate.checkIssued(issuer) &&
        certificate.verify(issuer.publicKey),
    );
  });
}
