import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type CertificateCall,
  grpcWeb,
  outcomeOf,
  type Protocol,
  protocols,
  requestOf,
} from "../../contract/rpc-calls.ts";
import { type RunningCa, startCa } from "../../testkit/ca/running-ca.ts";
import { startSigningCa } from "../../testkit/ca/tainted-ca.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import {
  apiCredential,
  type FakeApiServer,
  goodReview,
  startApiServer,
} from "../../testkit/kubernetes/api-server.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { refusalIn } from "../../testkit/refusal.ts";

/** A cluster among others: its issuer, and the proof that its tokens need. */
interface Cluster {
  readonly name: string;
  readonly issuer: string;
  readonly review?: "after-keys" | "before-keys" | "instead-of-keys";
}

/** The issuers of some have almost the name of the first. */
const clusters: readonly Cluster[] = [
  { name: "a", issuer: "https://a.test" },
  { name: "slash", issuer: "https://a.test/" },
  { name: "port", issuer: "https://a.test:443", review: "after-keys" },
  { name: "case", issuer: "https://A.test", review: "before-keys" },
  { name: "api", issuer: "https://api.test", review: "instead-of-keys" },
];
/** Each pair of them, over one of the protocols. */
const pairs = clusters
  .flatMap((one) => clusters.filter((other) => other !== one).map((other) => ({ one, other })))
  .map((pair, i) => ({ ...pair, protocol: protocols[i % protocols.length] ?? grpcWeb }));

const keys = new Map<string, TokenKey>();
const servers = new Map<string, FakeApiServer>();
let running: RunningCa;
let csr: string;

const keyOf = ({ name }: Cluster): TokenKey => keys.get(name) as TokenKey;

beforeAll(async () => {
  csr = (await createWorkload()).csrPem;
  for (const { name } of clusters) {
    // All keys have one id: only the key itself tells them apart.
    keys.set(name, await createTokenKey("ES256", "k1"));
    servers.set(name, await startApiServer());
  }
  running = await startSigningCa({
    ISSUERS: clusters.map(tableOf),
    SIGNERS: clusters.map(({ name, issuer }) => ({
      name: `${name}-signer`,
      callers: [{ issuer }],
    })),
    ...Object.fromEntries(clusters.map((each) => [credentialOf(each), apiCredential])),
  });
  for (const each of clusters) {
    const server = servers.get(each.name) as FakeApiServer;
    server.review = (token) => reviewOf(each, token);
    const pod = { uid: "2d5b7f6a-0f0e-4bb5-8a3f-6a0f2f3c4d21", node: "node-1" };
    server.pods.push(
      { ...pod, namespace: `${each.name}-mesh`, name: "ztunnel-0", account: "ztunnel" },
      { ...pod, namespace: `${each.name}-shop`, name: "web-0", account: "web" },
    );
  }
});

afterAll(async () => {
  for (const server of servers.values()) await server.close();
});

const credentialOf = ({ name }: Cluster): string => `CLUSTER_CREDENTIAL_${name.toUpperCase()}`;

/** Every cluster has namespaces of its own, and one that all share. */
function tableOf(cluster: Cluster): Record<string, unknown> {
  const { name, issuer, review } = cluster;
  const server = servers.get(name)?.origin;
  return {
    issuer,
    cluster: name,
    cluster_aliases: [`${name}-alias`],
    namespaces: [`${name}-*`, "shared"],
    trusted_node_accounts: [`${name}-mesh/ztunnel`, `shared/${name}-ztunnel`],
    node_reach: "anywhere",
    gateways: [{ account: `shared/${name}-gateway`, dns_names: [`${name}.test`] }],
    ...(review !== "instead-of-keys" && { jwks: jwksOf(keyOf(cluster)) }),
    ...(review && { kubernetes: { server, credential: credentialOf(cluster), review } }),
  };
}

/** An API server accepts the tokens of its own cluster. */
function reviewOf(cluster: Cluster, token: string): unknown {
  const claims = JSON.parse(atob(token.split(".")[1] ?? ""));
  const [, , namespace, name] = claims.sub.split(":");
  return mintedBy.get(token) === cluster.name ? goodReview(`${namespace}:${name}`) : { user: {} };
}

