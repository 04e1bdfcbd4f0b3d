import "reflect-metadata/lite";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  BasicConstraintsExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { expect, test } from "vitest";
import { inspect } from "../../../../src/cli/verbs/certificate/inspection.ts";
import { createClient } from "../../../../src/client/client.ts";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import { pause } from "../../../../src/foundation/pause.ts";
import { Pem } from "../../../../src/pki/encoding/pem.ts";
import { Leaf } from "../../../../src/pki/x509/leaf/certificate-signer.ts";
import { SubjectPublicKey } from "../../../../src/pki/x509/subject-public-key.ts";
import { startControlledCas } from "../../../client/controlled-ca.ts";
import { createWorkload, p256, withBrokenSignature } from "../../../testkit/callers/workload.ts";
import { applyEdit } from "../../../testkit/der/mutation.ts";
import { startLoopbackServer } from "../../../testkit/network/loopback-server.ts";
import { createTestIssuer, oneDay, proved, workload } from "../../../testkit/pki/certificates.ts";
import { createCrlAuthority, crlTime } from "../../../testkit/pki/crl-authority.ts";
import { generateSigner } from "../../../testkit/pki/csr.ts";
import { rsa } from "../../../testkit/pki/plugged-in.ts";
import { MemoryTerminal } from "../../../testkit/programs/memory-terminal.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

async function obtain() {
  const { found, close } = await startControlledCas();
  const { url, ca, mint } = await found();
  const options = { url, trustDomain: "cluster.local", token: mint };
  const svid = await createClient(options, { clock: ca.now, random: () => 0, pause }).issue();
  const bundleJson = await (await fetch(`${url}/bundle.json`)).text();
  await close();
  return { ...svid, bundleJson, now: ca.now() };
}

const issued = await obtain();

/** A self-signed certificate: of a CA, or of a leaf with these URIs. */
async function selfSigned(
  name: string,
  { hash = "SHA-256", uris = [] as string[], bits = 0 } = {},
) {
  const key = bits > 0 ? rsa(bits) : (p256 as EcKeyGenParams);
  const keys = await crypto.subtle.generateKey(key, true, ["sign", "verify"]);
  const isCa = uris.length === 0 && name !== "";
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name,
    keys,
    signingAlgorithm: { name: bits > 0 ? rsa(bits).name : "ECDSA", hash },
    notBefore: new Date("2026-01-01T00:00:00Z"),
    notAfter: new Date("2036-01-01T00:00:00Z"),
    extensions: isCa
      ? [new BasicConstraintsExtension(true, undefined, true)]
      : [
          new SubjectAlternativeNameExtension(
            uris.map((value) => ({ type: "url" as const, value })),
          ),
        ],
  });
  return `${certificate.toString("pem")}\n`;
}

test("shows a chain with its SPIFFE ID, its issuer and the proof behind it, and nothing wrong", async () => {
  const { certChain, trustBundle, now } = issued;
  const [leaf, root, ...others] = await inspect(utf8(certChain + trustBundle.pem), now);
  expect(others).toEqual([]);
  expect(leaf).toMatchObject({
    kind: "certificate",
    fields: {
      "SPIFFE ID": "spiffe://cluster.local/ns/foo/sa/bar",
      "issued by": "O=cluster.local, certificate 2 here",
      "may issue": "no",
      proof: expect.stringMatching(
        /^a token at 2026-11-.*, of the issuer with the digest [0-9a-f]{32}$/,
      ),
    },
    faults: [],
  });
  expect(root).toMatchObject({
    fields: { "issued by": "O=cluster.local, itself", "may issue": "yes, it is a CA" },
    faults: [],
  });
});

test("says what is wrong with a certificate", async () => {
  const { certChain, now } = issued;
  const later = new Date(now.getTime() + 30 * 86_400_000);
  const faultsOf = async (pem: string, at: Date) =>
    (await inspect(utf8(pem), at)).flatMap(({ faults }) => faults);
  expect(await faultsOf(certChain, later)).toEqual(["it is not valid any more"]);
  expect(await faultsOf(certChain, new Date(0))).toEqual(["it is not valid yet"]);
  const impostor = await selfSigned("O=cluster.local");
  expect(await faultsOf(certChain + impostor, now)).toEqual([
    "a certificate here has the name of its issuer, but did not sign it",
  ]);
  expect(await faultsOf(impostor + certChain + issued.trustBundle.pem, now)).toEqual([]);
});

const id = "spiffe://cluster.local/ns/shop/sa/cart";

test.each([
  ["CA", "O=old", { hash: "SHA-1" }, "it is signed over SHA-1, which verifiers refuse"],
  ["CA", "O=old", { bits: 1024 }, "its key has 1024 bits, and 2048 are the least"],
  ["leaf", "O=a", { uris: [id, `${id}2`] }, "it has 2 URIs: an X509-SVID has one"],
  ["leaf", "O=a", { uris: ["spiffe://a"] }, "spiffe://a is no SPIFFE ID of a workload"],
  ["leaf", "", {}, "it names nobody"],
])("says what is wrong with a %s of %j with %j", async (_, name, made, fault) => {
  const [found] = await inspect(utf8(await selfSigned(name, made)), issued.now);
  expect(found?.faults).toContain(fault);
});

