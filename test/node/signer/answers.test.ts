import { X509Certificate } from "node:crypto";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { FetchError } from "../../../src/foundation/fetch.ts";
import { type Pause, pause } from "../../../src/foundation/pause.ts";
import type { KubernetesClient, KubernetesRequest } from "../../../src/kubernetes/client.ts";
import { watchEvents } from "../../../src/kubernetes/internal/watch-events.ts";
import { Listing } from "../../../src/kubernetes/list-pages.ts";
import type { CertificateSource } from "../../../src/node/gateway/certificate-source.ts";
import { answerRequests, type SignerWork } from "../../../src/node/signer/answers.ts";
import { Issuers } from "../../../src/node/signer/cert-manager-issuers.ts";
import { signingOnce } from "../../../src/node/signer/signed-certificates.ts";
import { SignerConfiguration } from "../../../src/node/signer/signer-configuration.ts";
import { issueFor } from "../../testkit/ca/issue-for-signer.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import {
  certManagerRequestJson,
  emptyCsr,
  podRequestJson,
  serviceRequestJson,
} from "../../testkit/kubernetes/certificate-requests.ts";
import { fitsSelector } from "../../testkit/kubernetes/field-selector.ts";
import { tellEvents } from "../../testkit/kubernetes/told-events.ts";
import { createEventRecorder, type EventRecorder } from "../../testkit/log/event-recorder.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const group = "/apis/certificates.k8s.io";
const podPath = `${group}/v1beta1/podcertificaterequests`;
const servicePath = `${group}/v1/certificatesigningrequests`;

const spec = { stubPKCS10Request: (await emptyCsr()).base64 };
const annotated = { ...spec, unverifiedUserAnnotations: { "a.test/b": "c" } };
const web = { services: [{ account: "shop/web", dns_names: ["web.shop.svc"] }] };
const csrOf = async (value = "web.shop.svc") =>
  (await emptyCsr("P-256", [{ type: "dns", value }])).pem;
const refusal = () => new FetchError("refuses the credential", { status: 403 });

let ca: RunningCa;
let log: EventRecorder;
let ending: AbortController;
let work: SignerWork | undefined;
let counted: string[];
/** The requests to the CA. */
let asks: number;

interface Means {
  readonly source?: CertificateSource;
  readonly clock?: () => Date;
  readonly isAlone?: boolean;
  readonly roots?: () => string | undefined;
}

beforeAll(async () => {
  ca = await startCa();
  await ca.found();
});

beforeEach(() => {
  log = createEventRecorder();
  ending = new AbortController();
  counted = [];
  asks = 0;
});

afterEach(async () => {
  ending.abort();
  await work?.ended;
});

/** The collections of an API server at one instant, by field selectors. Watches stay open and tell nothing. */
function memoryApi(collections: Readonly<Record<string, readonly unknown[]>>) {
  const writes: KubernetesRequest[] = [];
  const listed: string[] = [];
  const client: KubernetesClient = {
    send: async (request) => {
      if (request.method !== undefined) {
        writes.push(request);
        return {};
      }
      const { pathname, searchParams } = new URL(request.path, "https://api.test");
      const selector = searchParams.get("fieldSelector");
      const items = collections[pathname]?.filter((each) => fitsSelector(each, selector));
      listed.push(request.path);
      return items && { kind: "List", metadata: { resourceVersion: "9" }, items };
    },
    open: tellEvents(async function* (_, signal) {
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    }),
  };
  return { client, writes, listed };
}

/** @param isAlone Has no second signer, which comes first and of which nobody requests anything. */
function configurationOf(signer: object, isAlone = false) {
  const rules = "cert_manager" in signer && { cert_manager: [{ namespaces: ["beside"] }] };
  const beside = { name: "beside.example.com/workload", ...signer, ...rules };
  return SignerConfiguration.parse(
    {
      UPSTREAM: "https://ca.test",
      KUBERNETES_SERVER: "https://api.test",
      SIGNERS: [...(isAlone ? [] : [beside]), { name: "mesh.example.com/workload", ...signer }],
    },
    {},
  );
}

const briefly: Pause = (milliseconds, signal) => pause(Math.min(milliseconds, 20), signal);