const mintedBy = new Map<string, string>();

async function tokenOf(cluster: Cluster, account: string, changes = {}): Promise<string> {
  const { issuer } = cluster;
  const token = await mintAccountToken(keyOf(cluster), issuer, account, running.now(), changes);
  mintedBy.set(token, cluster.name);
  return token;
}

interface Attempt {
  readonly token: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly metadata?: Readonly<Record<string, string>>;
}

async function send(protocol: Protocol, { token, headers, metadata }: Attempt): Promise<Response> {
  const call: CertificateCall = { csr, ...(metadata && { metadata }) };
  const all = { authorization: `Bearer ${token}`, ...headers };
  return running.app.fetch(requestOf(protocol, call, all));
}

/** Everything of an answer that its caller can see. */
async function seenOf(response: Response): Promise<string> {
  const { status, headers } = response;
  const body = Buffer.from(await response.arrayBuffer()).toString("latin1");
  return JSON.stringify([status, [...headers], body]);
}

/** The answers to refused attempts by protocol, code and message: one answer for each. */
const seen = new Map<string, Set<string>>();

const rejected = (check: string): string => `credential-rejected ${check}`;

/** The attempt ends so: by its code, and by one of these reasons of the audit line. */
async function expectRefused(
  protocol: Protocol,
  attempt: Attempt,
  code: string,
  ...reasons: readonly string[]
): Promise<void> {
  running.log.audits.length = 0;
  const response = await send(protocol, attempt);
  const copy = response.clone();
  const outcome = await outcomeOf(protocol, response);
  expect(outcome).toMatchObject({ code });
  expect(reasons).toContain(running.log.audits.map(refusalIn).join());
  const key = `${protocol.name} ${code} ${"message" in outcome && outcome.message}`;
  seen.set(key, (seen.get(key) ?? new Set()).add(await seenOf(copy)));
}

const spiffeId = (account: string) => `spiffe://cluster.local/ns/${account.replace(":", "/sa/")}`;

describe.each(clusters)("the cluster $name", (cluster) => {
  const { name, issuer } = cluster;

  test.each(protocols)("gets its own certificates over $name", async (protocol) => {
    const workload = await tokenOf(cluster, `${name}-shop:web`);
    const proxy = await tokenOf(cluster, `${name}-mesh:ztunnel`);
    const gateway = await tokenOf(cluster, `shared:${name}-gateway`);
    const attempts: Attempt[] = [
      { token: workload },
      { token: workload, headers: { clusterid: name } },
      { token: workload, headers: { clusterid: `${name}-alias` } },
      { token: proxy, metadata: { ImpersonatedIdentity: spiffeId(`${name}-shop:web`) } },
      { token: gateway, metadata: { CertSigner: "serving" } },
    ];
    for (const attempt of attempts) {
      const outcome = await outcomeOf(protocol, await send(protocol, attempt));
      expect(outcome).toMatchObject({ certChain: [expect.any(String), expect.any(String)] });
    }
  });

  test.each<[string, string]>([
    ["a slash more", `${issuer}/`],
    ["upper case", issuer.toUpperCase()],
    ["another port", issuer.replace(".test", ".test:8443")],
    ["a look-alike letter", issuer.replace(/a/i, "\u0430")],
    ["a user", issuer.replace("https://", "https://a@")],
  ])("gets nothing under its name with %s", async (_, iss) => {
    // Another cluster has one of these names, with a key of its own.
    const token = await tokenOf(cluster, `${name}-shop:web`, { iss });
    const reasons = ["issuer", "signature"].map(rejected);
    await expectRefused(grpcWeb, { token }, "Unauthenticated", ...reasons);
  });
});

