import { beforeAll, describe, expect, test } from "vitest";
import { rootTargets } from "../../src/compose/root-targets.ts";
import { ConfigurationError } from "../../src/foundation/configuration-error.ts";
import type { CertificateAuthority } from "../../src/transport/certificate-authority.ts";
import { startCa } from "../testkit/ca/running-ca.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../testkit/callers/tokens.ts";
import {
  configurationOf,
  expectOneFault,
  faultsOf,
  issuer,
  issuersOf,
} from "../testkit/configuration.ts";
import {
  apiCredential,
  type FakeApiServer,
  goodReview,
  startApiServer,
} from "../testkit/kubernetes/api-server.ts";
import { refusalOf } from "../testkit/refusal.ts";

const server = "https://10.0.0.1:6443";
const credential = "CLUSTER_CREDENTIAL_A";
const pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

describe("the table kubernetes of an issuer", () => {
  test("makes the API server decide where the keys cannot, by default", () => {
    const [table] = issuersOf({ issuer, kubernetes: { server: `${server}/`, credential } });
    expect(table?.kubernetes).toEqual({ server, credential, review: "after-keys" });
  });

  test("may have all of its keys", () => {
    const kubernetes = {
      server,
      credential,
      ca: pem,
      review: "before-keys",
      deliver_roots: true,
      config_map: "istio-ca-root-cert",
    };
    expect(issuersOf({ issuer, kubernetes })[0]?.kubernetes).toEqual(kubernetes);
  });

  test("makes keys needless when the API server decides alone", () => {
    const kubernetes = { server, credential, review: "instead-of-keys" };
    expect(issuersOf({ issuer: "kubernetes", kubernetes })).toHaveLength(1);
  });

  test.each<[string, Record<string, unknown>, string]>([
    ["an empty server", { server: "" }, "server"],
    ["a server over http", { server: "http://10.0.0.1" }, "server"],
    ["a server with a password", { server: "https://a:b@10.0.0.1" }, "server"],
    ["a server with a query", { server: `${server}/?a=b` }, "server"],
    ["an empty credential", { credential: "" }, "credential"],
    ["a credential itself", { credential: "eyJhbGciOiJub25lIn0" }, "credential"],
    ["the name of another secret", { credential: "KEK" }, "credential"],
    ["the name of a file", { credential: `${credential}_FILE` }, "credential"],
    ["a CA that is none", { ca: "MIIB" }, "ca"],
    ["a CA on one line, which OpenSSL does not read", { ca: pem.replaceAll("\n", " ") }, "ca"],
    ["a CA with words around it", { ca: `the CA:\n${pem}` }, "ca"],
    ["a private key for a CA", { ca: pem.replaceAll("CERTIFICATE", "PRIVATE KEY") }, "ca"],
    ["another order", { review: "never" }, "review"],
    ["a delivery that is no yes or no", { deliver_roots: "yes" }, "deliver_roots"],
    ["a ConfigMap without a name", { config_map: "" }, "config_map"],
    ["a ConfigMap that is a path", { config_map: "../secrets/x" }, "config_map"],
    ["another key", { token: "x" }, "token"],
  ])("may not have %s", (_, changes, key) => {
    const kubernetes = { server, credential, ...changes };
    expectOneFault({ ISSUERS: [{ issuer, kubernetes }] }, `ISSUERS[0].kubernetes.${key}`);
  });

  test("needs an issuer with keys unless the API server decides alone", () => {
    const tables = [{ issuer: "kubernetes", kubernetes: { server, credential } }];
    expectOneFault({ ISSUERS: tables }, "ISSUERS[0].issuer");
  });
});

describe("the clusters that get roots", () => {
  const asked = { server, credential, deliver_roots: true };
  const targetsOf = (...tables: readonly object[]) =>
    rootTargets(configurationOf({ ISSUERS: tables, [credential]: "x" }), {
      fetchTrusting: () => fetch,
    });

  test("are those with deliver_roots, and no others", () => {
    const other = { server: "https://10.0.0.2", credential, review: "instead-of-keys" };
    expect(
      targetsOf(
        { issuer, cluster: "a", kubernetes: asked },
        { issuer: "https://b.test", cluster: "b", kubernetes: other },
        { issuer: "https://c.test", cluster: "c" },
      ),
    ).toMatchObject([{ cluster: "a", configMap: "istio-ca-root-cert" }]);
  });

  test("need their credential", () => {
    const configuration = configurationOf({ ISSUERS: [{ issuer, kubernetes: asked }] });
    expect(() => rootTargets(configuration, { fetchTrusting: () => fetch })).toThrow(
      `${credential}: is required`,
    );
  });

  test("are refused where the platform cannot trust their CA", () => {
    const refuse = () => {
      throw new ConfigurationError(["ISSUERS: not here"]);
    };
    const configuration = configurationOf({
      ISSUERS: [{ issuer, kubernetes: { ...asked, ca: pem } }],
      [credential]: "x",
    });
    expect(() => rootTargets(configuration, { fetchTrusting: refuse })).toThrow(ConfigurationError);
  });
});

