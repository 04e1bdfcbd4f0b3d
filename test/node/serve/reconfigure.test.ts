import { once } from "node:events";
import { connect } from "node:tls";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CurrentCredentials } from "../../../src/node/serve/current-credentials.ts";
import { type ServedCa, serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import {
  createTokenKey,
  jwksOf,
  mintAccountToken,
  type TokenKey,
} from "../../testkit/callers/tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { nativeClient } from "../../testkit/network/native-grpc.ts";
import { crlBlocks, readCrl } from "../../testkit/pki/crls.ts";
import { endOf } from "../../testkit/refusal.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const a = "https://a.test";
const b = "https://b.test";
const unknown = "Unauthenticated credential-rejected issuer";
const exhausted = "ResourceExhausted quota-exceeded caller";
let key: TokenKey;
let served: ServedCa;

const table = (issuer: string, more: object = {}) => ({ issuer, jwks: jwksOf(key), ...more });

const start = async (values: object = {}): Promise<void> => {
  served = await serveCa({ ISSUERS: [table(a)], ...values });
};

beforeEach(async () => {
  key = await createTokenKey("ES256", "k1");
});

afterEach(() => served.end());

/** How a call by a token of this issuer ends. */
async function endFor(issuer: string, account = "foo:bar"): Promise<string> {
  const client = nativeClient(served.port, servedName, { roots: await served.bundle() });
  const token = await mintAccountToken(key, issuer, account, new Date());
  const { csrPem: csr } = await createWorkload();
  const headers = { authorization: `Bearer ${token}` };
  const end = await endOf(served.log, () => client.createCertificate({ csr }, headers));
  client.close();
  return end;
}

test("a cluster joins and leaves, and the others stay", async () => {
  await start();
  expect(await endFor(b)).toBe(unknown);
  expect(await served.reconfigure({ ISSUERS: [table(a), table(b)] })).toEqual([]);
  expect([await endFor(a), await endFor(b)]).toEqual(["issued", "issued"]);
  await served.reconfigure({ ISSUERS: [table(a)] });
  expect([await endFor(a), await endFor(b)]).toEqual(["issued", unknown]);
});

test("what a changed REVOKED names is on the next CRL, and leaves it with its line", async () => {
  await start({ CRL: "on" });
  const named = async () => {
    const text = await (await served.monitored("/crl.pem")).text();
    return crlBlocks(text).flatMap((block) => readCrl(block).entries.map(([serial]) => serial));
  };
  const minted = served.log.operations.find(({ event }) => event === "authority-minted");
  const authority = minted?.["authority"];
  const before = await named();
  const since = new Date().toISOString();
  const until = new Date(Date.now() + 3_600_000).toISOString();
  await served.reconfigure({ REVOKED: [{ authority, serials: ["0b0c"], since, until }] });
  expect((await named()).toSorted()).toEqual([...before, "0b0c"].toSorted());
  await served.reconfigure({});
  expect(await named()).toEqual(before);
});

test("the walls of a cluster move for the next call", async () => {
  await start();
  await served.reconfigure({ ISSUERS: [table(a, { namespaces: ["shop"] })] });
  const beyond = "Unauthenticated credential-rejected namespace";
  expect([await endFor(a), await endFor(a, "shop:cart")]).toEqual([beyond, "issued"]);
  await served.reconfigure({ DENIED: ["ns/foo/sa/bar"] });
  const denied = "PermissionDenied denied ns/foo/sa/bar";
  expect([await endFor(a), await endFor(a, "shop:cart")]).toEqual([denied, "issued"]);
});

test("nobody signs for callers whom a rule moves to a signer that opens at the next start", async () => {
  await start();
  const SIGNERS = [{ name: "team-a", callers: [{ issuer: a }] }];
  const rules = [{ name: "team", when: { namespace: "foo" }, then: { signer: "team-a" } }];
  expect(await served.reconfigure({ SIGNERS, POLICY: { rules } })).toEqual(["SIGNERS"]);
  const unsigned = "Unavailable no-signing-authority";
  expect([await endFor(a), await endFor(a, "shop:cart")]).toEqual([unsigned, "issued"]);
});

test("a reload gives nobody a new quota, and a changed quota counts", async () => {
  await start({ CALLER_QUOTA: 2 });
  expect([await endFor(a), await endFor(a), await endFor(a)]).toEqual([
    "issued",
    "issued",
    exhausted,
  ]);
  await served.reconfigure({ CALLER_QUOTA: 2, ISSUERS: [table(a), table(b)] });
  expect(await endFor(a)).toBe(exhausted);
  await served.reconfigure({ CALLER_QUOTA: 100_000 });
  expect(await endFor(a)).toBe("issued");
});

test("the keys of an issuer that is away now outlive a reload", async () => {
  let isAway = false;
  const { origin, requests } = await startLoopbackServer((_, response) => {
    if (isAway) return void response.writeHead(503).end();
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(jwksOf(key)));
  });
  const published = { issuer: a, jwks_uri: `${origin}/keys` };
  await start({ ISSUERS: [published] });
  expect(await endFor(a)).toBe("issued");
  isAway = true;
  await served.reconfigure({ ISSUERS: [{ ...published, namespaces: ["foo"] }, table(b)] });
  expect([await endFor(a), await endFor(b)]).toEqual(["issued", "issued"]);
  expect(requests).toEqual(["/keys"]);
});