/** @param means `isAlone` as {@link configurationOf} has it. */
function start(
  client: KubernetesClient,
  signer: object,
  {
    source = (ask) => issueFor(ca, ask),
    clock = () => new Date(),
    isAlone = false,
    roots = () => "the roots",
  }: Means = {},
): SignerWork {
  const configuration = configurationOf(signer, isAlone);
  const answered = (kind: string, outcome: string): void => void counted.push(`${kind} ${outcome}`);
  const known = { roots, caFaults: () => [] };
  const { signal } = ending;
  const context = { client, log, answered, clock, pause: briefly, signal, ...known };
  const certificate: CertificateSource = (ask) => {
    asks++;
    return source(ask);
  };
  work = answerRequests(configuration, signingOnce(clock)(certificate), context);
  return work;
}

test("denies a pod for which no CA is needed while the CA is away", async () => {
  const waiting = Array.from({ length: 20 }, (_, i) => podRequestJson(spec, {}, `good-${i}`));
  const { client } = memoryApi({ [podPath]: [...waiting, podRequestJson(annotated, {}, "bad")] });
  const now = new Date();
  const away = async (): Promise<never> => {
    throw new Error("the CA is away");
  };
  const { pending, reasons } = start(client, { pods: {} }, { source: away, clock: () => now });
  await eventually(() => expect(counted).toEqual(["pod denied"]));
  expect(asks).toBeLessThanOrEqual(8);
  expect(pending()).toBe(20);
  expect(reasons()).toEqual(["the CA is away"]);
});

test("answers the pods that await it, by the field selector of its name, in the version served", async () => {
  const { client, writes, listed } = memoryApi({
    [podPath]: [
      podRequestJson(spec, {}, "good"),
      podRequestJson(annotated, {}, "bad"),
      podRequestJson(spec, { conditions: [{ type: "Issued" }] }, "done"),
    ],
  });
  const { pending, reasons } = start(client, { pods: {} });
  await eventually(() => expect(counted.toSorted()).toEqual(["pod denied", "pod issued"]));
  expect(writes.map(({ path }) => path.split("?")[0]).toSorted()).toEqual(
    ["bad", "good"].map(
      (name) => `${group}/v1beta1/namespaces/shop/podcertificaterequests/${name}/status`,
    ),
  );
  const selector = "fieldSelector=spec.signerName%3Dmesh.example.com%2Fworkload";
  expect(listed.at(-1)).toMatch(`${podPath}?${selector}`);
  expect(pending()).toBe(0);
  expect(reasons()).toEqual([]);
  expect(await log.until("pod-certificate-issued")).toMatchObject({
    namespace: "shop",
    account: "web",
    pod: "web-0",
    node: "node-1",
    request: "good",
  });
  expect(await log.until("pod-certificate-denied")).toMatchObject({
    reason: "InvalidUnverifiedUserAnnotations",
  });
});

test("answers pods after an update that has taken the version away", async () => {
  const [before, after] = ["v1beta1", "v1"].map((version) =>
    memoryApi({ [`${group}/${version}/podcertificaterequests`]: [podRequestJson(spec)] }),
  );
  if (!before || !after) throw new Error("unreachable");
  let isUpdated = false;
  // It is asked again at once, and not only after a while.
  const now = new Date();
  const { promise: cut, resolve: cutWatches } = Promise.withResolvers<void>();
  const { reasons } = start(
    {
      send: (request) => (isUpdated ? after : before).client.send(request),
      open: tellEvents(async function* (path, signal) {
        if (path.includes("/v1/"))
          yield* watchEvents(after.client, path, Listing.maximumPageOctets, signal);
        if (isUpdated) throw new FetchError("answered with status 404", { status: 404 });
        await cut;
      }),
    },
    { pods: {} },
    { clock: () => now },
  );
  await eventually(() => expect(counted).toEqual(["pod issued"]));
  isUpdated = true;
  cutWatches();
  await eventually(() => expect(counted).toEqual(["pod issued", "pod issued"]));
  expect(after.writes[0]?.path).toMatch(`${group}/v1/namespaces/shop/podcertificaterequests/`);
  expect(reasons()).toEqual([]);
});

