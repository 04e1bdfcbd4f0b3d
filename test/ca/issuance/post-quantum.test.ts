import { verify, X509Certificate } from "node:crypto";
import { describe, expect, test } from "vitest";
import { forwardedValue } from "../../../src/authn/forwarding-headers.ts";
import { nodeCryptoProvider } from "../../../src/node/node-crypto-provider.ts";
import type { CryptoProvider } from "../../../src/pki/crypto-provider.ts";
import { DerReader, Tag } from "../../../src/pki/encoding/der-reader.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { webCryptoProvider } from "../../../src/pki/web-crypto.ts";
import { bearer, callWithClient, connectJson } from "../../contract/rpc-calls.ts";
import { revokeCertificates } from "../../testkit/ca/revoke-certificates.ts";
import { serviceOf, startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";
import {
  createPostQuantumCsr,
  createWorkload,
  withBrokenSignature,
} from "../../testkit/callers/workload.ts";
import { crlBlocks } from "../../testkit/pki/crls.ts";

const issuer = "https://a.test";
const key = await createTokenKey("ES256", "k1");
const { csrPem: classical } = await createWorkload();
const hour = 3600;

const roots = (pem: string): X509Certificate[] =>
  (pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).map(
    (each) => new X509Certificate(each),
  );

const kindsIn = (pem: string): (string | undefined)[] =>
  roots(pem)
    .map((root) => root.publicKey.asymmetricKeyType)
    .toSorted();

const signer = {
  name: "pq",
  authority_key: "ML-DSA-65",
  inception_date: "2026-11-21",
  callers: [{ issuer }],
};

async function start(table: object = {}, cryptoProvider: CryptoProvider = webCryptoProvider) {
  const values = {
    MAX_WORKLOAD_CERT_TTL: "1h",
    DEFAULT_WORKLOAD_CERT_TTL: "1h",
    CRL: "on",
    ISSUERS: [{ issuer, jwks: jwksOf(key) }],
    SIGNERS: [{ ...signer, ...table }],
  };
  const ca = await startCa(values, { cryptoProvider, hasNoNamesake: true });
  await ca.found();
  await ca.rotate();
  ca.pass(hour + 1);
  const service = serviceOf(ca, key);
  const ask = async (csr: string, CertSigner?: string) => {
    const call = { csr, ...(CertSigner !== undefined && { metadata: { CertSigner } }) };
    return callWithClient(connectJson, service, call, await bearer(service, "shop:cart", issuer));
  };
  const issued = async (csr: string, name?: string) => {
    const outcome = await ask(csr, name);
    if (!("certChain" in outcome)) throw new Error(JSON.stringify(outcome));
    const [leaf = "", bundle = ""] = outcome.certChain;
    return { leaf: new X509Certificate(leaf), bundle };
  };
  const text = async (path: string) => (await ca.app.request(path)).text();
  return { ca, ask, issued, text };
}

const providers: [string, CryptoProvider][] = [
  ["WebCrypto", webCryptoProvider],
  ["node:crypto", nodeCryptoProvider],
];

describe("a signer with ML-DSA", () => {
  test.each(providers)("signs by %s, and OpenSSL verifies", async (_, provider) => {
    const { issued } = await start({}, provider);
    const csr = await createPostQuantumCsr("ML-DSA-65");
    const { leaf, bundle } = await issued(csr, "pq");
    expect(roots(bundle).filter((root) => leaf.verify(root.publicKey))).toHaveLength(1);
  });

  test("signs leaves of any key, and its root is in its own bundle alone", async () => {
    const { issued, text } = await start();
    for (const csr of [classical, await createPostQuantumCsr("ML-DSA-65")]) {
      const { leaf, bundle } = await issued(csr, "pq");
      expect(leaf.subjectAltName).toBe("URI:spiffe://cluster.local/ns/shop/sa/cart");
      expect(roots(bundle).filter((root) => leaf.verify(root.publicKey))).toHaveLength(1);
      expect(kindsIn(bundle)).toEqual(["ec", "ml-dsa-65"]);
      expect(await text("/signer/pq/bundle.pem")).toBe(bundle);
    }
    const own = await issued(classical);
    expect(kindsIn(own.bundle)).toEqual(["ec"]);
    expect(await text("/bundle.pem")).toBe(own.bundle);
    expect(JSON.parse(await text("/bundle.json")).keys).toHaveLength(1);
    expect(await text("/signer/none/bundle.pem")).toBe("not found\n");
  });

  test("has its root in every bundle if the operator says so", async () => {
    const { issued, text } = await start({ mesh_bundle: true });
    expect(kindsIn((await issued(classical)).bundle)).toEqual(["ec", "ml-dsa-65"]);
    expect(kindsIn(await text("/bundle.pem"))).toEqual(["ec", "ml-dsa-65"]);
    expect(crlBlocks(await text("/crl.pem"))).toHaveLength(2);
  });

  test("refuses keys of another parameter set, and a mesh all of them", async () => {
    const { ask, ca } = await start();
    const refused = async (csr: string, name?: string) => {
      expect(await ask(csr, name)).toMatchObject({ code: "InvalidArgument" });
      const { reason, check } = ca.log.audits.at(-1) ?? {};
      return [reason, check];
    };
    const fits = await createPostQuantumCsr("ML-DSA-65");
    const unfit = ["subject-key-unacceptable", "parameter-set"];
    expect(await refused(await createPostQuantumCsr("ML-DSA-44"), "pq")).toEqual(unfit);
    expect(await refused(await createPostQuantumCsr("ML-DSA-87"), "pq")).toEqual(unfit);
    expect(await refused(fits)).toEqual(unfit);
    const forged = ["csr-signature-invalid", undefined];
    expect(await refused(withBrokenSignature(fits), "pq")).toEqual(forged);
    expect(await refused(await createPostQuantumCsr("ML-DSA-65", 1), "pq")).toEqual(forged);
  });

  test("publishes its CRL alone, with what was revoked", async () => {
    const { ca, issued, text } = await start();
    const { leaf, bundle } = await issued(classical, "pq");
    const root = roots(bundle).find((each) => leaf.verify(each.publicKey));
    const authorities = ca.certificateAuthority.issuance.signers.get("pq")?.authorities;
    const id = (await authorities?.at(ca.now()))?.issuer?.authority.id;
    const issuance = { ...ca.certificateAuthority.issuance, authorities };
    await revokeCertificates(
      { certificateAuthority: { ...ca.certificateAuthority, issuance } as never, mint: ca.mint },
      [leaf.serialNumber],
      ca.now(),
    );
    ca.pass(61);
    const crl = new Uint8Array(await (await ca.app.request(`/crl/${id}.crl`)).arrayBuffer());
    const fields = new DerReader(crl).enter(Tag.sequence);
    const toBeSigned = fields.element(Tag.sequence);
    fields.skip(Tag.sequence);
    expect(root && verify(null, toBeSigned, root.publicKey, fields.bitStringOctets())).toBe(true);
    expect(Buffer.from(crl).toString("hex")).toContain(leaf.serialNumber.toLowerCase());
    expect(crlBlocks(await text("/crl.pem"))).toHaveLength(1);
    expect(crlBlocks(await text("/crl.pem")).join()).not.toContain(
      Pem.format("X509 CRL", crl).slice(40),
    );
  });

  test("rotates: the next root is published before it signs, and leaves under it verify", async () => {
    const { ca, issued, text } = await start();
    const seen = new Set<string>();
    for (let passed = 0; passed < 7; passed++) {
      await ca.rotate();
      const { leaf, bundle } = await issued(classical, "pq");
      const root = roots(bundle).find((each) => leaf.verify(each.publicKey));
      seen.add(root?.fingerprint256 ?? "none");
      expect(kindsIn(await text("/bundle.pem"))).not.toContain("ml-dsa-65");
      ca.pass(hour);
    }
    expect(seen.size).toBeGreaterThan(1);
    expect(seen).not.toContain("none");
  });

  test("the largest leaf, CRL and record fit the limits that Rampart and its peers have", async () => {
    const { ca, issued, text } = await start({ authority_key: "ML-DSA-87" });
    const { leaf, bundle } = await issued(await createPostQuantumCsr("ML-DSA-87"), "pq");
    expect(leaf.raw.length).toBeLessThan(8_000);
    // The header in which a gateway forwards a certificate has at most 12 KiB.
    expect(
      forwardedValue(leaf.toString(), leaf.subjectAltName?.slice(4) ?? "").length,
    ).toBeLessThan(12_288);
    expect(bundle.length).toBeLessThan(16_384);
    const records = await ca.signerStores.get("pq")?.load();
    const sizes = records?.map(({ value }) => value.length) ?? [];
    expect(Math.max(...sizes)).toBeLessThan(24_000);
    expect((await text("/crl.pem")).length).toBeLessThan(2_000);
  });
});
