import "reflect-metadata/lite";
import { type SubjectAlternativeNameExtension, X509Certificate } from "@peculiar/x509";
import { beforeAll, describe, expect, test } from "vitest";
import { addSeconds, wholeSeconds } from "../../../src/pki/x509/validity.ts";
import { createWorkload, rsa2048, type Workload } from "../../testkit/callers/workload.ts";
import { bearer, type CertificateCall, callWithClient, grpcWeb, protocols } from "../rpc-calls.ts";
import {
  maximumSeconds,
  origin,
  type ServiceUnderTest,
  textOf,
  trustDomain,
} from "../service-under-test.ts";

const onePem =
  /^-----BEGIN CERTIFICATE-----\n(?:[A-Za-z0-9+/]{64}\n)*[A-Za-z0-9+/]{1,64}={0,2}\n-----END CERTIFICATE-----\n$/;

/** The certificates that workloads and node proxies get, over each protocol. */
export function describeIssuedCertificates(service: () => ServiceUnderTest): void {
  let workload: Workload;

  beforeAll(async () => {
    workload = await createWorkload();
  });

  interface Asking extends CertificateCall {
    readonly account?: string;
    readonly issuer?: string;
  }

  async function chainFor({ account, issuer, ...call }: Asking = {}, protocol = grpcWeb) {
    const headers = await bearer(service(), account, issuer);
    const outcome = await callWithClient(
      protocol,
      service(),
      { csr: workload.csrPem, ...call },
      headers,
    );
    if ("code" in outcome) throw new Error(`refused: ${outcome.code}: ${outcome.message}`);
    return outcome.certChain;
  }

  const leafFor = async (asking: Asking = {}) => leafOf(await chainFor(asking));
  const leafOf = ([leafPem = ""]: readonly string[]) => new X509Certificate(leafPem);
  const namesOf = (leaf: X509Certificate) =>
    leaf.getExtension<SubjectAlternativeNameExtension>("2.5.29.17")?.names.toJSON();

  describe.each(protocols)("over $name", (protocol) => {
    test("the answer is the leaf, then every root as one element", async () => {
      const chain = await chainFor({}, protocol);
      expect(chain).toEqual([expect.stringMatching(onePem), expect.stringMatching(onePem)]);
      const bundle = await service().send(new Request(`${origin}/bundle.pem`));
      expect(chain.at(-1)).toBe(await textOf(bundle));
    });

    test("the leaf verifies with the root, and names the caller and its key", async () => {
      const [leafPem = "", rootsPem = ""] = await chainFor({}, protocol);
      const leaf = new X509Certificate(leafPem);
      const root = new X509Certificate(rootsPem);
      expect(await leaf.verify({ publicKey: root.publicKey, date: service().now() })).toBe(true);
      expect(await root.isSelfSigned()).toBe(true);
      expect(new Uint8Array(leaf.publicKey.rawData)).toEqual(workload.spki);
      expect(namesOf(leaf)).toEqual([
        { type: "url", value: `spiffe://${trustDomain}/ns/foo/sa/bar` },
      ]);
      expect(leaf.subject).toBe("");
    });
  });

  test("a CSR of an RSA key is accepted", async () => {
    const { csrPem } = await createWorkload(rsa2048);
    expect((await leafFor({ csr: csrPem })).publicKey.algorithm).toMatchObject({
      modulusLength: 2048,
    });
  });

  describe("the validity", () => {
    test.each<[string, bigint, number, number]>([
      ["0", 0n, 86_400, 120],
      ["the maximum", BigInt(maximumSeconds), maximumSeconds, 120],
    ])("asked for %s starts a little back, ends as asked", async (_, asked, seconds, backdate) => {
      const before = wholeSeconds(service().now());
      const leaf = await leafFor({ validityDuration: asked });
      const issuedAt = addSeconds(leaf.notBefore, backdate);
      expect(issuedAt >= before && issuedAt <= service().now()).toBe(true);
      expect(leaf.notAfter).toEqual(addSeconds(issuedAt, seconds));
    });
  });

  describe("the metadata", () => {
    const own = [{ type: "url", value: `spiffe://${trustDomain}/ns/foo/sa/bar` }];

    test.each<[string, Asking["metadata"]]>([
      ["nothing", {}],
      ["an empty CertSigner, as pilot-agent always sends", { CertSigner: "" }],
      ["an empty ImpersonatedIdentity", { ImpersonatedIdentity: "" }],
      ["keys in another case", { impersonatedIdentity: "x", IMPERSONATEDIDENTITY: "x" }],
      ["an identity that is a list", { ImpersonatedIdentity: ["x"] }],
      ["a signer that is a number", { CertSigner: 1 }],
    ])("may hold %s: the caller gets its own identity", async (_, metadata = {}) => {
      for (const protocol of protocols) {
        const leaf = leafOf(await chainFor({ metadata }, protocol));
        expect(namesOf(leaf)).toEqual(own);
      }
    });
  });

  describe("a trusted node account", () => {
    const ztunnel = { account: "istio-system:ztunnel" };
    const spiffeId = (path: string) => `spiffe://${trustDomain}/ns/${path}`;
    const impersonating = async (ImpersonatedIdentity: string, asking: Asking = ztunnel) =>
      namesOf(await leafFor({ ...asking, metadata: { ImpersonatedIdentity } }));

    test("gets the identity it names, over every protocol", async () => {
      const metadata = { ImpersonatedIdentity: spiffeId("foo/sa/bar") };
      for (const protocol of protocols) {
        const leaf = leafOf(await chainFor({ ...ztunnel, metadata }, protocol));
        expect(namesOf(leaf)).toEqual([{ type: "url", value: spiffeId("foo/sa/bar") }]);
      }
    });

    test("gets its own identity when it names none, or names its own", async () => {
      const own = [{ type: "url", value: spiffeId("istio-system/sa/ztunnel") }];
      expect(namesOf(await leafFor(ztunnel))).toEqual(own);
      expect(await impersonating(spiffeId("istio-system/sa/ztunnel"))).toEqual(own);
    });
  });
}
