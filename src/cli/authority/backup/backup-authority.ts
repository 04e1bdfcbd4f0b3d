import { OperatorError } from "../../../foundation/operator-error.ts";
import {
  type AdditionalRoot,
  createAdditionalRoot,
} from "../../../pki/authority/additional-root.ts";
import type { Schedule } from "../../../pki/authority/schedule.ts";
import type { NewAuthority } from "../../../pki/authority/self-signed-authority.ts";
import {
  createSigningAuthority,
  signatureAlgorithmOf,
} from "../../../pki/authority/signing-authority.ts";
import type { Bytes } from "../../../pki/encoding/bytes.ts";
import { requireReadable } from "../../import/openssl-reading.ts";

/** An authority in a backup: certificates in DER, and its key as PKCS#8. */
export interface BackedUpAuthority {
  readonly certificate: Bytes;
  readonly intermediates: Bytes[];
  readonly roots: Bytes[];
  readonly schedule: Schedule;
  readonly privateKey: Bytes;
}

/** An additional root in a backup. */
export interface BackedUpRoot {
  readonly certificate: Bytes;
  readonly publishedFrom: Date;
}

/** @throws OperatorError */
export async function openAuthority(backup: BackedUpAuthority): Promise<NewAuthority> {
  const created = await readAuthority(backup).catch(refuseContent);
  if (await hasItsOwnKey(created)) return created;
  throw new OperatorError(
    `the private key of ${created.authority.id} does not match its certificate`,
  );
}

/** @throws OperatorError for a certificate that OpenSSL cannot read. */
export async function readRoot({
  certificate,
  publishedFrom,
}: BackedUpRoot): Promise<AdditionalRoot> {
  requireReadable(certificate);
  return createAdditionalRoot(certificate, publishedFrom);
}

async function readAuthority(backup: BackedUpAuthority): Promise<NewAuthority> {
  const { certificate, intermediates, roots } = backup;
  for (const der of [certificate, ...intermediates, ...roots]) requireReadable(der);
  const authority = await createSigningAuthority(backup, backup.schedule);
  const { importParameters } = signatureAlgorithmOf(authority.publicKey);
  const extractablePrivateKey = await crypto.subtle.importKey(
    "pkcs8",
    backup.privateKey,
    importParameters,
    true,
    ["sign"],
  );
  return { authority, extractablePrivateKey };
}

/** A parser's own message may quote what it parsed, which is a key. */
export function refuseContent(): never {
  throw new OperatorError("the backup decrypts, but a certificate or a key in it cannot be parsed");
}

async function hasItsOwnKey({ authority, extractablePrivateKey }: NewAuthority): Promise<boolean> {
  const { importParameters, signParameters } = signatureAlgorithmOf(authority.publicKey);
  const { spki } = authority.certificate.toBeSigned;
  const publicKey = await crypto.subtle
    .importKey("spki", spki, importParameters, true, ["verify"])
    .catch(refuseContent);
  const probe = new TextEncoder().encode("probe");
  const signature = await crypto.subtle.sign(signParameters, extractablePrivateKey, probe);
  return crypto.subtle.verify(signParameters, publicKey, signature, probe);
}
