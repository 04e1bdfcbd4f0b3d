import { mkdir } from "node:fs/promises";
import { createCa, generateKeys, rsa, writeFolder } from "../../test/testkit/pki/plugged-in.ts";
import type { RootKey } from "./peer.ts";

/** Writes a new root with the names that istiod looks for: `root-cert.pem`, `ca-cert.pem`, `cert-chain.pem`, `ca-key.pem`. */
export async function writeRoot(folder: string, rootKey: RootKey): Promise<void> {
  const keys = await generateKeys(rootKey === "RSA-2048" ? rsa(2048) : undefined);
  const { pem, keyPem } = await createCa("O=Peer", { keys });
  const certificates = { "ca-cert.pem": pem, "root-cert.pem": pem, "cert-chain.pem": pem };
  await mkdir(folder, { recursive: true });
  await writeFolder(folder, { ...certificates, "ca-key.pem": keyPem });
}
