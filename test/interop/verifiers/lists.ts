import { randomBytes } from "node:crypto";
import { type CrlLengths, planCrl } from "../../../src/ca/revocation/crl-plan.ts";
import type { RevocationContent } from "../../../src/custody/record-kinds.ts";
import type { AuthorityKey } from "../../../src/pki/authority/new-authority.ts";
import type { OpenAuthority } from "../../../src/pki/authority/signing-authority.ts";
import { Hex } from "../../../src/pki/encoding/bytes.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { RevocationReason } from "../../../src/pki/x509/crl/crl-to-be-signed.ts";
import { UnsignedCrl } from "../../../src/pki/x509/crl/signed-crl.ts";
import { Leaf } from "../../../src/pki/x509/leaf/certificate-signer.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { createTestIssuer, proved, workload } from "../../testkit/pki/certificates.ts";
import { generateSigner } from "../../testkit/pki/csr.ts";

/** A CRL with what it must say, and two leaves of its authority. */
export interface JudgedList {
  readonly name: string;
  readonly rootPem: string;
  readonly crlPem: string;
  readonly number: string;
  readonly thisUpdate: string;
  readonly nextUpdate: string;
  readonly entries: readonly object[];
  /** Not on the list. */
  readonly goodPem: string;
  /** On the list, if that has any entry. */
  readonly revokedPem: string | undefined;
}

const day = 24 * 3600;
const lengths: CrlLengths = { lifetimeSeconds: day, propagationSeconds: 600 };

/** The lists of authorities with each kind of key: none revoked, one for each reason, and many. */
export async function judgedLists(many: readonly number[]): Promise<readonly JudgedList[]> {
  const now = wholeSeconds(new Date());
  const lists: JudgedList[] = [];
  for (const key of ["EC-P256", "EC-P384", "RSA-2048"] as const) {
    const issuer = await issuerOf(key, now);
    lists.push(await listOf(issuer, `${key}, empty`, [], now));
    lists.push(await listOf(issuer, `${key}, every reason`, reasons, now));
    if (key !== "EC-P256") continue;
    for (const length of many) {
      const numerous = Array.from({ length }, (_, i) => reasons[i % 2] ?? "unspecified");
      lists.push(await listOf(issuer, `${key}, ${length} entries`, numerous, now));
    }
  }
  return lists;
}

const reasons = Object.keys(RevocationReason.codes) as RevocationReason[];

function issuerOf(key: AuthorityKey, now: Date): Promise<OpenAuthority> {
  const [begin, end] = [addSeconds(now, -day), addSeconds(now, 30 * day)];
  const schedule = { publishedFrom: begin, signsFrom: begin, signsUntil: end, retiresAt: end };
  return createTestIssuer(key, schedule);
}

async function listOf(
  issuer: OpenAuthority,
  name: string,
  revokedFor: readonly RevocationReason[],
  now: Date,
): Promise<JudgedList> {
  const [good, bad] = [await leafOf(issuer, now), await leafOf(issuer, now)];
  const end = addSeconds(now, day).getTime() / 1000;
  const serials = revokedFor.map((_, i) =>
    i === 0 ? bad.serialNumber : `01${randomBytes(16).toString("hex")}`,
  );
  const revocations = [...Map.groupBy(serials, (_, i) => revokedFor[i] ?? "unspecified")].map(
    ([reason, own]): RevocationContent => ({
      authority: issuer.authority.id,
      revokedAt: addSeconds(now, -60),
      knownFrom: now,
      reason,
      certificates: new Map(own.map((serial) => [serial, end])),
    }),
  );
  const content = planCrl(issuer.authority.id, revocations, lengths, now);
  const crl = await UnsignedCrl.sign(issuer, UnsignedCrl.prepare(issuer, content));
  return {
    name,
    rootPem: Pem.format("CERTIFICATE", issuer.authority.certificate.der),
    crlPem: Pem.format("X509 CRL", crl),
    number: Hex.format(content.number).replace(/^(?:00)+/, ""),
    thisUpdate: content.thisUpdate.toISOString(),
    nextUpdate: content.nextUpdate.toISOString(),
    entries: content.revoked.map(({ serialNumber, revokedAt, reason }) => ({
      serial: serialNumber,
      revokedAt: revokedAt.toISOString(),
      reason: RevocationReason.codes[reason],
    })),
    goodPem: Pem.format("CERTIFICATE", good.der),
    revokedPem: revokedFor.length > 0 ? Pem.format("CERTIFICATE", bad.der) : undefined,
  };
}

const leafOf = (issuer: OpenAuthority, now: Date) =>
  Leaf.issue(issuer, {
    spiffeId: workload("shop", "cart"),
    publicKey: SubjectPublicKey.parse(generateSigner("EC-P256").spki),
    validity: { notBefore: addSeconds(now, -60), notAfter: addSeconds(now, day) },
    proof: proved,
  });
