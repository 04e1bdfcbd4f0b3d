import "reflect-metadata/lite";
import { X509Certificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { describe, expect, test } from "vitest";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { issueLeaf, signerOf } from "../../testkit/ca/tainted-ca.ts";
import {
  createTokenKey,
  jwksOf,
  mintToken,
  serviceAccountClaims,
} from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { startUpstream } from "../../testkit/network/upstream-server.ts";
import { refusalIn } from "../../testkit/refusal.ts";

const day = 86_400;
const issuer = "https://operations.test";
const key = await createTokenKey("ES256", "k");
const rpc = "/istio.v1.auth.IstioCertificateService/CreateCertificate";

interface Clock {
  now: Date;
}

const tokenOf = (account: string, now: Date) =>
  mintToken(key, serviceAccountClaims(issuer, account, now));

/** A Rampart that is nothing but the root of others; its authority signs. */
async function startRoot(clock: Clock, intermediates: readonly object[]): Promise<RunningCa> {
  const root = await startCa(
    {
      TRUST_DOMAIN: "root.company.test",
      ISSUERS: [
        {
          issuer,
          jwks: jwksOf(key),
          intermediates,
          trusted_node_accounts: ["rampart/mesh"],
          node_reach: "anywhere",
        },
      ],
      MAX_WORKLOAD_CERT_TTL: `${100 * day}s`,
      PROPAGATION_INTERVAL: "600s",
      AUTHORITY_LIFETIME: `${1000 * day}s`,
      INCEPTION_DATE: clock.now.toISOString().slice(0, 10),
    },
    { clock: () => clock.now },
  );
  await Rotation.rotate(root.mint, clock.now);
  clock.now = addSeconds(clock.now, 1200);
  return root;
}

const mesh = { account: "rampart/mesh", trust_domain: "cluster.local" };

/** Asks a Rampart for an intermediate, as its JSON. */
async function ask(root: RunningCa, account: string, now: Date, more: object = {}) {
  const { csrPem } = await createWorkload();
  const response = await root.app.request(rpc, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${await tokenOf(account, now)}`,
    },
    body: JSON.stringify({
      csr: csrPem,
      validityDuration: `${400 * day}`,
      metadata: { CertSigner: "intermediate", ...more },
    }),
  });
  return (await response.json()) as { certChain?: string[]; code?: string };
}

const start = (): Clock => ({ now: new Date("2026-11-21T12:00:00.000Z") });

describe("an intermediate of a root Rampart", () => {
  test("is what the operator of the root decides, and verifies under it", async () => {
    const clock = start();
    const root = await startRoot(clock, [{ ...mesh, path_length: 2, name_constraints: true }]);
    const { certChain = [] } = await ask(root, "rampart:mesh", clock.now);
    const [leafPem = "", rootPem = ""] = certChain;
    const [certificate, anchor] = [new X509Certificate(leafPem), new X509Certificate(rootPem)];
    expect(certificate.ca).toBe(true);
    expect(certificate.checkIssued(anchor)).toBe(true);
    expect(certificate.verify(anchor.publicKey)).toBe(true);
    expect(certificate.subject).toMatch(
      /^O=cluster\.local\nCN=cluster\.local intermediate [0-9a-f]{12}$/,
    );
    expect(certificate.subjectAltName).toBe("URI:spiffe://cluster.local");
    // No longer than the root's longest leaf, for which it keeps its root in the bundle.
    expect(new Date(certificate.validTo)).toEqual(addSeconds(clock.now, 100 * day));
    const parsed = new x509.X509Certificate(leafPem);
    expect(parsed.getExtension(x509.BasicConstraintsExtension)).toMatchObject({
      ca: true,
      pathLength: 2,
      critical: true,
    });
    expect(parsed.getExtension(x509.KeyUsagesExtension)?.usages).toBe(0x60);
    const constraints = parsed.getExtension("2.5.29.30");
    expect(constraints?.critical).toBe(true);
    expect(Buffer.from(constraints?.value ?? new ArrayBuffer(0)).toString("hex")).toBe(
      `3013a011300f860d${Buffer.from("cluster.local").toString("hex")}`,
    );
  });

  test("has path length 0 and no name constraints by default", async () => {
    const clock = start();
    const root = await startRoot(clock, [mesh]);
    const { certChain: [pem = ""] = [] } = await ask(root, "rampart:mesh", clock.now);
    const parsed = new x509.X509Certificate(pem);
    expect(parsed.getExtension(x509.BasicConstraintsExtension)?.pathLength).toBe(0);
    expect(parsed.getExtension("2.5.29.30")).toBeNull();
  });

  test("goes to no other account, and to no node proxy in another's name", async () => {
    const clock = start();
    const root = await startRoot(clock, [mesh]);
    for (const account of ["rampart:other", "other:mesh"]) {
      expect((await ask(root, account, clock.now)).code).toBe("permission_denied");
      expect(root.log.audits.splice(0).map(refusalIn)).toEqual(["signer-denied"]);
    }
    for (const [asking, named] of [
      ["rampart:other", "mesh"],
      ["rampart:mesh", "other"],
    ] as const) {
      const id = { ImpersonatedIdentity: `spiffe://root.company.test/ns/rampart/sa/${named}` };
      expect((await ask(root, asking, clock.now, id)).code).toBe("permission_denied");
    }
    expect(root.log.audits.splice(0).map(refusalIn)).toEqual([
      "impersonation-denied account",
      "signer-denied",
    ]);
    const without = await startRoot(start(), []);
    expect((await ask(without, "rampart:mesh", without.now())).code).toBe("permission_denied");
    expect(without.log.audits.map(refusalIn)).toEqual(["signer-denied"]);
  });

  test("is no credential, and neither are the leaves below it", async () => {
    const clock = start();
    const root = await startRoot(clock, [mesh]);
    const { certChain: [pem = ""] = [] } = await ask(root, "rampart:mesh", clock.now);
    const { authenticate } = root.certificateAuthority;
    const clientCertificate = new Uint8Array(new X509Certificate(pem).raw);
    const call = { headers: new Headers(), clientCertificate };
    await expect(authenticate(call as never, clock.now)).rejects.toThrow();
  });
});

