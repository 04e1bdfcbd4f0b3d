import { createPrivateKey, X509Certificate } from "node:crypto";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { RefreshingIdentity } from "../../../src/agent/identity/refreshing-identity.ts";
import { generateSubjectKey, parseAnswer } from "../../../src/agent/identity/x509-svid.ts";
import { createWorkloadApi } from "../../../src/agent/sockets/workload-api.ts";
import { Subscribers } from "../../../src/agent/subscribers.ts";
import { FederatedBundles } from "../../../src/agent/trust/bundles.ts";
import { TrustRoots } from "../../../src/agent/trust/trust-roots.ts";
import { SpiffeWorkloadAPI } from "../../../src/gen/spiffe/workload_pb.ts";
import { type HttpCa, startHttpCa } from "../../testkit/agent/http-ca.ts";
import { createJwtAuthority } from "../../testkit/agent/jwt-authority.ts";
import { runAgent } from "../../testkit/agent/running-agent.ts";
import {
  refusalOf,
  security,
  serveRpcs,
  workloadApiClient,
} from "../../testkit/agent/sds-client.ts";
import { createTestAuthority } from "../../testkit/agent/test-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal, trustDomain, workload } from "../../testkit/pki/certificates.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const ownDomain = "spiffe://cluster.local";
const other = trustDomain("other.test");

let ca: HttpCa;
beforeAll(async () => {
  ca = await startHttpCa();
});
afterAll(() => ca.close());

async function start(variables: Record<string, string> = {}) {
  const socket = `${await temporaryFolder()}/api`;
  const running = await runAgent(ca, { RAMPART_WORKLOAD_API_SOCKET: socket, ...variables });
  return { ...running, client: workloadApiClient(socket) };
}

/** An identity with a certificate from a test authority. */
async function startIdentity() {
  const trust = new TrustRoots();
  const root = await createTestAuthority();
  const { privateKey, publicKey } = await generateSubjectKey({ kind: "EC", curve: "P-256" });
  const spiffeId = workload("foo", "bar");
  const clock = (): Date => new Date("2026-11-21T12:00:01Z");
  const identity = new RefreshingIdentity(spiffeId, {
    issue: async () => {
      const chain = [await root.issue(spiffeId, publicKey), root.pem];
      return parseAnswer(chain, { spiffeId, privateKey }, clock());
    },
    trust,
    policy: { graceRatio: 0.5, jitter: 0 },
    clock,
    random: () => 0,
    log: createEventRecorder(),
    load: async () => undefined,
    store: async () => undefined,
  });
  void identity.run();
  onTestFinished(() => identity.end());
  await identity.awaitSvid();
  return { identity, trust };
}

type Api = Parameters<typeof createWorkloadApi>[0];

/** The API of parts that a test moves by itself. */
async function serveApi(parts: Pick<Api, "identity" | "trust"> & Partial<Api>) {
  const api = createWorkloadApi({
    ...(await createJwtAuthority()),
    trustDomain: clusterLocal,
    federation: new FederatedBundles(),
    revocation: { crls: [], changes: new Subscribers(), settled: async () => undefined },
    identities: { find: () => undefined },
    clock: () => new Date(),
    ...parts,
  });
  return workloadApiClient(await serveRpcs((router) => router.service(SpiffeWorkloadAPI, api)));
}

/** An identity below one of two roots of one name. */
async function startBesideNamesake() {
  const { identity, trust } = await startIdentity();
  const [own] = trust.current;
  const { certificate: namesake } = await createTestAuthority();
  if (!own) throw new Error("no root");
  const publish = (sequence: number, ...roots: X509Certificate[]) =>
    trust.updateFromBundle(bundleOf(sequence, ...roots));
  publish(1, own, namesake);
  return { identity, trust, own, namesake, publish };
}

const bundleOf = (sequence: number, ...roots: readonly X509Certificate[]) => ({
  ...{ sequence, refreshSeconds: 300, jwtKeys: [], roots },
});
const derOf = (...roots: X509Certificate[]): Buffer => Buffer.concat(roots.map(({ raw }) => raw));