describe.each(pairs)(
  "the cluster $one.name may not use, of $other.name, over $protocol.name,",
  ({ one, other, protocol }) => {
    const refuse = (attempt: Attempt, ...checks: string[]): Promise<void> =>
      expectRefused(protocol, attempt, "Unauthenticated", ...checks.map(rejected));
    const deny = (attempt: Attempt, reason: string): Promise<void> =>
      expectRefused(protocol, attempt, "PermissionDenied", reason);

    test("the issuer", async () => {
      const iss = other.issuer;
      const token = await tokenOf(one, `${other.name}-shop:web`, { iss });
      await refuse({ token }, "signature", "review");
      await refuse({ token, headers: { clusterid: other.name } }, "signature", "review");
      const shared = await tokenOf(one, "shared:web", { iss });
      await refuse({ token: shared }, "signature", "review");
    });

    test("the namespaces", async () => {
      for (const account of [`${other.name}-shop:web`, `${other.name}-mesh:ztunnel`]) {
        await refuse({ token: await tokenOf(one, account) }, "namespace");
      }
    });

    test("the clusterid", async () => {
      const token = await tokenOf(one, `${one.name}-shop:web`);
      for (const clusterid of [other.name, `${other.name}-alias`]) {
        await refuse({ token, headers: { clusterid } }, "cluster");
      }
    });

    test("the node accounts", async () => {
      const own = { ImpersonatedIdentity: spiffeId(`${one.name}-shop:web`) };
      const theirs = { ImpersonatedIdentity: spiffeId(`${other.name}-shop:web`) };
      const proxy = await tokenOf(one, `${one.name}-mesh:ztunnel`);
      await deny({ token: proxy, metadata: theirs }, "impersonation-denied namespace");
      // The other cluster trusts this name of an account, this one does not.
      const namesake = await tokenOf(one, `shared:${other.name}-ztunnel`);
      await deny({ token: namesake, metadata: theirs }, "impersonation-denied account");
      await deny({ token: namesake, metadata: own }, "impersonation-denied account");
    });

    test("the gateways, for their names or for what they forward", async () => {
      const namesake = await tokenOf(one, `shared:${other.name}-gateway`);
      await expectRefused(
        protocol,
        { token: namesake, metadata: { CertSigner: "serving" } },
        "InvalidArgument",
        "signer-unknown",
      );
      const token = await tokenOf(one, `shared:${one.name}-gateway`);
      const headers = {
        "x-forwarded-client-cert": `URI=${spiffeId(`${other.name}-shop:web`)}`,
      };
      await refuse({ token, headers }, "authority");
    });

    test("the signer", async () => {
      const token = await tokenOf(one, `${one.name}-shop:web`);
      const metadata = { CertSigner: `${other.name}-signer` };
      await deny({ token, metadata }, "signer-denied");
      const shared = await tokenOf(one, "shared:web");
      await deny({ token: shared, metadata }, "signer-denied");
    });

    test("the tokens, which its API server never sees", async () => {
      const server = servers.get(one.name) as FakeApiServer;
      const before = server.asked.length;
      const token = await tokenOf(other, `${other.name}-shop:web`);
      await refuse({ token, headers: { clusterid: one.name } }, "cluster");
      expect(server.asked).toHaveLength(before);
    });
  },
);

test("an issuer that redirects to the keys of another has none", async () => {
  const [cluster] = clusters as [Cluster];
  const jwks = await startLoopbackServer((_, response) => {
    response.end(JSON.stringify(jwksOf(keyOf(cluster))));
  });
  const issuer = await startLoopbackServer((_, response) => {
    response.writeHead(302, { location: jwks.origin }).end();
  });
  const ca = await startCa({ ISSUERS: [{ issuer: issuer.origin }, tableOf(cluster)] });
  await ca.found();
  const token = await tokenOf(cluster, "a-shop:web", { iss: issuer.origin });
  for (const protocol of protocols) {
    const request = requestOf(protocol, { csr }, { authorization: `Bearer ${token}` });
    const outcome = await outcomeOf(protocol, await ca.app.fetch(request));
    expect(outcome).toMatchObject({ code: "Unavailable" });
    expect(ca.log.audits.map(refusalIn)).toEqual(["key-provider-unreachable"]);
    ca.log.audits.length = 0;
  }
  expect(jwks.requests).toEqual([]);
});

test("refusals are the same for every cluster, to the byte", () => {
  expect([...seen.values()].map(({ size }) => size)).toEqual(protocols.flatMap(() => [1, 1, 1, 1]));
});
