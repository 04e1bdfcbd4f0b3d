import type { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { SigningAuthority } from "../../../src/pki/authority/signing-authority.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { SignatureAlgorithm } from "../../../src/pki/signature-algorithm.ts";
import type { SpiffeId } from "../../../src/pki/spiffe-id.ts";
import { webSigningKey } from "../../../src/pki/web-crypto.ts";
import { Leaf } from "../../../src/pki/x509/leaf/certificate-signer.ts";
import type { IdentityProof } from "../../../src/pki/x509/leaf/identity-proof.ts";
import { SubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { addSeconds, type Validity, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { signClientLeaf } from "./client-leaf.ts";

/** A leaf and its key, as its holder shows it. */
export interface HeldLeaf {
  readonly der: Bytes;
  readonly chainPem: string;
  readonly keyPem: string;
}

interface HeldKey {
  readonly publicKey: CryptoKey;
  readonly spki: Bytes;
  readonly keyPem: string;
}

async function createKey(): Promise<HeldKey> {
  const p256 = { name: "ECDSA", namedCurve: "P-256" };
  const { publicKey, privateKey } = await crypto.subtle.generateKey(p256, true, ["sign", "verify"]);
  const spki = new Uint8Array((await crypto.subtle.exportKey("spki", publicKey)) as ArrayBuffer);
  const pkcs8 = (await crypto.subtle.exportKey("pkcs8", privateKey)) as ArrayBuffer;
  return { publicKey, spki, keyPem: Pem.format("PRIVATE KEY", new Uint8Array(pkcs8)) };
}

/** An hour around now. */
function hourAroundNow(): Validity {
  const now = wholeSeconds(new Date());
  return { notBefore: addSeconds(now, -1800), notAfter: addSeconds(now, 1800) };
}

/** A leaf of any name and any proof, by somebody who has the key of an authority. */
export async function leafUnder(
  { authority, extractablePrivateKey }: NewAuthority,
  spiffeId: string,
  proof: IdentityProof,
): Promise<HeldLeaf> {
  const { spki, keyPem } = await createKey();
  const algorithm = SignatureAlgorithm.of(authority.publicKey);
  const issuer = SigningAuthority.open(authority, webSigningKey(extractablePrivateKey, algorithm));
  const { der } = await Leaf.issue(issuer, {
    spiffeId: spiffeId as SpiffeId,
    publicKey: SubjectPublicKey.parse(spki),
    validity: hourAroundNow(),
    proof,
  });
  return { der, chainPem: Pem.format("CERTIFICATE", der), keyPem };
}

/** A leaf as istiod signs it, without a proof. */
export async function leafWithoutProof(
  { authority, extractablePrivateKey }: NewAuthority,
  spiffeId: string,
): Promise<HeldLeaf> {
  const { publicKey, keyPem } = await createKey();
  const signer = { certificate: authority.certificate.der, privateKey: extractablePrivateKey };
  const der = await signClientLeaf(signer, spiffeId, { ...hourAroundNow(), publicKey });
  return { der, chainPem: Pem.format("CERTIFICATE", der), keyPem };
}
