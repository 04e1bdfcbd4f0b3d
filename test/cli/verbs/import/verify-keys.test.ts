import "reflect-metadata/lite";
import { createPrivateKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import { createCa, generateKeys, materialOf, rsa } from "../../../testkit/pki/plugged-in.ts";
import { requireRefused, verify } from "./verifying.ts";

const root = await createCa("O=mesh,CN=root");
const stranger = await createCa("O=stranger");
const rsaRoot = await createCa("O=rsa", { keys: await generateKeys(rsa(2048)) });

test("refuses keys that no authority may have", async () => {
  const weak = await createCa("O=weak", { keys: await generateKeys(rsa(1024)) });
  await requireRefused(materialOf(weak), "(modulus)");
  const besideRoot = materialOf(root, { roots: root.pem + weak.pem });
  await requireRefused(besideRoot, /^root-cert.pem, certificate 2: .*\(modulus\)/);
  const exponent3 = { ...rsa(2048), publicExponent: new Uint8Array([3]) };
  const exponent = await createCa("O=three", { keys: await generateKeys(exponent3) });
  await requireRefused(materialOf(exponent), "(exponent)");
});

test.each([
  ["of the same kind", stranger],
  ["of another kind", rsaRoot],
])("refuses the key of another certificate %s", async (_, { keyPem }) => {
  const material = materialOf({ pem: root.pem, keyPem });
  await requireRefused(material, "ca-key.pem: the cert does not match the key");
});

test("refuses a key that only claims the certificate's public key, or its modulus", async () => {
  const contradicting = "its numbers contradict each other";
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  const keyPem = forged(keyOf(root), ec, "d");
  await requireRefused(materialOf({ pem: root.pem, keyPem }), contradicting);
  const other = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  const rsaPem = forged(other, keyOf(rsaRoot), "n");
  await requireRefused(materialOf({ pem: rsaRoot.pem, keyPem: rsaPem }), contradicting);
});

const keyOf = ({ keyPem }: typeof root): KeyObject => createPrivateKey(keyPem);

/** A key with one number of another: by PKCS#8, since Node makes no key of such a JWK. */
function forged(key: KeyObject, other: KeyObject, name: "d" | "n"): string {
  const der = key.export({ type: "pkcs8", format: "der" });
  const [own, foreign] = [key, other].map((each) =>
    Buffer.from(each.export({ format: "jwk" })[name] ?? "", "base64url"),
  );
  if (own && foreign) foreign.copy(der, der.indexOf(own));
  return x509.PemConverter.encode(der, "PRIVATE KEY");
}

test("refuses a key with any changed octet, or reads the same key", async () => {
  for (const ca of [root, rsaRoot]) {
    const der = await crypto.subtle.exportKey("pkcs8", ca.keys.privateKey);
    const same = Buffer.from(der).toString("base64");
    for (let i = 0; i < der.byteLength; i += ca === root ? 5 : 89) {
      const changed = new Uint8Array(der.slice(0));
      changed[i] = (changed[i] ?? 0) ^ (1 << (i % 8));
      const keyPem = x509.PemConverter.encode(changed, "PRIVATE KEY");
      expect([same, "refused"]).toContain(await keyOrRefusal({ pem: ca.pem, keyPem }));
    }
  }
});

async function keyOrRefusal(ca: { readonly pem: string; readonly keyPem: string }) {
  try {
    const { privateKey } = await verify(materialOf(ca));
    return Buffer.from(await crypto.subtle.exportKey("pkcs8", privateKey)).toString("base64");
  } catch (error) {
    if (error instanceof OperatorError) return "refused";
    throw error;
  }
}
