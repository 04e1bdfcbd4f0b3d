import type { RequestListener } from "node:http";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { parseConfiguration } from "../../../src/agent/configuration.ts";
import { FederatedBundles, JwtBundles } from "../../../src/agent/trust/bundles.ts";
import {
  type FollowersOptions,
  federatedBundleFollowers,
  OwnBundle,
  ownCrlFollower,
} from "../../../src/agent/trust/followers.ts";
import { FetchError } from "../../../src/foundation/fetch.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { createRevocation, isSettled } from "../../testkit/agent/revocation.ts";
import { bundleOf } from "../../testkit/agent/test-authority.ts";
import { createTokenKey } from "../../testkit/callers/tokens.ts";
import { startLoopbackServer } from "../../testkit/network/loopback-server.ts";
import { clusterLocal, trustDomain, workload } from "../../testkit/pki/certificates.ts";
import { createCrlAuthority, crlTime, parsedCrl } from "../../testkit/pki/crl-authority.ts";
import { eventually } from "../../testkit/time/eventually.ts";

const [a, b] = await Promise.all([createCrlAuthority(), createCrlAuthority()]);
const [crlOfA, crlOfB] = await Promise.all([a.crl(), b.crl()]);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: crlTime });
});
afterEach(() => void vi.useRealTimers());

/** Passes ten times as long as its wait takes, and no more: the requests that it waits for have time-outs by the same clock. */
const passUntil = <T>(check: () => T | Promise<T>): Promise<T> =>
  eventually(async () => {
    await vi.advanceTimersByTimeAsync(90);
    return check();
  });

/** What an agent knows that follows the CA of this listener. */
async function followed(listener: RequestListener, isBundleAssumed = false) {
  const { origin } = await startLoopbackServer(listener);
  const clock = () => new Date();
  const { trust, log, revocation } = createRevocation(clock);
  const environment = { CA_ADDR: origin, POD_NAMESPACE: "foo", SERVICE_ACCOUNT: "bar" };
  const options: FollowersOptions = {
    configuration: { ...parseConfiguration(environment), isBundleAssumed },
    channel: { tlsOptions: async () => ({}) },
    jwtBundles: new JwtBundles(),
    random: () => 0.5,
    ...{ trust, revocation, log, clock },
  };
  return { ...options, trust, log, options };
}

/** Runs until the end of the test. */
function run(part: { run(signal: AbortSignal): Promise<void> } | undefined): void {
  const ending = new AbortController();
  void part?.run(ending.signal);
  onTestFinished(() => ending.abort());
}

const x5c = [a.certificate.raw.toString("base64")];
const document = JSON.stringify({ keys: [{ use: "x509-svid", x5c }], spiffe_refresh_hint: 1 });

test("roots of the CA's answers do not stay beside a bundle that the CA confirms without them", async () => {
  const { options, trust } = await followed((request, response) => {
    if (request.headers["if-none-match"] === '"1"') response.writeHead(304).end();
    else response.writeHead(200, { etag: '"1"' }).end(document);
  });
  const bundle = new OwnBundle(options);
  run(bundle);
  await passUntil(() => expect(bundle.confirmedAt).toBeDefined());
  const read = bundle.confirmedAt;
  const svid = { spiffeId: workload("foo", "bar"), chain: [] };
  trust.updateFromAnswer({ svid, roots: [a.certificate, b.certificate] });
  expect(trust.current).toHaveLength(2);
  await passUntil(() => expect(bundle.confirmedAt).not.toEqual(read));
  expect(trust.current.map(({ fingerprint256 }) => fingerprint256)).toEqual([
    a.certificate.fingerprint256,
  ]);
});

