import "reflect-metadata/lite";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  BasicConstraintsExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { Pem } from "../../src/pki/encoding/pem.ts";
import type { RootKey } from "./peer.ts";

const algorithms = {
  "EC-P256": { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" },
  "RSA-2048": {
    name: "RSASSA-PKCS1-v1_5",
    hash: "SHA-256",
    modulusLength: 2048,
    publicExponent: new Uint8Array([1, 0, 1]),
  },
} as const;

/** Writes a new root of a day, with the names that istiod looks for: `root-cert.pem`, `ca-cert.pem`, `cert-chain.pem`, `ca-key.pem`. */
export async function writeRoot(folder: string, rootKey: RootKey): Promise<void> {
  const algorithm = algorithms[rootKey];
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const root = await X509CertificateGenerator.createSelfSigned({
    name: "O=Peer",
    keys,
    signingAlgorithm: algorithm,
    notBefore: new Date(Date.now() - 60_000),
    notAfter: new Date(Date.now() + 2 * 86_400_000),
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  const pkcs8 = new Uint8Array(await crypto.subtle.exportKey("pkcs8", keys.privateKey));
  const pem = `${root.toString("pem")}\n`;
  await mkdir(folder, { recursive: true });
  await Promise.all([
    ...["ca-cert.pem", "root-cert.pem", "cert-chain.pem"].map((file) =>
      writeFile(join(folder, file), pem),
    ),
    writeFile(join(folder, "ca-key.pem"), Pem.format("PRIVATE KEY", pkcs8), { mode: 0o600 }),
  ]);
}
