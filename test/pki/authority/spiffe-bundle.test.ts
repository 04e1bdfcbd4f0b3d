import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  type AuthorityKey,
  createAuthority,
} from "../../../src/pki/authority/self-signed-authority.ts";
import { toSpiffeBundle } from "../../../src/pki/authority/spiffe-bundle.ts";
import { clusterLocal, tenDays } from "../../testkit/pki/certificates.ts";

const rootOf = async (key: AuthorityKey): Promise<Uint8Array<ArrayBuffer>> =>
  (await createAuthority(clusterLocal, key, tenDays)).authority.certificate.der;

const istioRoot = new X509Certificate(readFileSync("test/vectors/istio-cacerts/root-cert-alt.pem"));

test.each([
  ["EC-P256", await rootOf("EC-P256")],
  ["EC-P384", await rootOf("EC-P384")],
  ["RSA-2048", await rootOf("RSA-2048")],
  ["Istio's RSA-4096", new Uint8Array(istioRoot.raw)],
] as const)(
  "a root of %s has the parameters that node:crypto exports, and no others",
  async (_, root) => {
    const { keys: entries } = await toSpiffeBundle([root], 1, 300);
    const x5c = [Buffer.from(root).toString("base64")];
    const jwk = new X509Certificate(root).publicKey.export({ format: "jwk" });
    expect(entries).toEqual([{ use: "x509-svid", ...jwk, x5c }]);
    expect(JSON.parse(JSON.stringify(entries))).toEqual([{ use: "x509-svid", ...jwk, x5c }]);
  },
);

test("a bundle has its roots in their order, each with one certificate", async () => {
  const roots = [await rootOf("EC-P384"), await rootOf("EC-P256")];
  const bundle = await toSpiffeBundle(roots, 1_767_225_600, 3600);
  expect(bundle.spiffe_sequence).toBe(1_767_225_600);
  expect(bundle.spiffe_refresh_hint).toBe(3600);
  expect(bundle.keys.map(({ x5c }) => x5c)).toEqual(
    roots.map((root) => [Buffer.from(root).toString("base64")]),
  );
  expect(bundle.keys.every((key) => !("kid" in key))).toBe(true);
});

test("a bundle of no roots has no keys", async () => {
  expect(await toSpiffeBundle([], 0, 300)).toEqual({
    spiffe_sequence: 0,
    spiffe_refresh_hint: 300,
    keys: [],
  });
});

test("refuses a root that is not a certificate", async () => {
  await expect(toSpiffeBundle([new Uint8Array([0x30, 0])], 1, 300)).rejects.toThrow();
});
