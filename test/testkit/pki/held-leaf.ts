import type { NewAuthority } from "../../../src/pki/authority/self-signed-authority.ts";
import { signatureAlgorithmOf } from "../../../src/pki/authority/signing-authority.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { toPem } from "../../../src/pki/encoding/pem.ts";
import type { SpiffeId } from "../../../src/pki/spiffe-id.ts";
import { webSigningKey } from "../../../src/pki/web-crypto-provider.ts";
import { createIssuer, issueLeaf } from "../../../src/pki/x509/issuer.ts";
import { parseSubjectPublicKey } from "../../../src/pki/x509/subject-public-key.ts";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";

/** A leaf and its key, as its holder shows it. */
export interface HeldLeaf {
  readonly der: Bytes;
  readonly chainPem: string;
  readonly keyPem: string;
}

/** A leaf of any name, valid for an hour around now, by somebody who has the key of an authority. */
export async function leafUnder(
  { authority, extractablePrivateKey }: NewAuthority,
  spiffeId: string,
): Promise<HeldLeaf> {
  const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
    "sign",
  ]);
  const spki = new Uint8Array(await crypto.subtle.exportKey("spki", keys.publicKey));
  const pkcs8 = new Uint8Array(await crypto.subtle.exportKey("pkcs8", keys.privateKey));
  const signingKey = webSigningKey(
    extractablePrivateKey,
    signatureAlgorithmOf(authority.publicKey),
  );
  const now = wholeSeconds(new Date());
  const { der } = await issueLeaf(createIssuer(authority, signingKey), {
    spiffeId: spiffeId as SpiffeId,
    publicKey: parseSubjectPublicKey(spki),
    validity: { notBefore: addSeconds(now, -1800), notAfter: addSeconds(now, 1800) },
  });
  return { der, chainPem: toPem("CERTIFICATE", der), keyPem: toPem("PRIVATE KEY", pkcs8) };
}
