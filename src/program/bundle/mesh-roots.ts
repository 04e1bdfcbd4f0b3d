import type { X509Certificate } from "node:crypto";
import { mayBeRoot, parseCertificates } from "../files/pem-file.ts";

/** More roots than a mesh has in years. */
const maximumKnown = 100;

/** Begins the line with the address of the CA that named the roots. */
const namedBy = "named by ";
const namedByLine = /^named by (.*)$/m;
const formerLine = /^former ([0-9A-F:]{95})$/gm;

/** The roots of a mesh, now and before: programs know a CA below them, whatever their file of its roots says. */
export class MeshRoots {
  #current: readonly X509Certificate[] = [];
  /** The newest last. */
  readonly #known: Set<string>;
  readonly #ca: string;
  #namedBy: string | undefined;

  /**
   * @param ca The address of the CA.
   * @param former What it knows still counts: the same CA may have another address now.
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

  /** What {@link recall} takes in the next run: the current roots in PEM, and the fingerprints of all that ever were. */
  get record(): string {
    const roots = this.#current.map((root) => root.toString().trimEnd());
    return [
      namedBy + (this.#namedBy ?? this.#ca),
      ...roots,
      ...[...this.#known].map((each) => `former ${each}`),
      "",
    ].join("\n");
  }

  /** Knows again what an earlier run knew. @returns The roots that were current then. */
  recall(record: string): readonly X509Certificate[] {
    this.#namedBy = namedByLine.exec(record)?.[1];
    for (const [, fingerprint = ""] of record.matchAll(formerLine)) this.#known.add(fingerprint);
    return parseCertificates(record);
  }

  /** @param from Whether the CA names them, or the record of an earlier run. */
  update(roots: readonly X509Certificate[], from: "named" | "recalled" = "named"): void {
    if (from === "named") {
      // That another mesh does not have a root says nothing of it: its CA may come back.
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

  /** Whether they are those of a CA at another address, which has none of the roots that are known. */
  #areAnothers(roots: readonly X509Certificate[]): boolean {
    if (this.#namedBy === undefined || this.#namedBy === this.#ca) return false;
    const current = this.#current.map(({ fingerprint256 }) => fingerprint256);
    return !roots.some(({ fingerprint256 }) => current.includes(fingerprint256));
  }

  /**
   * The roots for a connection to a CA whose roots are in a file that nobody may update. Where the file has had a root
   * of the mesh, the roots of the mesh count in place of it, because they were learned through it. So one that was
   * withdrawn does not count, even if the file still has it. Any other root of the file counts.
   */
  forConnection(file: readonly X509Certificate[]): readonly X509Certificate[] {
    const others = file.filter(({ fingerprint256 }) => !this.#known.has(fingerprint256));
    const isOfMesh = others.length < file.length && this.#current.length > 0;
    return isOfMesh ? [...others, ...this.#current] : file;
  }
}

/** Whether each certificate is issued by the next and the last by one of the roots, and no issuer has expired. */
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
