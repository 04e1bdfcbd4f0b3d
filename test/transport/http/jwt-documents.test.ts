import { expect, test } from "vitest";
import { TokenKey } from "../../../src/pki/jose/token-key.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { spiffeBundle, TrustDocuments } from "../../../src/transport/http/trust-routes.ts";
import { createRoot } from "../../testkit/pki/foreign-root.ts";

const now = new Date("2026-11-21T12:00:00Z");
const schedule = {
  publishedFrom: now,
  signsFrom: now,
  signsUntil: addSeconds(now, 3600),
  retiresAt: addSeconds(now, 7200),
};
const { key } = await TokenKey.generate("ES256", schedule);
const policy = { issuer: "https://id.test", defaultSeconds: 300, maximumSeconds: 3600 } as const;

test.each([
  ["ES256", ["ES256"]],
  ["RS256", ["ES256", "RS256"]],
] as const)(
  "with %s configured, relying parties accept the algorithms of all published keys",
  async (algorithm, supported) => {
    const tokenKeys = [{ ...key, isTainted: false }];
    const view = { tokenKeys, validFrom: now, store: { tokenKeys } } as never;
    const { discovery, keySet } = await TrustDocuments.jwt({ ...policy, algorithm }, view);
    expect(JSON.parse(discovery)).toMatchObject({
      id_token_signing_alg_values_supported: supported,
    });
    expect(JSON.parse(keySet).keys).toMatchObject([{ kid: key.id, alg: "ES256", use: "sig" }]);
  },
);

test("every published key for tokens is in the bundle", async () => {
  const other = (await TokenKey.generate("ES256", schedule)).key;
  const roots = [await createRoot({ notAfter: addSeconds(now, 3600) })];
  const view = { trustBundle: { roots }, tokenKeys: [key, other], sequence: 1 } as never;
  const bundle = await spiffeBundle({ refreshHintSeconds: 300 } as never).write(view);
  const { keys } = JSON.parse(new TextDecoder().decode(bundle?.body));
  const ids = keys.map(({ kid }: { readonly kid?: string }) => kid);
  expect(ids).toEqual([undefined, key.id, other.id]);
});