describe("a credential", () => {
  test("is the secret with its name", () => {
    const { clusterCredentials } = configurationOf({ [credential]: "secret" });
    expect([...clusterCredentials].map(([name, read]) => [name, read()])).toEqual([
      [credential, "secret"],
    ]);
  });

  test.each(["", "two words", "two\nlines", "ü", 1, ["a"]])("may not be %j", (value) => {
    expectOneFault({ [credential]: value }, credential);
  });

  test("is never read from a file here", () => {
    const key = `${credential}_FILE`;
    expect(faultsOf({ [key]: "/token" })).toEqual([`${key}: is not a key of Rampart`]);
  });

  test("that is missing stops the start", async () => {
    const ISSUERS = [{ issuer, kubernetes: { server, credential } }];
    await expect(startCa({ ISSUERS })).rejects.toThrow(`${credential}: is required`);
  });
});

describe("who decides on a token", () => {
  let key: TokenKey;
  let other: TokenKey;

  beforeAll(async () => {
    [key, other] = await Promise.all([
      createTokenKey("ES256", "k1"),
      createTokenKey("ES256", "k2"),
    ]);
  });

  /** A CA with the first key inline, and with access to an API server. */
  async function judged(review: string, use: (court: Court) => Promise<void>): Promise<void> {
    const api = await startApiServer();
    const kubernetes = { server: api.origin, credential, review };
    const { certificateAuthority, log, now } = await startCa({
      ISSUERS: [{ issuer, jwks: jwksOf(key), kubernetes }],
      [credential]: apiCredential,
    });
    const judge: Court["judge"] = async (signer, claims = {}) => {
      const token = await mintAccountToken(signer, issuer, "foo:bar", now(), claims);
      const headers = new Headers({ authorization: `Bearer ${token}` });
      return certificateAuthority.authenticate({ headers }, now());
    };
    try {
      await use({ api, judge, log });
    } finally {
      await api.close();
    }
  }

  interface Court {
    readonly api: FakeApiServer;
    readonly judge: (
      signer: TokenKey,
      claims?: Record<string, unknown>,
    ) => ReturnType<CertificateAuthority["authenticate"]>;
    readonly log: { readonly operations: readonly unknown[] };
  }

  const caller = { spiffeId: "spiffe://cluster.local/ns/foo/sa/bar" };
  const rejected = (check: string) => ({ reason: "credential-rejected", check });
  const good = () => goodReview("foo:bar");

  test("after-keys: the keys, without a question", () =>
    judged("after-keys", async ({ api, judge }) => {
      api.review = () => ({ user: {} });
      expect(await judge(key)).toMatchObject(caller);
      expect(api.asked).toEqual([]);
    }));

  test("after-keys: the API server, for a key that is not known", () =>
    judged("after-keys", async ({ api, judge }) => {
      api.review = good;
      expect(await judge(other)).toMatchObject(caller);
      api.review = () => ({ user: {} });
      expect(await refusalOf(() => judge(other))).toEqual(rejected("review"));
    }));

  test.each(["after-keys", "before-keys"])(
    "%s: never the API server where the keys have said no",
    (review) =>
      judged(review, async ({ api, judge }) => {
        api.review = good;
        const forged = { ...other, publicJwk: { ...other.publicJwk, kid: "k1" } };
        expect(await refusalOf(() => judge(forged))).toEqual(rejected("signature"));
        expect(await refusalOf(() => judge(key, { aud: ["x"] }))).toEqual(rejected("audience"));
        expect(await refusalOf(() => judge(key, { exp: 1 }))).toEqual(rejected("time"));
        expect(api.asked).toEqual([]);
      }),
  );

  test("before-keys: the API server, though the signature is good", () =>
    judged("before-keys", async ({ api, judge }) => {
      api.review = () => ({ user: {}, error: "the pod is gone" });
      expect(await refusalOf(() => judge(key))).toEqual(rejected("review"));
    }));

  test("before-keys: nobody while it is busy, which is logged", () =>
    judged("before-keys", async ({ api, judge, log }) => {
      api.instead = (_, response) => response.writeHead(429).end();
      const busy = { reason: "cluster-busy", cluster: "Kubernetes" };
      expect(await refusalOf(() => judge(key))).toEqual(busy);
      expect(log.operations).toMatchObject([{ event: "cluster-busy", cluster: "Kubernetes" }]);
    }));

  test("before-keys: the keys while it is away, which is logged", () =>
    judged("before-keys", async ({ api, judge, log }) => {
      api.instead = (_, response) => response.writeHead(503).end();
      expect(await judge(key)).toMatchObject(caller);
      expect(log.operations).toMatchObject([
        { event: "cluster-unreachable", cluster: "Kubernetes" },
      ]);
      expect(await refusalOf(() => judge(other))).toEqual(rejected("key"));
    }));

  test("instead-of-keys: the API server alone", () =>
    judged("instead-of-keys", async ({ api, judge }) => {
      api.review = good;
      expect(await judge(other)).toMatchObject(caller);
      api.instead = (_, response) => response.writeHead(503).end();
      const refusal = await refusalOf(() => judge(key));
      expect(refusal).toEqual({ reason: "cluster-unreachable", cluster: "Kubernetes" });
    }));

  test("nobody's credential is in the log", () =>
    judged("before-keys", async ({ api, judge, log }) => {
      await api.close();
      await judge(key);
      expect(JSON.stringify(log.operations)).not.toContain(apiCredential);
    }));
});
