import type { RevocationContent } from "../../custody/record-kinds.ts";
import { isRecent } from "../../foundation/caches.ts";
import { messageOf } from "../../foundation/errors.ts";
import { Semaphore, type WorkSharing } from "../../foundation/shared-work.ts";
import type { OpenAuthority } from "../../pki/authority/signing-authority.ts";
import { Bytes, fingerprintOf, Hex } from "../../pki/encoding/bytes.ts";
import { Pem } from "../../pki/encoding/pem.ts";
import { Certificate } from "../../pki/x509/certificate.ts";
import { Crl } from "../../pki/x509/crl/crl.ts";
import { UnsignedCrl } from "../../pki/x509/crl/signed-crl.ts";
import type { Authorities } from "../authorities.ts";
import type { AuthorityView } from "../authority-view.ts";
import type { EventLog } from "../issuance/event-log.ts";
import { type CrlLengths, crlPeriodAt, planCrl } from "./crl-plan.ts";

/** The CRL of one authority, or of a root in a key service. */
interface PublishedCrl {
  /** The id of the authority; the key identifier of the root. */
  readonly authority: string;
  readonly issuer: Certificate;
  readonly der: Bytes;
  /** A digest of the signed bytes without the signature: the same in every process that knows the same. */
  readonly digest: string;
}

/** The CRLs of all authorities in the trust bundle, and of those that are kept out of it. */
export interface PublishedCrls {
  /** All CRLs in the order of the authorities' ids, with those that are kept out of the bundle at the end. */
  readonly crls: readonly PublishedCrl[];
  /** The CRLs of the bundle's authorities and roots. */
  readonly ofBundle: readonly PublishedCrl[];
  /** The CRLs of the bundle's authorities as PEM blocks `X509 CRL`; empty if none can sign one. */
  readonly pem: string;
  /** The digest of `pem`, made like {@link PublishedCrl.digest}. */
  readonly digest: string;
}

/**
 * Loads the current CRLs: those of this period, with every revocation that the store has shown.
 *
 * @throws CaError `store-unreachable`, `too-many-waiting`.
 */
export type CrlSource = (now: Date) => Promise<PublishedCrls>;

/** How CRLs are made. */
interface CrlConfiguration extends CrlLengths {
  readonly authorities: Authorities;
  /** The revocations of the configuration, which apply whatever the store contains. */
  readonly configuredRevocations: readonly RevocationContent[];
  readonly shareWork: WorkSharing;
  readonly log: EventLog;
}

/** The input of a set of CRLs. The set is current while its input is the same. */
interface CrlInput {
  readonly period: Date;
  readonly issuers: readonly OpenAuthority[];
  /** The ids of those issuers whose roots are in the bundle. */
  readonly inBundle: ReadonlySet<string>;
  readonly revocations: readonly RevocationContent[];
  /** The CRLs that roots in key services have signed, each with its root. */
  readonly roots: ReadonlyMap<Crl, Certificate>;
}

interface SignedCrl extends PublishedCrl {
  readonly toBeSigned: Bytes;
}

/** The most requests that wait while CRLs are signed. */
const maximumWaiting = 5000;

/** Signing that takes longer is taken for lost: the request that did it was dropped in the middle. */
const longestSigningMilliseconds = 30_000;

/** A CRL that could not be signed is tried again after this time: anybody may ask for CRLs, and each fault is logged. */
const retrySeconds = 60;

/** A set of CRLs, and when some of them could not be signed. */
interface SignedSet extends PublishedCrls {
  readonly input: CrlInput;
  readonly failedAt: Date | undefined;
}

/**
 * Signs CRLs, and keeps each until a revocation, its authority or the period changes. An authority without cRLSign gets
 * none. If signing fails, that is logged, the authority's former CRL stays, and it is tried again a minute later.
 */
export class SignedCrls {
  readonly #configuration: CrlConfiguration;
  readonly #signing: ReturnType<WorkSharing>;
  #signed: readonly SignedCrl[] = [];
  #latest: SignedSet | undefined;

  constructor(configuration: CrlConfiguration) {
    this.#configuration = configuration;
    const capacity = new Semaphore(maximumWaiting);
    this.#signing = configuration.shareWork(capacity, longestSigningMilliseconds);
  }

