import type { JWK } from "jose";
import { parse } from "smol-toml";
import { describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import {
  enrol,
  formatEnrolment,
  parseIssuerDocuments,
  platforms,
} from "../../../../src/cli/verbs/cluster/cluster-enrol.ts";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import {
  type DocumentFetch,
  FetchError,
  type JsonFetch,
} from "../../../../src/foundation/fetch.ts";
import { createTokenKey, jwksOf, type TokenKey } from "../../../testkit/callers/tokens.ts";
import { configurationOf } from "../../../testkit/configuration.ts";

const issuer = "https://oidc.example.com/id/1";
const inside = "https://kubernetes.default.svc.cluster.local";
const settings = { platform: "worker" as const, cluster: "prod-1", audiences: ["istio-ca"] };

const key = await createTokenKey("RS256", "k1");
const other = await createTokenKey("RS256", "k2");

function internet(documents: Readonly<Record<string, unknown>>): DocumentFetch {
  const fetchJson: JsonFetch = async (url) => {
    if (url in documents) return documents[url];
    throw new FetchError("did not answer");
  };
  return { anywhere: fetchJson, public: fetchJson };
}

const nothing = () => internet({});

const publishing = (...keys: readonly TokenKey[]): DocumentFetch =>
  internet({
    [`${issuer}/.well-known/openid-configuration`]: { issuer, jwks_uri: `${issuer}/keys` },
    [`${issuer}/keys`]: jwksOf(...keys),
  });

describe("a cluster joins by its issuer alone", () => {
  test("when everybody can fetch its keys", async () => {
    const { table, reasons } = await enrol({ issuer, jwks: undefined }, settings, publishing(key));
    expect(table).toEqual({ issuer, cluster: "prod-1" });
    expect(reasons.join()).toMatch(/answers without credentials.*Rampart fetches/s);
  });

  test("when the published keys are those of its API server", async () => {
    const shown = { issuer, jwks: jwksOf(key) };
    const { table } = await enrol(shown, settings, publishing(other, key));
    expect(table).toEqual({ issuer, cluster: "prod-1" });
  });
});

describe("a cluster joins with its keys in the table", () => {
  test.each<[string, string, () => DocumentFetch, RegExp]>([
    ["when its issuer is a name of the inside", inside, nothing, /the edge cannot reach/],
    ["when it is a private address", "https://10.0.0.1:6443", nothing, /the edge cannot/],
    ["when it is no URL", "kubernetes/serviceaccount", nothing, /not an https URL/],
    ["when nobody answers there", issuer, nothing, /did not answer/],
    ["when other keys are published there", issuer, () => publishing(other), /find out why/],
  ])("%s", async (_, name, fetchJson, reason) => {
    const shown = { issuer: name, jwks: jwksOf(key) };
    const { table, reasons } = await enrol(shown, settings, fetchJson());
    expect(reasons.join("\n")).toMatch(reason);
    expect(table).toEqual({ issuer: name, cluster: "prod-1", jwks: jwksOf(key) });
  });

  test("without the private members of its keys", async () => {
    const secret: JWK = { ...key.publicJwk, d: "AAAA" };
    const jwks = { keys: [secret, { kty: "oct", k: "AAAA" }, { kty: "EC", crv: "secp256k1" }] };
    const { table } = await enrol({ issuer: inside, jwks }, settings, nothing());
    expect(table).toMatchObject({ jwks: jwksOf(key) });
    expect(JSON.stringify(table)).not.toContain("AAAA");
  });
});

interface Tables {
  readonly ISSUERS: unknown;
}

/** The tables of ISSUERS, where each platform has them. */
const tablesIn: Readonly<Record<(typeof platforms)[number], (text: string) => unknown>> = {
  worker: (text) => (parse(text) as unknown as { vars: Tables }).vars.ISSUERS,
  serve: (text) => (parse(text) as unknown as Tables).ISSUERS,
  helm: (text) => parseYaml(text, { version: "1.1" }).issuers,
};

test("keys that the cluster has and the issuer does not publish are never left out", async () => {
  const shown = { issuer, jwks: jwksOf(key, other) };
  const { table } = await enrol(shown, settings, publishing(key));
  expect(table).toMatchObject({ jwks: jwksOf(key, other) });
});

describe("the printed table", () => {
  test.each(["serve", "helm"] as const)("says nothing of the edge to %s", async (platform) => {
    const shown = { issuer: inside, jwks: jwksOf(key) };
    const { reasons, table } = await enrol(shown, { ...settings, platform }, nothing());
    expect(reasons.join("\n")).toMatch(/private name.*no public CA/);
    expect(reasons.join("\n")).not.toMatch(/edge/);
    expect(table).toMatchObject({ jwks: jwksOf(key) });
  });

  test.each(platforms)("can be pasted, and served: %s", async (platform) => {
    const kubernetes = {
      server: "https://10.0.0.1:6443",
      ca: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
      review: "before-keys" as const,
    };
    const all = { platform, cluster: "prod-1.eu", audiences: ["a", "b"], kubernetes };
    const shown = { issuer: inside, jwks: jwksOf(key) };
    const text = formatEnrolment(await enrol(shown, all, nothing()), platform);
    const { issuers } = configurationOf({ ISSUERS: tablesIn[platform](text) });
    expect(issuers).toMatchObject([
      {
        issuer: inside,
        cluster: "prod-1.eu",
        audiences: ["a", "b"],
        jwks: { usable: [{ keyId: "k1" }] },
        kubernetes: { ...kubernetes, credential: "CLUSTER_CREDENTIAL_PROD_1_EU" },
      },
    ]);
    expect(text.startsWith("# ")).toBe(true);
  });
});

describe("a cluster cannot join", () => {
  const join = (jwks: { keys: JWK[] } | undefined, changes = {}, name = issuer) =>
    enrol({ issuer: name, jwks }, { ...settings, ...changes }, nothing());

  test.each<[string, () => Promise<unknown> | unknown]>([
    ["by an issuer that does not answer", () => join(undefined)],
    ["by an issuer on a private address", () => join(undefined, {}, inside)],
    ["without a key that Rampart can use", () => join({ keys: [] }, {}, inside)],
    ["under a name that is none", () => join(jwksOf(key), { cluster: "a b" })],
    ["by a document that is no JSON", () => parseIssuerDocuments("<html>", "{}")],
    ["by keys that are no JSON", () => parseIssuerDocuments(JSON.stringify({ issuer }), "<html>")],
    ["by a document without an issuer", () => parseIssuerDocuments("{}", "{}")],
  ])("%s", async (_, work) => {
    await expect((async () => work())()).rejects.toThrow(OperatorError);
  });
});