test("shows that a token of another account is behind a certificate, and what only lax parsers take", async () => {
  const { der } = await Leaf.issue(await createTestIssuer(), {
    spiffeId: workload("shop", "cart"),
    publicKey: SubjectPublicKey.parse(generateSigner("EC-P256").spki),
    validity: oneDay,
    proof: { ...proved, isImpersonated: true },
  });
  const [leaf] = await inspect(der, oneDay.notBefore);
  expect(leaf?.faults).toEqual([]);
  expect(leaf?.fields["proof"]).toMatch(
    /^a token of another account, which named the workload, at /,
  );
  // A length in two octets that has room in one.
  const lax = applyEdit(Buffer.from(der), { at: [0, 0], replace: "a08103020102" });
  const [found] = await inspect(lax, oneDay.notBefore);
  expect(found?.faults).toContainEqual(expect.stringMatching(/^strict parsers refuse it: /));
});

test("shows a CSR, and whether it is signed with its key", async () => {
  const { csrPem } = await createWorkload();
  const fields = {
    subject: "O=mallory, CN=root",
    names: "URL:spiffe://evil.test/ns/a/sa/b",
    key: "ECDSA P-256",
    signature: "ECDSA with SHA-256",
  };
  const [found] = await inspect(utf8(csrPem), issued.now);
  expect(found).toEqual({ kind: "request", fields, faults: [] });
  const [broken] = await inspect(utf8(withBrokenSignature(csrPem)), issued.now);
  expect(broken?.faults).toEqual(["its signature is not that of its key"]);
});

test("shows a SPIFFE bundle with the keys of its tokens", async () => {
  const found = await inspect(utf8(issued.bundleJson), issued.now);
  expect(found.map(({ kind }) => kind)).toEqual(["certificate", "token key"]);
  expect(found[1]?.fields["key"]).toBe("EC P-256");
});

test("shows a CRL, and what is wrong with it", async () => {
  const [authority, other] = await Promise.all([createCrlAuthority(), createCrlAuthority()]);
  const describe = async (pem: string, now = crlTime) => (await inspect(utf8(pem), now)).at(-1);
  expect(
    await describe(authority.ca.pem + (await authority.crl({ revoked: ["0a", "0b"] }))),
  ).toEqual({
    kind: "crl",
    fields: {
      issuer: "O=cluster.local",
      valid: "2026-06-01T11:00:00.000Z until 2026-06-01T13:00:00.000Z",
      revoked: "0a, 0b",
      signature: "ECDSA with SHA-256",
    },
    faults: [],
  });
  expect((await describe(await authority.crl(), issued.now))?.faults).toEqual([
    "it is not valid any more",
  ]);
  expect((await describe(authority.ca.pem + (await other.crl())))?.faults).toEqual([
    "the certificate here that has the name of its issuer did not sign it",
  ]);
});

test("the verb reads a file and a URL, and tells scripts of a fault by its exit code", async () => {
  const file = join(await temporaryFolder(), "chain.pem");
  await writeFile(file, issued.certChain);
  const { origin } = await startLoopbackServer(({ url }, response) =>
    response.writeHead(url === "/chain.pem" ? 200 : 404).end(issued.certChain),
  );
  const type = async (words: readonly string[], clock: Date) => {
    const typed = ["certificate", "inspect", ...words];
    const terminal = await MemoryTerminal.ran(typed, { clock: () => clock });
    return { code: terminal.exitCode, printed: terminal.printed, said: terminal.said };
  };
  for (const source of [file, `${origin}/chain.pem`]) {
    const { code, printed } = await type([source], issued.now);
    expect(code).toBeUndefined();
    expect(printed).toMatch(
      /^1\. certificate\n {2}SPIFFE ID {2}spiffe:\/\/cluster\.local\/ns\/foo/,
    );
  }
  const { code, printed } = await type([file, "--json"], new Date(0));
  expect(code).toBe(3);
  expect(JSON.parse(printed)).toMatchObject([{ faults: ["it is not valid yet"] }]);
  const coloured = await selfSigned("O=old\u001b[31m", { uris: ["spiffe://a/\u001b[31m"] });
  await writeFile(file, coloured);
  expect((await type([file], issued.now)).printed).not.toContain("\u001b");
  for (const source of [`${origin}/none`, join(file, "none"), "http://127.0.0.1:9/"]) {
    const refused = await type([source], issued.now);
    expect(refused).toMatchObject({ code: 1, printed: "" });
    expect(refused.said).toMatch(/^rampart: .*\n$/);
  }
});

test("names a private key, and shows nothing of it", async () => {
  const pem = Pem.format("PRIVATE KEY", new Uint8Array(48));
  expect(await inspect(utf8(pem), issued.now)).toEqual([
    { kind: "private key", fields: {}, faults: [] },
  ]);
});

test.each([
  ["nothing", ""],
  ["other words", "hello"],
  ["a block with something else", Pem.format("CERTIFICATE", new Uint8Array(9))],
  ["a block of another kind", Pem.format("PGP MESSAGE", new Uint8Array(9))],
  ["JSON that is no bundle", "{}"],
])("refuses %s", async (_what, text) => {
  await expect(inspect(utf8(text), issued.now)).rejects.toBeInstanceOf(OperatorError);
});