test("approves a service before it asks for its certificate, unless somebody has, and denies others", async () => {
  const named = (name: string, csr: string, status = {}) => {
    const json = serviceRequestJson(csr, {}, status);
    return { ...json, metadata: { ...json.metadata, name } };
  };
  const own = await csrOf();
  const { client, writes } = memoryApi({
    [servicePath]: [
      named("good", own),
      named("approved", own, { conditions: [{ type: "Approved" }] }),
      named("bad", await csrOf("db.shop.svc")),
      named("long", "A".repeat(2 ** 20)),
    ],
    [podPath]: [],
  });
  // Each of two names has both kinds.
  start(client, { pods: {}, ...web });
  const outcomes = ["denied", "denied", "issued", "issued"].map((end) => `service ${end}`);
  await eventually(() => expect(counted.toSorted()).toEqual(outcomes));
  const about = (name: string) =>
    writes.filter(({ path }) => path.includes(`/${name}/`)).map(({ body }) => body);
  const issued = { status: { certificate: expect.stringMatching(/^[A-Za-z0-9+/=]{100,}$/) } };
  expect(about("good")).toMatchObject([{ status: { conditions: [{ type: "Approved" }] } }, issued]);
  expect(about("approved")).toMatchObject([issued]);
  for (const [name, reason] of [
    ["bad", "NameNotAllowed"],
    ["long", "InvalidRequest"],
  ] as const)
    expect(about(name)).toMatchObject([{ status: { conditions: [{ type: "Denied", reason }] } }]);
});

test("keeps no more requests than fit into its memory, and asks for the others later", async () => {
  let made = 0;
  const endless: KubernetesClient["send"] = async ({ method }) => {
    if (method !== undefined) throw new FetchError("did not answer");
    const name = () => `req-${made++}`;
    const items = Array.from({ length: 900 }, () =>
      podRequestJson({ stubPKCS10Request: "AAAA" }, {}, name()),
    );
    const next = made < 3_000 ? "more" : "";
    return { kind: "List", metadata: { resourceVersion: "9", continue: next }, items };
  };
  const { pending } = start(
    { ...memoryApi({}).client, send: endless },
    { pods: {} },
    { isAlone: true },
  );
  expect(await log.until("watch-failed")).toMatchObject({
    detail:
      "the API server has more than 2000 objects, or 16777216 octets, of a kind that is watched",
  });
  expect(pending()).toBe(2_000);
});

test("asks for no certificate that the API server would not take, because it took no approval", async () => {
  const { client } = memoryApi({ [servicePath]: [serviceRequestJson(await csrOf())] });
  const send: KubernetesClient["send"] = async (request) => {
    if (request.method === undefined) return client.send(request);
    throw refusal();
  };
  start({ ...client, send }, web);
  expect(await log.until("request-not-answered")).toMatchObject({ level: "warning" });
  expect(asks).toBe(0);
});

test("says what keeps the requests of any of its names from an answer", async () => {
  const { client } = memoryApi({ [podPath]: [], [servicePath]: [] });
  const send: KubernetesClient["send"] = async (request) => {
    if (!request.path.includes("mesh.example.com")) return client.send(request);
    throw refusal();
  };
  const { reasons } = start({ ...client, send }, { pods: {} });
  await log.until("watch-failed");
  await eventually(() =>
    expect(reasons()).toEqual(["the requests of the cluster have not been listed yet"]),
  );
});

const why = "the API server refuses the credential";

test.each<[string, object, string, string]>([
  ["does not let it list services", web, "watch-failed", why],
  ["refuses to say in which version it has pods", { pods: {} }, "request-not-answered", why],
  [
    "serves no requests of pods",
    { pods: {} },
    "not-served",
    "the API server serves no PodCertificateRequest: its feature gate is off",
  ],
])("says that an API server %s, and is not ready", async (_, signer, event, detail) => {
  const send = async (): Promise<undefined> => {
    if (event !== "not-served") throw refusal();
  };
  const { reasons } = start({ ...memoryApi({}).client, send }, signer, { isAlone: true });
  expect(await log.until(event)).toMatchObject({ detail });
  expect(reasons()).toHaveLength(1);
});

test("ends when its process has lost the lease, and answers nothing after that", async () => {
  const { client, writes } = memoryApi({ [podPath]: [podRequestJson(spec)] });
  ending.abort();
  const { ended } = start(client, { pods: {} });
  await ended;
  expect(writes).toEqual([]);
});

