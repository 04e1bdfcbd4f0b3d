import { decodeJwt } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import { forwardedHeader, forwardedValue } from "../../../src/authn/forwarding-headers.ts";
import { CaError } from "../../../src/foundation/errors.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { CaRoutes } from "../../../src/transport/http/routes.ts";
import type { Peer } from "../../../src/transport/rpc/rpc.ts";
import { connectBinary, outcomeOf, requestOf } from "../../contract/rpc-calls.ts";
import { issuerTables, origin } from "../../contract/service-under-test.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";

const { issuer } = issuerTables.cluster;
const audience = "sts.amazonaws.com";
const grant_type = "urn:ietf:params:oauth:grant-type:token-exchange";
const jwtType = "urn:ietf:params:oauth:token-type:jwt";

/** A CA, a gateway's token, and the certificate of another workload. */
async function start() {
  const key = await createTokenKey("ES256", "k1");
  const ca = await startCa({
    ISSUERS: [{ ...issuerTables.cluster, jwt_audiences: [audience], jwks: jwksOf(key) }],
    JWT_ISSUER: "https://ca.test",
  });
  await ca.rotate();
  let peer: Peer = {};
  const app = CaRoutes.create(ca.certificateAuthority, () => peer);
  const tokenOf = (account: string) => mintAccountToken(key, issuer, account, ca.now());
  const { csrPem: csr } = await createWorkload();
  const headers = { authorization: `Bearer ${await tokenOf("foo:bar")}` };
  const request = requestOf(connectBinary, { csr }, headers);
  const outcome = await outcomeOf(connectBinary, await app.fetch(request));
  const [leaf = ""] = "certChain" in outcome ? outcome.certChain : [];
  const subject_token = await tokenOf("istio-system:gateway");
  async function exchange(
    more: Record<string, string>,
    shown: Peer,
    header: HeadersInit = {},
    { twice = [] as readonly string[], signal = new AbortController().signal } = {},
  ) {
    peer = shown;
    const body = new URLSearchParams({
      grant_type,
      subject_token,
      subject_token_type: jwtType,
      audience,
      ...more,
    });
    for (const name of twice) body.append(name, body.get(name) ?? "");
    const sent = new Request(`${origin}/token`, { method: "POST", headers: header, body, signal });
    const answer = (await (await app.fetch(sent)).json()) as Record<string, string>;
    return answer["access_token"] ? decodeJwt(answer["access_token"]).sub : answer["error"];
  }
  return { exchange, leaf, ca, app };
}

describe("POST /token", () => {
  let service: Awaited<ReturnType<typeof start>>;
  const gateway = "spiffe://cluster.local/ns/istio-system/sa/gateway";

  beforeAll(async () => {
    service = await start();
  });

  test("believes the subject token alone, whatever certificate its caller shows", async () => {
    const clientCertificate = Pem.parse(service.leaf, ["CERTIFICATE"]);
    expect(await service.exchange({}, { clientCertificate })).toBe(gateway);
  });

  test("believes the subject token alone, whatever certificate is forwarded", async () => {
    const workload = "spiffe://cluster.local/ns/foo/sa/bar";
    const header = { [forwardedHeader]: forwardedValue(service.leaf, workload) };
    expect(await service.exchange({}, {}, header)).toBe(gateway);
  });

  test("takes no more fields than anybody needs", async () => {
    const fields = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`x${i}`, ""]));
    expect(await service.exchange(fields(28), {})).toBe(gateway);
    expect(await service.exchange(fields(29), {})).toBe("invalid_request");
  });

  test.each(["grant_type", "subject_token", "subject_token_type"])(
    "takes no second %s, not even the same",
    async (name) => {
      expect(await service.exchange({}, {}, {}, { twice: [name] })).toBe("invalid_request");
    },
  );

  test.each(["resource", "scope", "actor_token", "actor_token_type"])(
    "refuses a %s, which would narrow or widen the token",
    async (name) => {
      expect(await service.exchange({ [name]: "x" }, {})).toBe("invalid_request");
    },
  );

  test.each<[number, string, unknown, Error]>([
    [
      429,
      "temporarily_unavailable",
      expect.stringMatching(/^[0-9]+$/),
      new CaError({ reason: "quota-exceeded", quota: "caller", retryAfterSeconds: 60 }, ""),
    ],
    [
      503,
      "temporarily_unavailable",
      expect.stringMatching(/^[234]$/),
      new CaError({ reason: "store-unreachable" }, ""),
    ],
    [500, "server_error", null, new TypeError("a defect")],
  ])("answers %i, %s, and when to come again", async (status, name, wait, error) => {
    const { ca, app } = await start();
    Object.assign(ca.certificateAuthority, { authenticate: () => Promise.reject(error) });
    const form = { grant_type, subject_token: "a.b.c", subject_token_type: jwtType };
    const body = new URLSearchParams(form);
    const response = await app.fetch(new Request(`${origin}/token`, { method: "POST", body }));
    expect([response.status, response.headers.get("retry-after")]).toEqual([status, wait]);
    expect(await response.json()).toMatchObject({ error: name });
    const outcome = status === 500 ? "failed" : "refused";
    expect(ca.log.audits.at(-1)).toMatchObject({ event: "create-token", outcome });
  });

  test("refuses the name of another cluster than that of the token's issuer", async () => {
    expect(await service.exchange({}, {}, { clusterid: "elsewhere" })).toBe("invalid_request");
  });

  test("waits no longer than its caller for an authority", async () => {
    const { exchange, ca, app } = await start();
    const caller = new AbortController();
    const at = () => {
      caller.abort();
      return new Promise(() => {});
    };
    Object.assign(ca.certificateAuthority.issuance, { authorities: { at } });
    const answer = exchange({}, {}, {}, { signal: caller.signal });
    expect(await answer).toBe("temporarily_unavailable");
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const init = { method: "POST", headers, body: new ReadableStream(), duplex: "half" };
    const silent = new Request(`${origin}/token`, { ...init, signal: caller.signal });
    expect((await app.fetch(silent)).status).toBe(503);
  });
});