function certificatesIn(der: Uint8Array): readonly X509Certificate[] {
  if (der.length === 0) return [];
  const root = new X509Certificate(der);
  return [root, ...certificatesIn(der.subarray(root.raw.length))];
}

async function first<T>(stream: AsyncIterable<T>): Promise<T> {
  for await (const message of stream) return message;
  throw new Error("the stream has ended");
}

const codeOf = async (call: Promise<unknown>) => (await refusalOf(call)).split(":")[0];

test("serves the certificate, the key and the bundle in DER", async () => {
  const { client } = await start();
  const { svids, federatedBundles } = await first(client.fetchX509SVID({}, security));
  expect(svids).toHaveLength(1);
  const [svid] = svids;
  if (!svid) throw new Error("no SVID");
  const leaf = new X509Certificate(svid.x509Svid);
  const key = createPrivateKey({
    key: Buffer.from(svid.x509SvidKey),
    format: "der",
    type: "pkcs8",
  });
  expect(svid.spiffeId).toBe(`${ownDomain}/ns/foo/sa/bar`);
  expect(leaf.checkPrivateKey(key)).toBe(true);
  // Another CA of its name is in the bundle.
  const roots = certificatesIn(svid.bundle);
  expect(roots.map((root) => leaf.verify(root.publicKey)).toSorted()).toEqual([false, true]);
  expect(federatedBundles).toEqual({});
});

test("sends the whole state again when the certificate is renewed", async () => {
  const { identity, trust } = await startIdentity();
  const client = await serveApi({ identity, trust });
  const serials = new Set<string>();
  for await (const { svids } of client.fetchX509SVID({}, security)) {
    serials.add(new X509Certificate(svids[0]?.x509Svid ?? new Uint8Array()).serialNumber);
    if (serials.size === 2) break;
    identity.renewIf(() => true, "certificate-revoked");
  }
  expect(serials.size).toBe(2);
});

test("refuses every method without the security header, with another value of it, and a token that the CA does not issue", async () => {
  const { client } = await start();
  expect(await codeOf(client.fetchJWTSVID({ audience: ["a"] }, security))).toBe("Unimplemented");
  for (const options of [{}, { headers: { "workload.spiffe.io": "True" } }]) {
    const calls = [
      first(client.fetchX509SVID({}, options)),
      first(client.fetchX509Bundles({}, options)),
      client.fetchJWTSVID({ audience: ["a"] }, options),
      first(client.fetchJWTBundles({}, options)),
      client.validateJWTSVID({}, options),
    ];
    expect(await Promise.all(calls.map(codeOf))).toEqual(calls.map(() => "InvalidArgument"));
  }
});

test("answers Unavailable while there is no certificate", async () => {
  const { client, event } = await start({ RAMPART_TOKEN_FILE: "/nowhere" });
  await event("renewal-failed");
  expect(await codeOf(first(client.fetchX509SVID({}, security)))).toBe("Unavailable");
});

test("serves the node's workloads no certificate, and roots only once there are any", async () => {
  const [trust, { certificate }] = [new TrustRoots(), await createTestAuthority()];
  const client = await serveApi({ identity: undefined, trust });
  const bundles = () => first(client.fetchX509Bundles({}, security));
  expect(await codeOf(first(client.fetchX509SVID({}, security)))).toBe("PermissionDenied");
  expect(await codeOf(bundles())).toBe("Unavailable");
  trust.restore("", [certificate]);
  expect(Buffer.from((await bundles()).bundles[ownDomain] ?? [])).toEqual(certificate.raw);
});

test("serves the bundles of federated trust domains, and withdraws them", async () => {
  const { identity, trust } = await startIdentity();
  const federation = new FederatedBundles();
  federation.update(other, bundleOf(1, ...trust.current));
  const client = await serveApi({ identity, trust, federation });
  const domains: string[][] = [];
  for await (const { federatedBundles } of client.fetchX509SVID({}, security)) {
    domains.push(Object.keys(federatedBundles));
    if (domains.length === 2) break;
    federation.update(other, bundleOf(2));
  }
  expect(domains).toEqual([["spiffe://other.test"], []]);
});

