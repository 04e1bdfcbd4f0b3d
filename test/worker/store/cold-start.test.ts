import { exports } from "cloudflare:workers";
import { expect, test } from "vitest";
import { connectJson, outcomeOf, requestOf } from "../../contract/rpc-calls.ts";
import { createTokenKey, jwksOf, mintAccountToken } from "../../testkit/callers/tokens.ts";
import { recordConsoleLines } from "../runtime/console-lines.ts";
import { registry, stormIssuer } from "../runtime/internet.ts";

recordConsoleLines();

test("a storm of unknown key ids that starts an isolate fetches keys once", async () => {
  const [published, unknown] = await Promise.all(
    ["published", "unknown"].map((keyId) => createTokenKey("ES256", keyId)),
  );
  if (!published || !unknown) throw new Error("no keys");
  const entry = `${registry}${new URL(stormIssuer).host}`;
  await fetch(entry, { method: "PUT", body: JSON.stringify(jwksOf(published)) });
  const token = await mintAccountToken(unknown, stormIssuer, "foo:bar", new Date());
  const authorization = `Bearer ${token}`;
  const storm = Array.from({ length: 50 }, async () => {
    const request = requestOf(connectJson, { csr: "x" }, { authorization });
    return outcomeOf(connectJson, await exports.default.fetch(request));
  });
  const refused = { code: "Unauthenticated", message: "request authentication failed" };
  expect(await Promise.all(storm)).toEqual(storm.map(() => refused));
  expect(await (await fetch(entry)).text()).toBe("1");
});
