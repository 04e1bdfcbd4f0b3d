import { type Client, Code, ConnectError } from "@connectrpc/connect";
import { beforeEach, expect, test } from "vitest";
import { createJwtProfile } from "../../../src/agent/sockets/workload-api.ts";
import { SpiffeWorkloadAPI } from "../../../src/gen/spiffe/workload_pb.ts";
import { JwtSvidKeys } from "../../../src/pki/jose/jwt-svid-keys.ts";
import {
  createJwtAuthority,
  type JwtAuthority,
  subject,
} from "../../testkit/agent/jwt-authority.ts";
import {
  refusalOf,
  security,
  serveRpcs,
  workloadApiClient,
} from "../../testkit/agent/sds-client.ts";
import { verifiedByNode } from "../../testkit/callers/token-oracle.ts";
import { createTokenKey, mintToken } from "../../testkit/callers/tokens.ts";
import { clusterLocal, trustDomain, workload } from "../../testkit/pki/certificates.ts";

const ownDomain = "spiffe://cluster.local";

let authority: JwtAuthority;
let client: Client<typeof SpiffeWorkloadAPI>;
beforeEach(async () => {
  authority = await createJwtAuthority();
  client = await serve({ spiffeId: subject });
});

/** Serves the profile to a workload, or without an identity to a node proxy. */
async function serve(identity: { spiffeId: typeof subject } | undefined) {
  const { jwtSvids, jwtBundles } = authority;
  const profile = createJwtProfile({
    trustDomain: clusterLocal,
    jwtSvids,
    jwtBundles,
    identity,
    identities: { find: (name) => (name === subject ? { spiffeId: subject } : undefined) },
    clock: () => authority.now,
  });
  return workloadApiClient(await serveRpcs((router) => router.service(SpiffeWorkloadAPI, profile)));
}

const keySetIn = (document: Uint8Array = new Uint8Array()) =>
  JSON.parse(new TextDecoder().decode(document));

test("a workload gets a token that node:crypto verifies by the bundle of the same socket", async () => {
  const { svids } = await client.fetchJWTSVID({ audience: ["a", "b"] }, security);
  expect(svids).toMatchObject([{ spiffeId: subject, hint: "" }]);
  for await (const { bundles } of client.fetchJWTBundles({}, security)) {
    expect(Object.keys(bundles)).toEqual([ownDomain]);
    const verified = verifiedByNode(svids[0]?.svid ?? "", keySetIn(bundles[ownDomain]));
    expect(verified?.claims).toMatchObject({ aud: ["a", "b"], sub: subject });
    break;
  }
});

test("the stream has all bundles at once, the federation's too, and again at each change", async () => {
  const other = { ...(await createTokenKey("RS256", "other-1")).publicJwk, use: "jwt-svid" };
  const seen: string[][] = [];
  for await (const { bundles } of client.fetchJWTBundles({}, security)) {
    seen.push(
      Object.entries(bundles).flatMap(([domain, set]) =>
        keySetIn(set).keys.map(({ kid }: { kid: string }) => `${domain} ${kid}`),
      ),
    );
    if (seen.length === 1) {
      authority.publish(authority.key);
      authority.jwtBundles.update(trustDomain("other.test"), JwtSvidKeys.in([other]));
    }
    if (seen.length === 2) authority.publish();
    if (seen.length === 3) break;
  }
  expect(seen).toEqual([
    [`${ownDomain} key-1`],
    [`${ownDomain} key-1`, "spiffe://other.test other-1"],
    ["spiffe://other.test other-1"],
  ]);
});

test("a token is validated for an audience, and its claims are told", async () => {
  const { svids } = await client.fetchJWTSVID({ audience: ["a", "b"] }, security);
  const { svid = "" } = svids[0] ?? {};
  const answer = await client.validateJWTSVID({ audience: "b", svid }, security);
  expect(answer).toMatchObject({ spiffeId: subject, claims: { aud: ["a", "b"], sub: subject } });
  const wrong = [
    ["c", svid],
    ["a", `${svid}x`],
    ["a", ""],
    ["", svid],
  ] as const;
  for (const [audience, token] of wrong) {
    const refused = await refusalOf(client.validateJWTSVID({ audience, svid: token }, security));
    expect(refused).toMatch(/^InvalidArgument: /);
  }
});