test("pushes the bundle without a root that was withdrawn while an answer was made", async () => {
  const { identity, trust, own, publish } = await startBesideNamesake();
  const both = derOf(...trust.current);
  // An answer waits for it behind the roots that it has read.
  const settled = async () => void publish(2, own);
  const revocation = { crls: [], changes: new Subscribers(), settled };
  const client = await serveApi({ identity, trust, revocation });
  const shown: Buffer[] = [];
  for await (const { bundles } of client.fetchX509Bundles({}, security)) {
    shown.push(Buffer.from(bundles[ownDomain] ?? []));
    if (shown.length === 2) break;
  }
  expect(shown).toEqual([both, derOf(own)]);
});

test("has the CRLs in the first answer, and waits for them", async () => {
  const { identity, trust } = await startIdentity();
  const revocation = {
    crls: [] as { readonly der: Uint8Array }[],
    changes: new Subscribers(),
    settled: async () => void revocation.crls.splice(0, 1, { der: Uint8Array.of(7) }),
  };
  const client = await serveApi({ identity, trust, revocation: revocation as never });
  const svid = await first(client.fetchX509SVID({}, security));
  revocation.crls.length = 0;
  const bundle = await first(client.fetchX509Bundles({}, security));
  expect([svid.crl, bundle.crl]).toEqual([[Uint8Array.of(7)], [Uint8Array.of(7)]]);
});

test("serves its own bundle under its own name, whatever a federated endpoint says", async () => {
  const { identity, trust, own, namesake } = await startBesideNamesake();
  const federation = new FederatedBundles();
  federation.update(clusterLocal, bundleOf(1, namesake));
  trust.holdBack([namesake]);
  const client = await serveApi({ identity, trust, federation });
  const { bundles } = await first(client.fetchX509Bundles({}, security));
  expect(Buffer.from(bundles[ownDomain] ?? [])).toEqual(derOf(own));
});

test("hands no root out before its CRL, in either method", async () => {
  const { identity, trust, own, namesake } = await startBesideNamesake();
  trust.holdBack([namesake]);
  const client = await serveApi({ identity, trust });
  const { svids } = await first(client.fetchX509SVID({}, security));
  const { bundles } = await first(client.fetchX509Bundles({}, security));
  expect(Buffer.from(svids[0]?.bundle ?? [])).toEqual(derOf(own));
  expect(Buffer.from(bundles[ownDomain] ?? [])).toEqual(derOf(own));
});

test("pushes what changes of roots, CRLs and federated bundles, each by itself", async () => {
  const { identity, trust, own, namesake, publish } = await startBesideNamesake();
  const federation = new FederatedBundles();
  const changes = new Subscribers();
  const crls: { readonly der: Uint8Array }[] = [];
  const revocation = { crls, changes, settled: async () => undefined } as never;
  const client = await serveApi({ identity, trust, federation, revocation });
  const steps = [
    () => publish(2, own),
    () => {
      crls.push({ der: Uint8Array.of(7) });
      changes.notify();
    },
    () => federation.update(other, bundleOf(1, namesake)),
    () => {
      crls.length = 0;
      changes.notify();
    },
    // The state that was the first comes again.
    () => {
      federation.update(other, bundleOf(2));
      publish(3, own, namesake);
    },
  ];
  const states = async (stream: AsyncIterable<{ crl: Uint8Array[] }>) => {
    const seen: string[] = [];
    const left = steps.values();
    for await (const { crl, ...state } of stream) {
      const { bundles, svids, federatedBundles } = state as Record<string, object>;
      const domains = Object.keys(bundles ?? federatedBundles ?? {}).length;
      const roots = Object(bundles)[ownDomain] ?? Object(svids)[0]?.bundle;
      seen.push(`${roots.length > own.raw.length ? 2 : 1} ${crl.length} ${domains}`);
      const { value: next } = left.next();
      if (!next) break;
      next();
    }
    return seen;
  };
  expect(await states(client.fetchX509Bundles({}, security))).toEqual([
    "2 0 1",
    "1 0 1",
    "1 1 1",
    "1 1 2",
    "1 0 2",
    "2 0 1",
  ]);
});