test("signs no second time for a pod whose status was lost, while the API server would take the first", async () => {
  const { client, writes } = memoryApi({ [podPath]: [podRequestJson(spec)] });
  let lost = 0;
  let seconds = 0;
  const losing: KubernetesClient = {
    ...client,
    send: async (request) => {
      const answer = await client.send(request);
      if (request.method === undefined || lost++ === 4) return answer;
      // The last loss lasts longer than a notBefore is taken for.
      if (lost === 4) seconds += 240;
      throw new FetchError("did not answer");
    },
  };
  const clock = () => new Date(ca.now().getTime() + 1000 * seconds++);
  start(losing, { pods: {} }, { clock, isAlone: true });
  await eventually(() => expect(counted).toEqual(["pod issued"]));
  const chains = writes.map(
    ({ body }) => (body as { status: { certificateChain: string } }).status.certificateChain,
  );
  expect(chains.length).toBe(5);
  expect(new Set(chains.slice(0, 4)).size).toBe(1);
  expect(chains[4]).not.toBe(chains[0]);
});

describe("of cert-manager", () => {
  const requestPath = "/apis/cert-manager.io/v1/certificaterequests";
  const issuers = "/apis/rampart.dev/v1";
  const rules = { cert_manager: [{ namespaces: ["shop"] }] };
  const issuer = {
    metadata: { name: "mesh", uid: "uid-of-mesh", generation: 3 },
    spec: { signerName: "mesh.example.com/workload" },
  };
  /** In a namespace for which no rule is. */
  const ofPay = { ...issuer, metadata: { namespace: "pay", name: "mesh", uid: "uid-of-pays" } };
  const clusterWith = (...requests: object[]) => ({
    [requestPath]: requests,
    [`${issuers}/rampartissuers`]: [ofPay],
    [`${issuers}/rampartclusterissuers`]: [issuer],
  });
  const own = { type: "url", value: "spiffe://cluster.local/ns/shop/sa/web" } as const;
  const ownCsr = async () => (await emptyCsr("P-256", [own])).pem;
  const statusesOf = (writes: readonly KubernetesRequest[], name: string) =>
    writes
      .filter(({ path }) => path.includes(`/certificaterequests/${name}/status?`))
      .map(({ body }) => (body as { status: object }).status);

  test("signs what is approved, refuses what is invalid, and ends what is denied", async () => {
    const csr = await ownCsr();
    const both = (await emptyCsr("P-256", [own, { type: "dns", value: "web.shop.svc" }])).pem;
    const named = (name: string, changes: object = {}) =>
      certManagerRequestJson(csr, { metadata: { name, uid: `uid-of-${name}` }, ...changes });
    const denied = { conditions: [{ type: "Denied", status: "True", reason: "a" }] };
    const { client, writes, listed } = memoryApi(
      clusterWith(
        named("good"),
        named("bad", { spec: { isCA: true } }),
        certManagerRequestJson(both, { metadata: { name: "both", uid: "uid-of-both" } }),
        named("denied", denied),
        { ...named("new"), status: {} },
      ),
    );
    // Until the issuers are listed, a request is not told that there is none.
    const listingLate: KubernetesClient["send"] = async (request) => {
      if (/^\/apis\/rampart.dev.*limit=250/.test(request.path))
        await eventually(() => expect(counted).toEqual(["cert-manager denied"]));
      return client.send(request);
    };
    const admitting = { cert_manager: [{ namespaces: ["shop"], dns_names: ["web.shop.svc"] }] };
    start({ ...client, send: listingLate }, admitting);
    const outcomes = ["denied", "failed", "failed", "issued"].map((end) => `cert-manager ${end}`);
    await eventually(() => expect(counted.toSorted()).toEqual(outcomes));
    expect(asks).toBe(2);
    const [good, ...none] = statusesOf(writes, "good");
    expect(none).toEqual([]);
    const { certificate, ca: roots } = good as { certificate: string; ca: string };
    expect(good).toMatchObject({
      conditions: [{ type: "Ready", status: "True", reason: "Issued" }],
    });
    expect(Buffer.from(roots, "base64").toString()).toBe("the roots");
    const { subjectAltName } = new X509Certificate(Buffer.from(certificate, "base64"));
    expect(subjectAltName).toBe(`URI:${own.value}`);
    const failureTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect(statusesOf(writes, "bad")).toMatchObject([
      {
        failureTime,
        conditions: [
          { type: "Ready", status: "False", reason: "Failed" },
          { type: "InvalidRequest", status: "True", reason: "UnsupportedCA" },
        ],
      },
    ]);
    // The CA gives the SPIFFE ID no DNS name.
    expect(statusesOf(writes, "both")).toMatchObject([
      { conditions: [{ reason: "Failed" }, { reason: "NameNotAllowed" }] },
    ]);
    expect(statusesOf(writes, "denied")).toMatchObject([
      { failureTime, conditions: [{ type: "Ready", status: "False", reason: "Denied" }] },
    ]);
    expect(statusesOf(writes, "new")).toEqual([]);
    expect(await log.until("certificate-request-issued")).toMatchObject({
      signer: "RampartClusterIssuer/mesh",
      request: "good",
      account: "shop/web",
    });
    expect(listed.filter((path) => path.startsWith(requestPath)).at(-1)).toContain(
      "?fieldSelector=spec.issuerRef.group%3Drampart.dev&",
    );
  });

  test("waits, and says so once, for the CA and for an issuer that is not there", async () => {
    const csr = await ownCsr();
    const orphan = { issuerRef: { group: "rampart.dev", kind: "RampartIssuer", name: "mesh" } };
    const pending = { type: "Ready", status: "False", reason: "Pending" };
    const { client, writes } = memoryApi(
      clusterWith(
        certManagerRequestJson(csr, {
          metadata: { name: "told" },
          spec: orphan,
          conditions: [pending],
        }),
        certManagerRequestJson(csr),
        certManagerRequestJson(csr, {
          metadata: { name: "orphan", uid: "uid-of-orphan" },
          spec: orphan,
        }),
      ),
    );
    let refuses = true;
    const source: CertificateSource = async (ask) => {
      if (refuses) throw new ConnectError("no certificate", Code.PermissionDenied);
      return issueFor(ca, ask);
    };
    start(client, rules, { source });
    for (const [name, why] of [
      ["cr-1", "waits for the CA"],
      ["orphan", "there is no such issuer"],
    ] as const) {
      const message = expect.stringContaining(why);
      await eventually(() =>
        expect(statusesOf(writes, name)).toContainEqual({
          conditions: [expect.objectContaining({ ...pending, message })],
        }),
      );
    }
    expect(statusesOf(writes, "told")).toEqual([]);
    expect(counted).toEqual([]);
    const reasons = (): unknown[] =>
      writes
        .filter(({ path }) => path.includes("/rampartclusterissuers/mesh/"))
        .map(({ body }) => Object(body).status.conditions[0].reason);
    await eventually(() => expect(reasons()).toContain("CaRefuses"));
    refuses = false;
    await eventually(() => expect(reasons().at(-1)).toBe("CaReached"));
  });

  test("reads no request before the roots are known: each poll would verify its signature again", async () => {
    const unread = certManagerRequestJson(await ownCsr(), { spec: { isCA: true } });
    const { client, writes } = memoryApi(clusterWith(unread));
    let roots: string | undefined;
    start(client, rules, { roots: () => roots });
    await eventually(() =>
      expect(statusesOf(writes, "cr-1")).toMatchObject([{ conditions: [{ reason: "Pending" }] }]),
    );
    roots = "the roots";
    await eventually(() => expect(counted).toEqual(["cert-manager failed"]));
  });

  test("answers although the condition of the issuer cannot be written, and says what it may", async () => {
    const { client, writes } = memoryApi(clusterWith(certManagerRequestJson(await ownCsr())));
    const ofIssuer = ({ path }: KubernetesRequest) => path.includes("/rampartclusterissuers/mesh/");
    const refusing: KubernetesClient = {
      ...client,
      send: async (request) => {
        const answer = await client.send(request);
        if (ofIssuer(request)) throw new FetchError("answered with status 403", { status: 403 });
        return answer;
      },
    };
    start(refusing, rules);
    await eventually(() => expect(counted).toEqual(["cert-manager issued"]));
    await eventually(() => expect(writes.filter(ofIssuer).length).toBeGreaterThan(0));
    expect(writes.find(ofIssuer)?.body).toMatchObject({
      kind: "RampartClusterIssuer",
      metadata: { uid: "uid-of-mesh" },
      status: {
        conditions: [
          {
            type: "Ready",
            status: "True",
            reason: "CaReached",
            message: "each account in shop may have its SPIFFE ID",
            observedGeneration: 3,
          },
        ],
      },
    });
    const unserved = ({ path }: KubernetesRequest) => path.includes("/pay/rampartissuers/mesh/");
    expect(writes.find(unserved)?.body).toMatchObject({
      status: { conditions: [{ status: "False", reason: "NamespaceNotServed" }] },
    });
  });

  /** The issuers of an API server, once they are listed, and the conditions that are written. */
  async function see(api: ReturnType<typeof memoryApi>, faults: readonly string[] = []) {
    const { signers } = configurationOf(rules);
    const known = { caFaults: () => faults, clock: () => new Date("2026-02-01T00:00:00Z") };
    const seen = new Issuers({
      ...{ client: api.client, signers, ...known, signal: ending.signal },
      failed: (error) => expect(error).toBeUndefined(),
    });
    await eventually(() => expect(seen.hasAll()).toBe(true));
    const report = async (): Promise<readonly unknown[][]> => {
      await seen.report();
      return api.writes.splice(0).map(({ path, body }) => {
        const [, name] = /issuers\/(\w+)\//.exec(path) ?? [];
        return [name, Object(body).status.conditions[0]];
      });
    };
    return { seen, report };
  }

  test("the condition of an issuer is written when it changes, with the instant at which its status did", async () => {
    const right = {
      type: "Ready",
      status: "True",
      reason: "CaReached",
      message: "each account in shop may have its SPIFFE ID",
      observedGeneration: 3,
      lastTransitionTime: "2026-01-01T00:00:00Z",
    };
    const named = (name: string, change: object = {}) => ({
      ...issuer,
      metadata: { ...issuer.metadata, name, uid: `uid-of-${name}` },
      status: { conditions: [{ ...right, ...change }] },
    });
    const changed = [
      named("message", { message: "a" }),
      named("reason", { reason: "a" }),
      named("generation", { observedGeneration: 2 }),
      named("status", { status: "False" }),
    ];
    const cluster = { [`${issuers}/rampartclusterissuers`]: [named("same"), ...changed] };
    const faults: string[] = [];
    const { report } = await see(memoryApi({ ...clusterWith(), ...cluster }), faults);
    const lastTransitionTime = "2026-02-01T00:00:00Z";
    expect((await report()).slice(1)).toEqual([
      ...["message", "reason", "generation"].map((name) => [name, right]),
      ["status", { ...right, lastTransitionTime }],
    ]);
    faults.push("away");
    const unreachable = { status: "False", reason: "CaUnreachable", message: "away" };
    expect((await report())[1]).toEqual(["same", { ...right, ...unreachable, lastTransitionTime }]);
  });

  test("an issuer says why the CA refuses, until it answers, and says nothing of a CA that is away", async () => {
    const { seen, report } = await see(memoryApi(clusterWith()));
    const mesh = seen.find("shop", { kind: "RampartClusterIssuer", name: "mesh" });
    if (!mesh) throw new Error("no issuer");
    const reasonAfter = async (error?: ConnectError): Promise<unknown> => {
      seen.note(mesh, error);
      return Object((await report()).at(-1)?.[1]).reason;
    };
    const [away, no] = [Code.Unavailable, Code.PermissionDenied].map(
      (code) => new ConnectError("no certificate", code),
    );
    expect(await reasonAfter(away)).toBe("CaReached");
    expect(await reasonAfter(no)).toBe("CaRefuses");
    expect(await reasonAfter(away)).toBe("CaRefuses");
    expect(await reasonAfter()).toBe("CaReached");
  });

  test("asks for nothing while the CRDs are missing", async () => {
    const { client } = memoryApi({ [requestPath]: [certManagerRequestJson(await ownCsr())] });
    start(client, rules);
    expect(await log.until("not-served")).toMatchObject({ signer: "rampart.dev" });
    expect(asks).toBe(0);
  });
});
