import { expect, test } from "vitest";
import {
  describeJwtSvids,
  describeNoJwtSvids,
  type StartTokens,
  tokenValues,
} from "../../contract/tokens/jwt-svids.ts";
import { serveCa } from "../../testkit/ca/served-ca.ts";
import { createTokenKey, jwksOf } from "../../testkit/callers/tokens.ts";

const key = await createTokenKey("ES256", "k1");

const startServe = async (values: Readonly<Record<string, unknown>>) => {
  const { ISSUERS, ...others }: Record<string, unknown> = { ...tokenValues, ...values };
  const tables = (ISSUERS as object[]).map((table) => ({ ...table, jwks: jwksOf(key) }));
  const given = Object.entries(others).filter(([, value]) => value !== undefined);
  const served = await serveCa({
    ...Object.fromEntries(given),
    ISSUERS: tables,
    PLAINTEXT_LISTEN: "127.0.0.1:0",
  });
  // Its ports open once there is an authority, and the key for tokens comes after it.
  if (given.some(([key]) => key === "JWT_ISSUER")) await served.log.until("token-key-minted");
  return served;
};

const start: StartTokens = async (values) => {
  const served = await startServe(values);
  const { port } = served.server.plaintextAddress ?? { port: 0 };
  return {
    send: (request) =>
      fetch(new Request(`http://127.0.0.1:${port}${new URL(request.url).pathname}`, request)),
    key,
    now: () => new Date(),
    takeAudits: () => served.log.audits.splice(0),
    end: served.end,
  };
};

describeJwtSvids(start);
describeNoJwtSvids(start);

test("issues no token at the port for monitoring", async () => {
  const served = await startServe({});
  for (const path of ["token", "rampart.jwt.v1.JwtSvidService/CreateJwtSvid"]) {
    const url = `http://127.0.0.1:${served.monitoringPort}/${path}`;
    expect((await fetch(url, { method: "POST", body: "{}" })).status).toBe(404);
  }
  await served.end();
});
