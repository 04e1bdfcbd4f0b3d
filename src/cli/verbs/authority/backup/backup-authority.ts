import { OperatorError } from "../../../../foundation/errors.ts";
import { requireReadable } from "../../../../node/node-crypto-provider.ts";
import type { NewAuthority } from "../../../../pki/authority/new-authority.ts";
import type { Schedule } from "../../../../pki/authority/schedule.ts";
import { createSigningAuthority } from "../../../../pki/authority/signing-authority.ts";
import type { Bytes } from "../../../../pki/encoding/bytes.ts";
import { signatureAlgorithmOf } from "../../../../pki/signature-algorithm.ts";
import type { SubjectPublicKey } from "../../../../pki/x509/subject-public-key.ts";

/** An authority in a backup: certificates in DER, and its key as PKCS#8. */
export interface BackedUpAuthority {
  readonly certificate: Bytes;
  readonly intermediates: Bytes[];
  readonly roots: Bytes[];
  readonly schedule: Schedule;
  readonly privateKey: Bytes;
}

/** @throws OperatorError */
export async function openAuthority(backup: BackedUpAuthority): Promise<NewAuthority> {
  const created = await readAuthority(backup).catch(refuseContent);
  const { authority, extractablePrivateKey } = created;
  if (await isKeyOf(extractablePrivateKey, authority.publicKey)) return created;
  throw new OperatorError(`the private key of ${authority.id} does not match its certificate`);
}

async function readAuthority(backup: BackedUpAuthority): Promise<NewAuthority> {
  const { certificate, intermediates, roots } = backup;
  for (const der of [certificate, ...intermediates, ...roots]) requireReadable(der);
  const authority = await createSigningAuthority(backup, backup.schedule);
  const extractablePrivateKey = await readPrivateKey(backup.privateKey, authority.publicKey);
  return { authority, extractablePrivateKey };
}

/** A private key of a backup, PKCS#8, for the algorithm of this public key. */
export function readPrivateKey(pkcs8: Bytes, publicKey: SubjectPublicKey): Promise<CryptoKey> {
  const { importParameters } = signatureAlgorithmOf(publicKey);
  return crypto.subtle.importKey("pkcs8", pkcs8, importParameters, true, ["sign"]);
}

/** A parser's own message may quote what it parsed, which is a key. */
export function refuseContent(): never {
  throw new OperatorError("the backup decrypts, but a certificate or a key in it cannot be parsed");
}

/** Whether a signature of this key verifies by that public key. */
export async function isKeyOf(
  privateKey: CryptoKey,
  publicKey: SubjectPublicKey,
): Promise<boolean> {
  const { importParameters, signParameters } = signatureAlgorithmOf(publicKey);
  const verifying = await crypto.subtle
    .importKey("spki", publicKey.spki, importParameters, true, ["verify"])
    .catch(refuseContent);
  const probe = new TextEncoder().encode("probe");
  const signature = await crypto.subtle.sign(signParameters, privateKey, probe);
  return crypto.subtle.verify(signParameters, verifying, signature, probe);
}
