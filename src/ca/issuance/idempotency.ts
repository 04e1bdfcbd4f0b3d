import * as z from "zod/mini";
import type { Caller } from "../../authn/caller.ts";
import type { IsRevoked } from "../../authn/certificate-verifier.ts";
import { createTtlCache } from "../../foundation/caches.ts";
import type { OpenAuthority } from "../../pki/authority/signing-authority.ts";
import type { CryptoProvider } from "../../pki/crypto-provider.ts";
import { Bytes, fingerprintOf, Hex } from "../../pki/encoding/bytes.ts";
import { DerError, Tag } from "../../pki/encoding/der-reader.ts";
import { SpiffeId } from "../../pki/spiffe-id.ts";
import { Certificate } from "../../pki/x509/certificate.ts";
import { isSignedWith } from "../../pki/x509/certificate-signature.ts";
import type { Leaf } from "../../pki/x509/leaf/certificate-signer.ts";
import type { LeafContent } from "../../pki/x509/leaf/to-be-signed.ts";
import { addSeconds, earlier } from "../../pki/x509/validity.ts";
import type { CertificateProduct } from "./product.ts";

/**
 * Stores certificates under the requests for which they were issued. All processes that issue in this CA's name share
 * it, and it survives a restart. Its content is not trusted. A write is durable once it resolves. Of several writes at
 * once, one is the first.
 */
export interface IssuedCertificates {
  readonly read: (name: string) => Promise<Bytes | undefined>;
  /** Stores a certificate if there is none, or in place of `stale`. @returns The one that is there afterwards. */
  readonly create: (name: string, der: Bytes, stale?: Bytes) => Promise<Bytes | undefined>;
}

/** A leaf, and the end of its validity. */
export interface IssuedLeaf extends Leaf {
  readonly notAfter: Date;
}

/** What a request is granted, and the steps that remain. */
interface Issuing extends Pick<LeafContent, "spiffeId" | "publicKey"> {
  readonly issuer: OpenAuthority;
  readonly product: CertificateProduct;
  readonly seconds: bigint;
  readonly now: Date;
  /** Charges the quotas, and signs. */
  readonly sign: () => Promise<IssuedLeaf>;
  /** Notes a leaf in the audit event, and logs the leaf unless `isLogged`. */
  readonly record: (leaf: IssuedLeaf, isLogged: boolean) => Promise<IssuedLeaf>;
}

/**
 * Finds how to issue for a call of a cluster's signer with the UID of a request in Kubernetes; `undefined` for every
 * other call. A signer that has lost the answer, and asks again, gets the same certificate without a charge to its
 * quotas.
 */
export type Idempotency = (
  caller: Caller,
  request: { readonly csrPem: string; readonly metadata?: unknown },
) => ((issuing: Issuing) => Promise<IssuedLeaf>) | undefined;

/** What a stored certificate is verified with. */
type Verification = { readonly isRevoked: IsRevoked; readonly cryptoProvider: CryptoProvider };

/** How long an answer is repeated, at most until the middle of the certificate's life. */
const repeatedSeconds = 3600;

/** The most certificates that this process remembers as logged. */
const maximumLogged = 1000;

const named = z.object({ RequestUid: z.string().check(z.regex(/^[\x21-\x7e]{1,128}$/)) });

/**
 * Creates {@link Idempotency} over stored certificates: for requests of a cluster's signer with a UID, and `undefined`
 * for all others. A repeated request passes every check of a first one. Within an hour it gets the same certificate, if
 * the same is granted, the certificate's authority still signs, and the certificate is not revoked.
 *
 * A certificate is stored before it is logged, and logged before it leaves. So if a process ends in between, nothing is
 * signed anew, but the same certificate may be logged twice.
 */
export const idempotentOver =
  (stored: IssuedCertificates) =>
  (verification: Verification): Idempotency => {
    const underWay = new Map<string, Promise<IssuedLeaf>>();
    const logged = createTtlCache<true>(maximumLogged);
    const issueOnce = async (name: string, issuing: Issuing): Promise<IssuedLeaf> => {
      const { now, sign, record } = issuing;
      const before = await stored.read(name);
      const known = await repeatable(before, issuing, verification);
      const signed = known ?? (await sign());
      const kept = known ? known.der : await stored.create(name, signed.der, before);
      const isOwn = kept && Bytes.equal(kept, signed.der);
      const leaf = isOwn ? signed : await repeatable(kept, issuing, verification);
      if (!leaf) throw new Error("the store of issued certificates does not keep them");
      await record(leaf, logged.get(leaf.serialNumber, now) ?? false);
      logged.set(leaf.serialNumber, true, now, leaf.notAfter);
      return leaf;
    };
    return ({ issuer: { clusterSigner, digest } = {}, ...caller }, request) => {
      const { RequestUid: uid } = named.safeParse(request.metadata).data ?? {};
      if (!(uid && digest && clusterSigner?.(caller.account))) return undefined;
      return (issuing) => {
        const { issuer, spiffeId, product, seconds } = issuing;
        const asked = [caller.spiffeId, uid, request.csrPem, spiffeId, product, `${seconds}`];
        const text = JSON.stringify([...asked, issuer.authority.id]);
        const name = `${Hex.format(digest)}/${fingerprintOf(new TextEncoder().encode(text))}`;
        // Waits for the call under way for the same request, so that the certificate is logged once.
        const before = underWay.get(name) ?? Promise.resolve();
        const issue = (): Promise<IssuedLeaf> => issueOnce(name, issuing);
        const mine = before.then(issue, issue);
        underWay.set(name, mine);
        return mine.finally(() => underWay.get(name) === mine && underWay.delete(name));
      };
    };
  };

/**
 * The leaf in a stored certificate; `undefined` if it is malformed, too old or revoked, has another key or other names,
 * or was signed by another authority.
 */
async function repeatable(
  der: Bytes | undefined,
  issuing: Issuing,
  { isRevoked, cryptoProvider }: Verification,
): Promise<IssuedLeaf | undefined> {
  if (!der) return undefined;
  const { publicKey, now } = issuing;
  const { authority } = issuing.issuer;
  try {
    const certificate = Certificate.parse(der);
    const { spki, validity, serialNumber: octets } = certificate.toBeSigned;
    const { notBefore, notAfter } = validity;
    const middle = new Date((notBefore.getTime() + notAfter.getTime()) / 2);
    const serialNumber = Hex.format(octets);
    const isGood =
      now < earlier(middle, addSeconds(notBefore, repeatedSeconds)) &&
      Bytes.equal(spki, publicKey.spki) &&
      namesIn(certificate) === grantedNames(issuing) &&
      (await isSignedWith(certificate, authority.publicKey, cryptoProvider)) &&
      !(await isRevoked({ authority: authority.id, serialNumber }, now));
    return isGood ? { der, serialNumber, notAfter } : undefined;
  } catch (error) {
    if (error instanceof DerError) return undefined;
    throw error;
  }
}

function namesIn({ toBeSigned }: Certificate): string {
  const names = toBeSigned.extensions.subjectAltName?.value.fork().enter(Tag.sequence);
  const found: string[] = [];
  while (names && !names.isDone) found.push(new TextDecoder().decode(names.any()[1].rest()));
  return found.join();
}

/** The names of a certificate for this request, in the order of its profile. */
function grantedNames({ product, spiffeId }: Issuing): string {
  if (product.kind === "intermediate") return SpiffeId.ofTrustDomain(product.rights.trustDomain);
  const { kind, dnsNames = [] } = product;
  return [...(kind === "workload" ? [spiffeId] : []), ...dnsNames].join();
}