  readonly at: CrlSource = async (now) => {
    const { authorities, configuredRevocations } = this.#configuration;
    const view = await authorities.at(now);
    const input = {
      period: crlPeriodAt(this.#configuration, now),
      issuers: PublishedCrls.issuersIn(view).filter(({ authority }) =>
        UnsignedCrl.maySign(authority),
      ),
      inBundle: new Set(view.crlIssuers.map(idOf)),
      revocations: [...configuredRevocations, ...view.revocations],
      roots: rootCrlsIn(view),
    };
    // The work under way may have been another request's, with an older input.
    for (let attempt = 0; attempt < 2 && !this.#isCurrent(input, now); attempt++)
      await this.#signing.join(() => this.#signAll(input, now));
    if (!this.#latest) throw new Error("no CRLs after signing them");
    return this.#latest;
  };

  #isCurrent(input: CrlInput, now: Date): boolean {
    if (!this.#latest || !isSame(this.#latest.input, input)) return false;
    const { failedAt } = this.#latest;
    return failedAt === undefined || isRecent(failedAt, retrySeconds, now);
  }

  async #signAll(input: CrlInput, now: Date): Promise<void> {
    const crls: SignedCrl[] = [];
    let isWhole = true;
    for (const issuer of input.issuers) {
      const signed = await this.#signOne(issuer, input, now);
      isWhole &&= signed !== undefined;
      const kept = signed ?? this.#formerOf(issuer);
      if (kept) crls.push(kept);
    }
    const ofRoots = await Promise.all([...input.roots].map(publishedOf));
    const ofAuthorities = crls.filter(({ authority }) => input.inBundle.has(authority));
    const ofBundle = [...ofAuthorities, ...ofRoots];
    const pem = ofBundle.map(({ der }) => Pem.format("X509 CRL", der)).join("");
    const digests = ofBundle.map(({ digest }) => digest).join();
    const digest = await digestOf(new TextEncoder().encode(digests));
    this.#signed = crls;
    const failedAt = isWhole ? undefined : now;
    this.#latest = { crls: [...crls, ...ofRoots], ofBundle, pem, digest, input, failedAt };
  }

  #formerOf({ authority: { id } }: OpenAuthority): SignedCrl | undefined {
    return this.#signed.find(({ authority }) => authority === id);
  }

  /** Signs the CRL of an authority, or returns the former one if its content is the same; `undefined` if signing fails. */
  async #signOne(
    issuer: OpenAuthority,
    input: CrlInput,
    now: Date,
  ): Promise<SignedCrl | undefined> {
    const authority = issuer.authority.id;
    const content = planCrl(authority, input.revocations, this.#configuration, now);
    const unsigned = UnsignedCrl.prepare(issuer, content);
    const { toBeSigned } = unsigned;
    const before = this.#formerOf(issuer);
    if (before && Bytes.equal(before.toBeSigned, toBeSigned)) return before;
    try {
      const der = await UnsignedCrl.sign(issuer, unsigned);
      const digest = await digestOf(toBeSigned);
      return { authority, issuer: issuer.certificate, der, toBeSigned, digest };
    } catch (error) {
      const { log } = this.#configuration;
      log.operation({ event: "crl-fault", level: "error", authority, detail: messageOf(error) });
      return undefined;
    }
  }
}

/** Which authorities' leaves may be revoked, and which CRLs are missing. */
export const PublishedCrls = {
  /** Every authority whose leaves may be revoked, even if it may not sign CRLs ({@link UnsignedCrl.maySign}). */
  issuersIn: ({ crlIssuers, apart }: AuthorityView): readonly OpenAuthority[] => [
    ...crlIssuers,
    ...apart,
  ],

  /**
   * One sentence for each CA of which the mesh has no CRL. Some verifiers check whole paths: OpenSSL with
   * `-crl_check_all`, and Envoy. They refuse every leaf below such a CA once they have a CRL of another one. None if no
   * authority may sign CRLs.
   */
  gapsIn(view: AuthorityView): readonly string[] {
    const rootCrls = [...rootCrlsIn(view).keys()];
    const authorities = view.crlIssuers.map(({ authority }) => authority);
    if (!authorities.some(UnsignedCrl.maySign)) return [];
    const unable = authorities.filter((each) => !UnsignedCrl.maySign(each));
    const uncovered = view.trustBundle.roots.filter(
      (der) =>
        !authorities.some(({ certificate }) => Bytes.equal(certificate.der, der)) &&
        !rootCrls.some((crl) => Crl.isOf(crl, Crl.issuer(Certificate.parse(der)))),
    );
    return [
      ...unable.map(({ id }) => `the authority ${id} has no CRL: its key usage lacks cRLSign`),
      ...uncovered.map(
        (root) => `no CRL of the root with the SHA-256 fingerprint ${fingerprintOf(root)} is known`,
      ),
    ];
  },
};

function isSame(a: CrlInput, b: CrlInput): boolean {
  return (
    a.period.getTime() === b.period.getTime() &&
    areSame(a.issuers.map(idOf), b.issuers.map(idOf)) &&
    areSame(a.revocations, b.revocations) &&
    areSame([...a.roots.keys()], [...b.roots.keys()])
  );
}

const idOf = ({ authority }: OpenAuthority): string => authority.id;

const areSame = (a: readonly unknown[], b: readonly unknown[]): boolean =>
  a.length === b.length && a.every((each, i) => each === b[i]);

/** Selects the newest CRL of each root of the bundle that has one. Root certificates with one key and name share a CRL. */
export function rootCrlsIn({ trustBundle, store }: AuthorityView): CrlInput["roots"] {
  const found = new Map<Crl, Certificate>();
  const { crl: stored } = store.statements;
  for (const der of stored.length > 0 ? trustBundle.roots : []) {
    const root = Certificate.parse(der);
    const crl = newestOf(root, stored);
    if (crl) found.set(crl, root);
  }
  return found;
}

/** The newest stored CRL of a root; `undefined` if it has none. */
export function newestOf(root: Certificate, stored: readonly Crl[]): Crl | undefined {
  const issuer = Crl.issuer(root);
  return stored
    .filter((crl) => Crl.isOf(crl, issuer))
    .reduce<Crl | undefined>((a, b) => (a && numberOf(a) >= numberOf(b) ? a : b), undefined);
}

/** The number of a CRL; 0 without one. */
export const numberOf = ({ number = 0n }: Crl): bigint => number;

async function publishedOf([crl, root]: [Crl, Certificate]): Promise<PublishedCrl> {
  const { authorityKeyIdentifier = new Uint8Array(), der, signedBytes } = crl;
  const authority = Hex.format(authorityKeyIdentifier);
  return { authority, issuer: root, der, digest: await digestOf(signedBytes) };
}

async function digestOf(bytes: Bytes): Promise<string> {
  return Hex.format(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes), 0, 16));
}