test("a mesh lives under a root Rampart through renewals and a rotation of that root", async () => {
  const clock = start();
  const root = await startRoot(clock, [mesh]);
  const upstream = await startUpstream(async ({ path, headers, body }) => {
    expect(headers.authorization).toMatch(/^Bearer /);
    const authorization = `Bearer ${await tokenOf("rampart:mesh", clock.now)}`;
    const response = await root.app.request(path, {
      method: "POST",
      headers: { "content-type": "application/json", authorization },
      body: JSON.stringify(body),
    });
    return response.json();
  });
  const child = await startCa(
    {
      AUTHORITY_ROOT: "upstream",
      UPSTREAM_AUTHORITY: { kind: "rampart", url: upstream.url },
      UPSTREAM_CREDENTIAL: "replaced-by-a-fresh-token",
      MAX_WORKLOAD_CERT_TTL: `${10 * day}s`,
      PROPAGATION_INTERVAL: "600s",
      AUTHORITY_LIFETIME: `${90 * day}s`,
      INCEPTION_DATE: clock.now.toISOString().slice(0, 10),
    },
    { clock: () => clock.now },
  );
  await Rotation.rotate(child.mint, clock.now);
  clock.now = addSeconds(clock.now, 1200);
  const [signers, rootsSeen] = [new Set<string | undefined>(), new Set<string>()];
  let before: Awaited<ReturnType<typeof issueLeaf>> | undefined;
  for (let i = 0; i < 90; i++) {
    const now = await issueLeaf(child);
    for (const each of now.roots) rootsSeen.add(each.fingerprint256);
    signers.add(await signerOf(child));
    // The leaf of the time before is still live, and so is its bundle.
    expectToVerify(now, now.roots);
    if (before) expectToVerify(before, now.roots);
    if (before) expectToVerify(now, before.roots);
    before = now;
    clock.now = addSeconds(clock.now, 9 * day);
    await Rotation.rotate(root.mint, clock.now);
    await Rotation.rotate(child.mint, clock.now);
  }
  expect(signers.size).toBeGreaterThan(10);
  expect(rootsSeen.size).toBe(2);
});

function expectToVerify(
  { leaf, chain }: { readonly leaf: X509Certificate; readonly chain: readonly string[] },
  roots: readonly X509Certificate[],
): void {
  const intermediate = new X509Certificate(chain[1] ?? "");
  expect(leaf.checkIssued(intermediate) && leaf.verify(intermediate.publicKey)).toBe(true);
  const isUnder = (root: X509Certificate) =>
    intermediate.checkIssued(root) && intermediate.verify(root.publicKey);
  expect(roots.some(isUnder)).toBe(true);
}