test("the CRL of a new root is fetched at once, and each second until the CA has it", async () => {
  const answers = [crlOfA, crlOfA, crlOfA + crlOfB];
  const { options, trust, revocation } = await followed((_request, response) => {
    response.end(answers.length > 1 ? answers.shift() : answers[0]);
  });
  trust.updateFromBundle(bundleOf(1, a));
  run(revocation);
  run(ownCrlFollower(options));
  await passUntil(() => expect(revocation.crls).toHaveLength(1));
  trust.updateFromBundle(bundleOf(2, a, b));
  expect(revocation.isAwaiting).toBe(true);
  // The wait has an end of its own, after which revoked certificates count again.
  await passUntil(() => expect(revocation.isAwaiting).toBe(false));
  expect(revocation.crls).toHaveLength(2);
});

test.each([503, 404])(
  "a bundle counts as followed for an hour after its last confirmation, though the CA answers %d",
  async (failure) => {
    let status = 200;
    const { options } = await followed((_request, response) => {
      response.writeHead(status).end(document);
    }, true);
    const bundle = new OwnBundle(options);
    run(bundle);
    await passUntil(() => expect(bundle.confirmedAt).toBeDefined());
    status = failure;
    await passUntil(() => expect(bundle.lastError).toBeDefined());
    expect(bundle).toMatchObject({ fault: undefined, isFollowed: true });
    vi.setSystemTime(Date.now() + 3_600_000);
    expect(bundle).toMatchObject({
      fault: expect.stringContaining(`answered with status ${failure}`),
      isFollowed: false,
    });
  },
);

test.each([401, 503])("a CA that answers %d is no istiod, and is asked again", async (status) => {
  const { options, log } = await followed((_, response) => response.writeHead(status).end(), true);
  const bundle = new OwnBundle(options);
  run(bundle);
  await passUntil(() => expect(log.operations).toHaveLength(2));
  await bundle.found(new AbortController().signal);
  expect(log.operations).toMatchObject([{ event: "bundle-unread" }, { event: "bundle-unread" }]);
  expect(bundle.isFollowed).toBe(false);
});

test("a CA counts as an istiod by closed connections in a row alone", async () => {
  let asked = 0;
  const { options, log } = await followed((request, response) => {
    if (++asked % 3 === 0) response.writeHead(503).end();
    else request.socket.destroy();
  }, true);
  run(new OwnBundle(options));
  await passUntil(() => expect(log.operations.length).toBeGreaterThanOrEqual(5));
  expect(log.operations.every(({ event }) => event === "bundle-unread")).toBe(true);
});

test("a bundle that goes backwards brings back neither its roots nor its keys for tokens", async () => {
  const { publicJwk } = await createTokenKey("ES256", "k");
  let sequence = 2;
  const { options, trust, log } = await followed((_, response) => {
    const issuer = sequence === 2 ? a : b;
    const x509 = { use: "x509-svid", x5c: [issuer.certificate.raw.toString("base64")] };
    const jwt = { ...publicJwk, use: "jwt-svid", kid: `of ${sequence}` };
    const content = { spiffe_sequence: sequence, spiffe_refresh_hint: 1, keys: [x509, jwt] };
    response.end(JSON.stringify(content));
  });
  run(new OwnBundle(options));
  await log.until("bundle-read");
  sequence = 1;
  const refused = { level: "error", outcome: "sequence-backwards" };
  await passUntil(() => expect(log.operations).toMatchObject([{ level: "info" }, refused]));
  expect(trust.current).toEqual([a.certificate]);
  expect(options.jwtBundles.keysOf(clusterLocal)).toMatchObject([{ keyId: "of 2" }]);
});

test("a server without a bundle is asked again after an hour, and is followed once it has one", async () => {
  let [status, asked] = [404, 0];
  const { options, log } = await followed((_request, response) => {
    asked++;
    response.writeHead(status).end(document);
  }, true);
  const bundle = new OwnBundle(options);
  run(bundle);
  await log.until("bundle-unfollowed");
  expect(bundle.fault).toContain("has no bundle");
  await vi.advanceTimersByTimeAsync(3_600_000);
  await passUntil(() => expect(asked).toBe(2));
  await vi.advanceTimersByTimeAsync(1_000);
  expect(log.operations).toHaveLength(1);
  status = 200;
  await vi.advanceTimersByTimeAsync(3_600_000);
  await passUntil(() => expect(bundle.confirmedAt).toBeDefined());
  expect(bundle).toMatchObject({ fault: undefined, isFollowed: true });
});

