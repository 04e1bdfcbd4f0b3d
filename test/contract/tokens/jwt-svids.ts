import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { decodeProtectedHeader, type JSONWebKeySet } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { JwtSvidService } from "../../../src/gen/rampart/jwt/v1/jwt_svid_pb.ts";
import { type PublishedKeys, verifiedByNode } from "../../testkit/callers/token-oracle.ts";
import { mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { endOf, refusalIn } from "../../testkit/refusal.ts";
import { bearer, callWithClient, connectBinary, protocols } from "../rpc-calls.ts";
import { issuers, issuerTables, origin, type ServiceUnderTest } from "../service-under-test.ts";

/** The `iss` of a service under test: it has a path, as a tenant's has. */
export const ownIssuer = "https://id.test/mesh";

/** The keys of a configuration, beside the keys of the issuers. Those of `team` may have no token. */
export const tokenValues = {
  JWT_ISSUER: ownIssuer,
  ISSUERS: [
    { ...issuerTables.cluster, jwt_audiences: ["sts.amazonaws.com", "https://vault.*"] },
    issuerTables.team,
  ],
};

/** A service with {@link tokenValues}, the keys of the issuers, and these values. */
export type StartTokens = (
  values: Readonly<Record<string, unknown>>,
) => Promise<ServiceUnderTest & { readonly end?: () => Promise<void> }>;

interface Asked {
  readonly audiences?: string[];
  readonly lifetimeSeconds?: bigint;
  readonly spiffeId?: string;
}

type Answer =
  | { readonly token: string; readonly spiffeId: string; readonly expiresAt: bigint }
  | { readonly code: string; readonly message: string };

const aws = "sts.amazonaws.com";
const workload = "spiffe://cluster.local/ns/foo/sa/bar";

/** What JWT-SVIDs are on every platform. */
export function describeJwtSvids(start: StartTokens): void {
  let service: Awaited<ReturnType<StartTokens>>;

  beforeAll(async () => {
    service = await start({});
  });
  afterAll(() => service.end?.());

  async function ask(
    { audiences = [aws], ...others }: Asked = {},
    { account, issuer, protocol = connectBinary }: Caller = {},
  ): Promise<Answer> {
    const client = createClient(JwtSvidService, protocol.transport(service));
    const headers = await bearer(service, account, issuer);
    try {
      const { token, spiffeId, expiresAt } = await client.createJwtSvid(
        { audiences, ...others },
        { headers },
      );
      return { token, spiffeId, expiresAt };
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error;
      return { code: Code[error.code] ?? "", message: error.rawMessage };
    }
  }

  const tokenIn = (answer: Answer): string => {
    if ("token" in answer) return answer.token;
    throw new Error(answer.message);
  };

  const get = (path: string, headers: HeadersInit = {}) =>
    service.send(new Request(`${origin}${path}`, { headers }));

  async function verified(token: string) {
    const found = await get("/mesh/.well-known/jwks.json");
    const { header, claims } = verifiedByNode(token, (await found.json()) as PublishedKeys) ?? {};
    if (!header || !claims) throw new Error("node:crypto refuses the token");
    expect(claims).toMatchObject({ iss: ownIssuer, aud: expect.arrayContaining([aws]) });
    return { header, claims };
  }

  async function exchange(
    form: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>> = {},
  ) {
    const body = new URLSearchParams(form);
    return service.send(new Request(`${origin}/token`, { method: "POST", headers, body }));
  }

  const exchangeForm = async () => ({
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token: await mintAccountToken(service.key, issuers.cluster, "foo:bar", service.now()),
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    audience: aws,
  });

  describe("CreateJwtSvid", () => {
    test.each(protocols)(
      "answers a token that node:crypto verifies, over $name",
      async (protocol) => {
        const answer = await ask({ audiences: [aws, "https://vault.test"] }, { protocol });
        const { claims, header } = await verified(tokenIn(answer));
        expect(claims).toEqual({
          iss: ownIssuer,
          sub: workload,
          aud: [aws, "https://vault.test"],
          iat: expect.any(Number),
          // A tenth of its life before it is issued, as notBefore.
          exp: Number(claims["iat"]) + 330,
          jti: expect.stringMatching(/^01[0-9a-f]{32}$/),
        });
        expect(header).toEqual({
          alg: "ES256",
          typ: "JWT",
          kid: expect.stringMatching(/^[0-9a-f]{64}$/),
        });
        expect(answer).toMatchObject({
          spiffeId: workload,
          expiresAt: BigInt(Number(claims["exp"])),
        });
      },
    );

    test("leaves an audit event that names everything but the token", async () => {
      service.takeAudits();
      const token = tokenIn(await ask());
      const [event] = service.takeAudits();
      const { claims, header } = await verified(token);
      expect(event).toMatchObject({
        event: "create-token",
        outcome: "issued",
        spiffeId: workload,
        audiences: [aws],
        serialNumber: claims["jti"],
        authority: header["kid"],
      });
      expect(JSON.stringify(event)).not.toContain(token.slice(-20));
    });

    test("gives a node proxy the token of a workload, and nobody else", async () => {
      const spiffeId = "spiffe://cluster.local/ns/foo/sa/other";
      const proxied = await ask({ spiffeId }, { account: "istio-system:ztunnel" });
      expect((await verified(tokenIn(proxied))).claims["sub"]).toBe(spiffeId);
      expect(await ask({ spiffeId })).toEqual({
        code: "PermissionDenied",
        message: "caller may not request this identity",
      });
    });

    const malformed = ["InvalidArgument", "token request rejected", "token-request-malformed"];
    const ofAudience = ["PermissionDenied", "audience", "audience-denied"];
    test.each<[string, Asked, readonly string[]]>([
      ["a forbidden audience", { audiences: ["x"] }, ofAudience],
      ["a good and a bad one", { audiences: [aws, "x"] }, ofAudience],
      ["no audience", { audiences: [] }, malformed],
      ["a space in one", { audiences: ["a b"] }, malformed],
      ["nine", { audiences: Array(9).fill(aws) }, malformed],
      [
        "a longer life",
        { lifetimeSeconds: 3601n },
        ["InvalidArgument", "must not exceed 3600s", "lifetime-too-long"],
      ],
      [
        "no SPIFFE ID",
        { spiffeId: "foo" },
        ["PermissionDenied", "identity", "impersonation-denied account"],
      ],
    ])("refuses %s", async (_, asked, [code, message = "", reason]) => {
      service.takeAudits();
      const answer = await ask(asked);
      expect(answer).toMatchObject({ code, message: expect.stringContaining(message) });
      expect(service.takeAudits().map(refusalIn)).toEqual([reason]);
    });

    test("gives nothing away about audiences: those of others, and unknown ones, are one answer", async () => {
      const refused = await ask(
        { audiences: [aws] },
        { issuer: issuers.team, account: "team-a:b" },
      );
      expect(refused).toEqual(await ask({ audiences: ["https://nobody.test"] }));
    });

    test("a JWT-SVID is no credential for a certificate or for another token", async () => {
      const token = tokenIn(await ask({ audiences: [aws] }));
      const { csrPem: csr } = await createWorkload();
      const headers = { authorization: `Bearer ${token}` };
      const call = () => callWithClient(connectBinary, service, { csr }, headers);
      expect(await endOf(service, call)).toBe("Unauthenticated credential-rejected issuer");
      const form = { ...(await exchangeForm()), subject_token: token };
      expect((await exchange(form)).status).toBe(400);
    });
  });

  test.each(["ns/foo/sa/b*", "token/jti-7"])(
    "a denied %s gets no token by CreateJwtSvid, and none by POST /token",
    async (subject) => {
      const since = new Date(service.now().getTime() - 60_000).toISOString();
      const denying = await start({ DENIED: [{ subject, since }] });
      const { key, now } = denying;
      const jti = "jti-7";
      const token = await mintAccountToken(key, issuers.cluster, "foo:bar", now(), { jti });
      const client = createClient(JwtSvidService, connectBinary.transport(denying));
      const headers = { authorization: `Bearer ${token}` };
      denying.takeAudits();
      const asking = client.createJwtSvid({ audiences: [aws] }, { headers });
      await expect(asking).rejects.toMatchObject({ code: Code.PermissionDenied });
      const form = { ...(await exchangeForm()), subject_token: token };
      const response = await denying.send(
        new Request(`${origin}/token`, { method: "POST", body: new URLSearchParams(form) }),
      );
      expect(await response.json()).toMatchObject({ error: "unauthorized_client" });
      const reasons = denying.takeAudits().map(refusalIn);
      expect(reasons).toEqual([`denied ${subject}`, `denied ${subject}`]);
      await denying.end?.();
    },
  );

  describe("POST /token", () => {
    test("exchanges a caller's token (RFC 8693)", async () => {
      const response = await exchange(await exchangeForm());
      expect(response.status).toBe(200);
      expect(response.headers.get("cache-control")).toBe("no-store");
      const answer = (await response.json()) as Record<string, string>;
      expect(answer).toEqual({
        access_token: expect.any(String),
        issued_token_type: "urn:ietf:params:oauth:token-type:jwt",
        token_type: "N_A",
        expires_in: expect.any(Number),
      });
      expect((await verified(answer["access_token"] ?? "")).claims["sub"]).toBe(workload);
    });

    test.each<[string, Record<string, string>, number, string, string?]>([
      ["a forbidden audience", { audience: "x" }, 400, "invalid_target", "audience-denied"],
      [
        "a bad token",
        { subject_token: "a.b.c" },
        400,
        "invalid_request",
        "credential-rejected form",
      ],
      ["no token", { subject_token: "" }, 400, "invalid_request"],
      ["another grant", { grant_type: "password" }, 400, "unsupported_grant_type"],
      ["another type", { requested_token_type: "urn:x" }, 400, "invalid_request"],
    ])("refuses %s", async (_, change, status, error, reason = "token-request-malformed") => {
      service.takeAudits();
      const response = await exchange({ ...(await exchangeForm()), ...change });
      expect(response.status).toBe(status);
      expect(await response.json()).toMatchObject({ error });
      expect(service.takeAudits().map(refusalIn)).toEqual([reason]);
    });

    test("refuses a form without a grant, and a token with more behind it", async () => {
      const { grant_type, ...form } = await exchangeForm();
      const more = { ...form, grant_type, subject_token: `${form.subject_token},x` };
      for (const refused of [form, more]) {
        const response = await exchange(refused);
        expect([response.status, await response.json()]).toMatchObject([
          400,
          { error: "invalid_request" },
        ]);
      }
    });

    test("takes a parameter without a value for none (RFC 6749 §3.2)", async () => {
      const empty = { resource: "", scope: "", requested_token_type: "" };
      const response = await exchange({ ...(await exchangeForm()), ...empty });
      expect(response.status).toBe(200);
    });

    test("refuses what is no form", async () => {
      for (const method of ["GET", "POST"]) {
        const request = new Request(`${origin}/token`, {
          method,
          headers: { authorization: `Bearer ${(await exchangeForm()).subject_token}` },
        });
        expect((await service.send(request)).status).toBe(400);
      }
    });

    test("takes no header for a proof beside the subject token", async () => {
      const { subject_token: _, ...form } = await exchangeForm();
      expect((await exchange(form, await bearer(service))).status).toBe(400);
    });
  });

  test("a rule allows tokens for its audiences alone, over every protocol", async () => {
    const rules = [
      { name: "cloud", when: { product: "token" }, then: { audiences: ["sts.*"] } },
      { name: "others", then: { deny: "closed" } },
    ];
    const usual = service;
    service = await start({ POLICY: { rules } });
    const audiences = [aws, "https://vault.test"];
    for (const protocol of protocols) {
      service.takeAudits();
      expect(await ask({}, { protocol })).toMatchObject({ spiffeId: workload });
      const proxy = { account: "istio-system:ztunnel", protocol };
      const forbidden = await ask({ audiences, spiffeId: workload }, proxy);
      const [issued, refused] = service.takeAudits();
      expect(issued).toMatchObject({ rule: "cloud", effect: "same", audiences: [aws] });
      expect(refused).toMatchObject({
        reason: "audience-denied",
        check: "cloud",
        rule: "cloud",
        effect: "denied",
        detail: "the rule cloud allows no such audience",
        asked: { product: "token", audiences, namespace: "foo", account: "bar" },
      });
      expect(forbidden).toEqual({
        code: "PermissionDenied",
        message: "caller may not request this audience",
      });
      expect(await ask({ audiences: ["https://nobody.test"] }, { protocol })).toEqual(forbidden);
    }
    await service.end?.();
    service = usual;
  });

  describe("the documents", () => {
    test("are those of OpenID Connect, below the issuer's path, with a tag", async () => {
      const response = await get("/mesh/.well-known/openid-configuration");
      expect(await response.json()).toEqual({
        issuer: ownIssuer,
        jwks_uri: `${ownIssuer}/.well-known/jwks.json`,
        response_types_supported: ["id_token"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["ES256"],
      });
      for (const name of ["openid-configuration", "jwks.json"]) {
        const path = `/mesh/.well-known/${name}`;
        const found = await get(path);
        expect(found.headers.get("cache-control")).toBe("public, max-age=300");
        const headers = { "if-none-match": found.headers.get("etag") ?? "" };
        expect((await get(path, headers)).status).toBe(304);
      }
      expect((await get("/.well-known/openid-configuration")).status).toBe(404);
    });

    test("have the key of a token for relying parties, and for SPIFFE beside the roots", async () => {
      const { kid } = decodeProtectedHeader(tokenIn(await ask()));
      const { keys } = (await (await get("/mesh/.well-known/jwks.json")).json()) as JSONWebKeySet;
      expect(keys.find((key) => key.kid === kid)).toMatchObject({ use: "sig", alg: "ES256" });
      const bundle = (await (await get("/bundle.json")).json()) as JSONWebKeySet;
      const own = bundle.keys.find((key) => key.kid === kid);
      expect(own).toMatchObject({ use: "jwt-svid", kty: "EC" });
      expect(own).not.toHaveProperty("d");
      const [, ...roots] = (await (await get("/bundle.pem")).text()).split("BEGIN");
      expect(bundle.keys.filter(({ use }) => use === "x509-svid")).toHaveLength(roots.length);
    });
  });
}

interface Caller {
  readonly account?: string;
  readonly issuer?: string;
  readonly protocol?: (typeof protocols)[number];
}

/** A service without an issuer of tokens has none of their doors. */
export function describeNoJwtSvids(start: StartTokens): void {
  test("issues no token without JWT_ISSUER", async () => {
    const service = await start({ JWT_ISSUER: undefined, ISSUERS: [issuerTables.cluster] });
    const client = createClient(JwtSvidService, connectBinary.transport(service));
    const asking = client.createJwtSvid({ audiences: [aws] }, { headers: await bearer(service) });
    await expect(asking).rejects.toMatchObject({ code: Code.Unimplemented });
    const found = await service.send(new Request(`${origin}/.well-known/openid-configuration`));
    expect(found.status).toBe(404);
    await service.end?.();
  });
}