test("the names of the serving certificate change with the configuration", async () => {
  await start();
  const names = async (): Promise<string | undefined> => {
    const socket = connect({ host: "127.0.0.1", port: served.port, rejectUnauthorized: false });
    await once(socket, "secureConnect");
    const certificate = socket.getPeerX509Certificate();
    socket.destroy();
    return certificate?.subjectAltName;
  };
  expect(await names()).toContain(servedName);
  expect(await served.reconfigure({ SERVING_NAMES: ["ca.test"] })).toEqual([]);
  await eventually(async () => expect(await names()).toBe("DNS:ca.test"));
});

test("a taint in the configuration counts at once", async () => {
  await start();
  const authorityNow = async () => (await (await served.monitored("/readyz")).json()).authority;
  const authority = await authorityNow();
  expect(authority).toMatch(/^[0-9a-f]+$/);
  expect(await endFor(a)).toBe("issued");
  await served.reconfigure({ TAINTED_AUTHORITIES: [authority] });
  expect(await authorityNow()).not.toBe(authority);
});

test("a configuration that cannot be taken on changes nothing", async () => {
  await start();
  const kubernetes = { server: "https://127.0.0.1:9", credential: "CLUSTER_CREDENTIAL_B" };
  const faulty = { ISSUERS: [table(b, { kubernetes })], DENIED: ["ns/foo/sa/bar"] };
  await expect(served.reconfigure(faulty)).rejects.toMatchObject({
    faults: ["CLUSTER_CREDENTIAL_B: is required"],
  });
  await expect(
    served.reconfigure({ ...faulty, CLUSTER_CREDENTIAL_B_FILE: "/nowhere/token" }),
  ).rejects.toMatchObject({ faults: [expect.stringMatching(/^CLUSTER_CREDENTIAL_B: .*nowhere/)] });
  expect([await endFor(a), await endFor(b)]).toEqual(["issued", unknown]);
});

test("signers that join or leave wait for a restart", async () => {
  const callers = [{ issuer: a, namespaces: ["*"], accounts: ["*"] }];
  const inception_date = new Date().toISOString().slice(0, 10);
  const signers = (...names: string[]) => ({
    SIGNERS: names.map((name) => ({ name, inception_date, callers })),
  });
  await start(signers("one"));
  expect(await served.reconfigure(signers("one"))).toEqual([]);
  expect(await served.reconfigure(signers())).toEqual(["SIGNERS"]);
  expect(await served.reconfigure(signers("one", "two"))).toEqual(["SIGNERS"]);
});

test("operators of the console change with the configuration", async () => {
  const [former, next] = ["f".repeat(32), "n".repeat(32)];
  await start({ CONSOLE_TOKENS: former });
  const statusWith = async (token: string): Promise<number> => {
    const headers = { authorization: `Bearer ${token}` };
    return (await served.monitored("/", { headers })).status;
  };
  expect([await statusWith(former), await statusWith(next)]).toEqual([200, 401]);
  await served.reconfigure({ CONSOLE_TOKENS: next });
  expect([await statusWith(former), await statusWith(next)]).toEqual([401, 200]);
});

test("callers wait for a trust bundle as long as the new configuration allows", async () => {
  await start({ BUNDLE_WAIT: "0s" });
  const url = `http://127.0.0.1:${served.monitoringPort}/bundle.json`;
  const etag = (await fetch(url)).headers.get("etag") ?? "";
  const applied = async (): Promise<string | null> => {
    const headers = { "if-none-match": etag, prefer: "wait=1" };
    return (await fetch(url, { headers })).headers.get("preference-applied");
  };
  expect(await applied()).toBeNull();
  expect(await served.reconfigure({ BUNDLE_WAIT: "20s" })).toEqual([]);
  expect(await applied()).toBe("wait=1");
  await served.reconfigure({ BUNDLE_WAIT: "0s" });
  expect(await applied()).toBeNull();
});

test("a credential that is in use follows each change of its place", async () => {
  const credentials = new CurrentCredentials();
  const steady = credentials.use(new Map([["A", () => "first"]])).get("A");
  expect(await steady?.()).toBe("first");
  expect(credentials.use(new Map([["A", async () => "second"]])).get("A")).toBe(steady);
  expect(await steady?.()).toBe("second");
});

test("a credential that was taken away asks nobody any more", async () => {
  const credentials = new CurrentCredentials();
  const steady = credentials.use(new Map([["A", () => "first"]])).get("A");
  expect(credentials.use(new Map()).size).toBe(0);
  await expect(steady?.()).rejects.toThrow("A is not configured any more");
});