test("CRLs at a URL of their own wait for no bundle", async () => {
  const { options } = await followed(() => {}, true);
  const crlUrl = "http://crls.test/crl.pem";
  const configuration = { ...options.configuration, crlUrl };
  await new OwnBundle({ ...options, configuration }).found(new AbortController().signal);
});

test("the file of an endpoint counts no more once its trust domain has withdrawn all roots", async () => {
  const { options, configuration } = await followed(() => {});
  const other = trustDomain("other.test");
  const federation = new FederatedBundles();
  federation.update(other, bundleOf(1, a));
  federation.update(other, bundleOf(2));
  const svid = { spiffeId: "spiffe://other.test/bundle", bundleFile: "/absent" };
  const endpoint = { trustDomain: other, url: "https://127.0.0.1:1/", svid };
  const [follower] = federatedBundleFollowers({
    ...options,
    federation,
    configuration: { ...configuration, federation: [endpoint] },
  });
  run(follower);
  await follower?.asked;
  expect(follower?.lastError).toBe("the last bundle of other.test has no root");
});

const follow = {
  bundle: (options: FollowersOptions) => new OwnBundle(options),
  CRLs: ownCrlFollower,
} as const;

test.each([
  ["has no bundle", "bundle", 404, "bundle-unfollowed"],
  ["closes each connection, as istiod does", "bundle", undefined, "bundle-unfollowed"],
  ["fails to answer its CRLs", "CRLs", 503, "revocation-lists-unread"],
] as const)("secrets wait no longer once a CA %s", async (_, what, status, event) => {
  const { options, revocation, log } = await followed((request, response) => {
    if (status === undefined) request.socket.destroy();
    else response.writeHead(status).end();
  }, true);
  run(follow[what](options));
  await passUntil(() => expect(log.operations.at(-1)?.event).toBe(event));
  expect(await isSettled(revocation)).toBe(true);
});

test("a server that shows a certificate of a root again counts as followed, with the same bundle", async () => {
  const { options, configuration } = await followed((request, response) => {
    const isSame = request.headers["if-none-match"] === '"1"';
    response.writeHead(isSame ? 304 : 200, { etag: '"1"' }).end(isSame ? "" : document);
  });
  const { ca } = configuration;
  const files = { ...ca.files, rootFile: "/roots.pem" };
  let isKnown = true;
  const cause = Object.assign(new Error("none"), { code: "SELF_SIGNED_CERT_IN_CHAIN" });
  const tlsOptions = async () => {
    if (isKnown) return {};
    throw new FetchError("shows another certificate", { cause });
  };
  const bundle = new OwnBundle({
    ...options,
    configuration: { ...configuration, ca: { ...ca, files } },
    channel: { tlsOptions },
  });
  run(bundle);
  await passUntil(() => expect(bundle.confirmedAt).toBeDefined());
  isKnown = false;
  await passUntil(() => expect(bundle.fault).toContain("/roots.pem"));
  isKnown = true;
  await passUntil(() => expect(bundle.fault).toBeUndefined());
});

test("secrets wait for CRLs for two seconds, and no longer", async () => {
  const { revocation } = await followed(() => {});
  const settled = revocation.settled();
  await vi.advanceTimersByTimeAsync(2_000);
  await settled;
});

test("a CRL counts to its own end, though the one before would have counted longer", async () => {
  const { trust, revocation } = await followed(() => {});
  trust.updateFromBundle(bundleOf(1, a));
  run(revocation);
  const ends = { number: 2, nextUpdate: addSeconds(crlTime, 60) };
  const next = parsedCrl(await a.crl(ends));
  revocation.take([parsedCrl(crlOfA)]);
  await vi.advanceTimersByTimeAsync(1);
  revocation.take([next]);
  expect(revocation.crls).toEqual([next]);
  await vi.advanceTimersByTimeAsync(61_000);
  expect(revocation.crls).toEqual([]);
});