test("a federated token is validated by its own domain's keys alone", async () => {
  const foreign = await createTokenKey("ES256", "key-1");
  const seconds = Math.floor(authority.now.getTime() / 1000);
  const sign = (sub: string) => mintToken(foreign, { sub, aud: "a", exp: seconds + 60 });
  const published = [{ ...foreign.publicJwk, use: "jwt-svid" }];
  authority.jwtBundles.update(trustDomain("other.test"), JwtSvidKeys.in(published));
  const own = { audience: "a", svid: await sign("spiffe://other.test/x") };
  expect((await client.validateJWTSVID(own, security)).spiffeId).toBe("spiffe://other.test/x");
  for (const sub of [subject, "spiffe://third.test/x"]) {
    const forged = client.validateJWTSVID({ audience: "a", svid: await sign(sub) }, security);
    expect(await refusalOf(forged)).toMatch(/^InvalidArgument: /);
  }
});

test("no audience, nine, an empty and a long one never reach the CA", async () => {
  const nine = Array.from({ length: 9 }, (_, i) => `${i}`);
  for (const audience of [[], [""], nine, ["x".repeat(256)]]) {
    const refused = await refusalOf(client.fetchJWTSVID({ audience }, security));
    expect(refused).toMatch(/^InvalidArgument: name 1 to 8 audiences/);
  }
  expect(authority.requests).toHaveLength(0);
});

test("a code of the CA becomes one that a workload understands", async () => {
  for (const [code, told] of [
    [Code.InvalidArgument, "InvalidArgument"],
    [Code.Unimplemented, "Unimplemented"],
    [Code.PermissionDenied, "PermissionDenied"],
    [Code.Unauthenticated, "PermissionDenied"],
    [Code.FailedPrecondition, "Unavailable"],
  ] as const) {
    authority.refusal = new ConnectError("the CA's sentence", code);
    const refused = await refusalOf(client.fetchJWTSVID({ audience: [`${code}`] }, security));
    expect(refused).toContain(`${told}: there is no token for ${code}: `);
    expect(refused).toContain("the CA's sentence");
  }
});

test("a workload may name itself and as many audiences as the CA takes, and gets no token of another", async () => {
  const audience = Array.from({ length: 8 }, (_, i) => `${i}`.repeat(255));
  const { svids } = await client.fetchJWTSVID({ audience, spiffeId: subject }, security);
  expect(svids).toMatchObject([{ spiffeId: subject }]);
  const others = workload("foo", "other");
  const call = client.fetchJWTSVID({ audience: ["a"], spiffeId: others }, security);
  expect(await refusalOf(call)).toMatch(/^PermissionDenied: /);
  expect(authority.requests).toHaveLength(1);
});

test("a node proxy names one of the node's workloads", async () => {
  authority = await createJwtAuthority(true);
  client = await serve(undefined);
  const ask = (spiffeId: string) =>
    refusalOf(client.fetchJWTSVID({ audience: ["a"], spiffeId }, security));
  expect(await ask(subject)).toBe("no error");
  expect(authority.requests[0]?.spiffeId).toBe(subject);
  expect(await ask("")).toMatch(/^InvalidArgument: /);
  expect(await ask(workload("foo", "other"))).toMatch(/^PermissionDenied: /);
});

test("without the CA's bundle nothing is served or validated, and the code asks for a retry", async () => {
  const { jwtBundles, ...rest } = await createJwtAuthority();
  const empty = new (jwtBundles.constructor as new () => typeof jwtBundles)();
  authority = { ...rest, jwtBundles: empty };
  client = await serve({ spiffeId: subject });
  const streamed = client.fetchJWTBundles({}, security)[Symbol.asyncIterator]().next();
  expect(await refusalOf(streamed)).toMatch(/^Unavailable: /);
  const validated = client.validateJWTSVID({ audience: "a", svid: "b" }, security);
  expect(await refusalOf(validated)).toMatch(/^Unavailable: /);
});
