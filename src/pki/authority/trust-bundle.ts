import { type PublicJwk, publicJwk } from "../crypto-provider.ts";
import { toBase64 } from "../encoding/base64.ts";
import { type Bytes, fingerprintOf, toHex } from "../encoding/bytes.ts";
import { toPem } from "../encoding/pem.ts";
import { parseCertificate } from "../x509/certificate.ts";
import { parseSubjectPublicKey } from "../x509/subject-public-key.ts";
import { earlier, later, wholeSeconds } from "../x509/validity.ts";
import { byPublication, type ScheduledAuthority } from "./schedule.ts";
import type { Taint } from "./taint.ts";

/** An authority or an additional root, with the roots that it adds to the bundle. */
export interface PublishedAuthority extends ScheduledAuthority {
  /** DER. */
  readonly roots: readonly Bytes[];
}

/** Every root that a verifier must accept at one instant. */
export interface TrustBundle {
  /** DER, in the order of their authorities' publication, without duplicates. */
  readonly roots: readonly Bytes[];
  /** The same roots as PEM blocks: the last element of every answer of CreateCertificate. */
  readonly pem: string;
}

/**
 * The trust bundle at `now`: the roots of every authority from its publication until its retirement.
 * The order depends on the authorities alone, so that every reader gives the same bytes.
 */
export function trustBundleAt(authorities: readonly PublishedAuthority[], now: Date): TrustBundle {
  const roots = [...distinctRootsAt(authorities, now).values()];
  return { roots, pem: roots.map((root) => toPem("CERTIFICATE", root)).join("") };
}

function distinctRootsAt(
  authorities: readonly PublishedAuthority[],
  now: Date,
): ReadonlyMap<string, Bytes> {
  const published = publishedAuthoritiesAt(authorities, now);
  return new Map(published.flatMap(({ roots }) => roots.map((root) => [toHex(root), root])));
}

/** The authorities whose roots are in the bundle at `now`, in the order of their publication. */
export function publishedAuthoritiesAt<A extends ScheduledAuthority>(
  authorities: readonly A[],
  now: Date,
): readonly A[] {
  return authorities
    .filter(({ schedule }) => schedule.publishedFrom <= now && now < schedule.retiresAt)
    .toSorted(byPublication);
}

/**
 * A number that grows with every change of the bundle and never falls (SPIFFE Trust Domain and Bundle §4.1.1).
 *
 * It is the millisecond of the latest change up to `now`, or 0 before the first. It grows as well when the
 * record of a retired authority goes whose root the bundle still has. Each authority that a
 * taint has taken out adds one. A taint comes without notice: a reader may learn of it after a
 * later change. Other changes fall on whole seconds, which leaves room for these additions.
 *
 * @param authorities The authorities with the schedules that the taints leave them.
 */
export function bundleSequenceAt(
  authorities: readonly PublishedAuthority[],
  taints: readonly Taint[],
  now: Date,
): number {
  const latest = latestBundleChange(authorities, now)?.getTime() ?? 0;
  const departed = new Set(taints.filter(({ retiresAt }) => retiresAt <= now).map(({ id }) => id));
  return latest + departed.size;
}

/**
 * The latest instant up to `now` at which the content of the bundle changed; `undefined` before the
 * first.
 */
export function latestBundleChange(
  authorities: readonly PublishedAuthority[],
  now: Date,
): Date | undefined {
  const contents = authorities.toSorted(byPublication).map(({ roots, schedule }) => ({
    from: schedule.publishedFrom.getTime(),
    until: schedule.retiresAt.getTime(),
    content: roots.map(toHex),
  }));
  const contentAt = (at: number): string => {
    const published = contents.filter(({ from, until }) => from <= at && at < until);
    return [...new Set(published.flatMap(({ content }) => content))].join();
  };
  const latest = contents
    .flatMap(({ from, until }) => [from, until])
    .filter((at) => at <= now.getTime())
    .toSorted((a, b) => b - a)
    .find((at) => contentAt(at) !== contentAt(at - 1));
  return latest === undefined ? undefined : new Date(latest);
}

/** A trust bundle with its sequence number (`spiffe_sequence`). */
export interface NumberedBundle {
  /** PEM. */
  readonly pem: string;
  readonly sequence: number;
}

/**
 * A root that verifiers accept although this CA does not sign under it: the root of another CA of the
 * mesh.
 */
export interface AdditionalRoot extends ScheduledAuthority {
  /** The hexadecimal SHA-256 of the certificate. */
  readonly id: string;
  /** The certificate, DER. It is a list because an authority may have several roots. */
  readonly roots: readonly [Bytes];
}

/**
 * A root that the bundle holds from an instant until the root expires. Its signing phase is empty: it
 * stops when it starts.
 *
 * @throws DerError for anything but a certificate; CaError `subject-key-unacceptable` for a key that no
 *   authority may have.
 */
export function createAdditionalRoot(der: Bytes, publishedFrom: Date): AdditionalRoot {
  const { validity, spki } = parseCertificate(der).toBeSigned;
  parseSubjectPublicKey(spki);
  const start = wholeSeconds(publishedFrom);
  return {
    id: fingerprintOf(der),
    roots: [der],
    schedule: {
      publishedFrom: start,
      signsFrom: start,
      signsUntil: start,
      retiresAt: later(start, validity.notAfter),
    },
  };
}

/**
 * The taint that takes a root out of the bundle. The store keeps every record of what verifiers once
 * trusted.
 */
export function retireRoot({ id, schedule }: AdditionalRoot, at: Date, now: Date): Taint {
  const retiresAt = wholeSeconds(earlier(later(at, now), schedule.retiresAt));
  return { id, taintedAt: wholeSeconds(now), retiresAt };
}

/** One root as a JWK of a SPIFFE bundle: no `kid`, exactly one certificate (X509-SVID §6.2). */
interface SpiffeBundleKey extends PublicJwk {
  readonly use: "x509-svid";
  readonly x5c: readonly [string];
}

/** A SPIFFE bundle: a JWK Set with two more members (SPIFFE Trust Domain and Bundle §4). */
interface SpiffeBundleDocument {
  readonly spiffe_sequence: number;
  /** Seconds. */
  readonly spiffe_refresh_hint: number;
  readonly keys: readonly SpiffeBundleKey[];
}

/** The roots of a trust bundle as a SPIFFE bundle, in their order. */
export async function toSpiffeBundle(
  roots: readonly Bytes[],
  sequence: number,
  refreshHintSeconds: number,
): Promise<SpiffeBundleDocument> {
  return {
    spiffe_sequence: sequence,
    spiffe_refresh_hint: refreshHintSeconds,
    keys: await Promise.all(roots.map(toBundleKey)),
  };
}

async function toBundleKey(root: Bytes): Promise<SpiffeBundleKey> {
  const { spki } = parseCertificate(root).toBeSigned;
  return { use: "x509-svid", ...(await publicJwk(spki)), x5c: [toBase64(root)] };
}
