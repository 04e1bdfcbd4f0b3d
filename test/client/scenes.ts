import type * as client from "../../src/client/client.ts";

/** What the scenes need: the module of the client, and the origin of the controlled CAs. */
export interface Stage {
  readonly createClient: typeof client.createClient;
  readonly origin: string;
}

type Svid = client.X509Svid;
type Scene = (mesh: Mesh) => Promise<void>;

/** A CA of a scene's own, and a client whose clock is the CA's. */
interface Mesh {
  readonly client: (options?: Partial<client.ClientOptions>, clock?: () => Date) => client.Client;
  readonly pass: (seconds: number) => Promise<void>;
  readonly taint: () => Promise<void>;
  /** Has the CA answer with this status alone; without one, as ever. */
  readonly fail: (status?: number, headers?: Record<string, string>) => Promise<void>;
  /** The calls that the CA has got so far. */
  readonly calls: () => Promise<number>;
  /** The trust bundles that clients have asked for so far. */
  readonly bundles: () => number;
  readonly now: () => Date;
  readonly url: string;
  /** A token of another workload of the same cluster. */
  readonly otherToken: () => Promise<string>;
}

const hour = 3600;
const spiffeId = "spiffe://cluster.local/ns/foo/sa/bar";

/** The scenes by name. They take nothing of a platform but what all have, and play in Node, Deno, Bun and workerd. */
export const scenes: Readonly<Record<string, Scene>> = {
  "issues a certificate for a key that cannot be exported, or of another life for one that can":
    async ({ client }) => {
      const svid = await client().issue();
      equal(svid.spiffeId, spiffeId);
      equal(svid.privateKey.extractable, false);
      equal(svid.privateKeyPem, undefined);
      equal(certificatesIn(svid.certChain).length, 1);
      equal(certificatesIn(svid.trustBundle.pem).length, 1);
      equal(svid.trustBundle.pem, (await client().bundle()).pem);
      const life = svid.notAfter.getTime() - svid.obtainedAt.getTime();
      equal(Math.round(life / 1000 / hour), 24);
      const other = await client({ extractableKeys: true, lifetimeSeconds: hour }).issue();
      equal(other.privateKeyPem?.startsWith("-----BEGIN PRIVATE KEY-----\n"), true);
      equal(other.notAfter.getTime() - other.obtainedAt.getTime() <= 1000 * hour, true);
    },
  "renews by timers after half of the life, with another key": async (mesh) => {
    const svids: Svid[] = [];
    const chains = () => new Set(svids.map(({ certChain }) => certChain));
    using identity = mesh.client().renew({ onChange: (svid) => svids.push(svid) });
    const first = await identity.current();
    await mesh.pass(11 * hour);
    equal((await identity.current()).certChain, first.certChain);
    await mesh.pass(2 * hour);
    await until(() => chains().size === 2);
    const second = await identity.current();
    equal(second, svids.at(-1));
    equal(second.privateKey === first.privateKey, false);
    equal(second.notAfter > first.notAfter, true);
    identity.close();
    await mesh.pass(13 * hour);
    equal(await identity.current(), second);
    equal(chains().size, 2);
  },
  "tells a program that has closed of no certificate that was under way": async (mesh) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const late: client.Fetch = async (url, init) => {
      const answer = await fetch(url, init);
      if (url.endsWith("/bundle.json")) await promise;
      return answer;
    };
    const svids: Svid[] = [];
    const identity = mesh.client({ fetch: late }).renew({ onChange: (svid) => svids.push(svid) });
    await until(async () => (await mesh.calls()) === 2);
    identity.close();
    const current = rejection(identity.current());
    resolve();
    equal(faultOf(await current), ["unavailable", 0]);
    equal(svids.length, 0);
  },
  "hands what its program throws at a certificate to the program": async (mesh) => {
    const errors: unknown[] = [];
    const onError = (error: unknown) => errors.push(error);
    const onChange = () => {
      throw new RangeError("full");
    };
    using identity = mesh.client().renew({ onChange, onError });
    await identity.current();
    await until(() => errors.length > 0);
    equal(errors[0] instanceof RangeError, true);
  },
  "renews without timers when it is asked": async (mesh) => {
    const identity = mesh.client().renew();
    const first = await identity.current();
    const calls = await mesh.calls();
    equal(await identity.current(), first);
    equal(await mesh.calls(), calls);
    await mesh.pass(13 * hour);
    const second = await identity.current();
    equal(second.notAfter > first.notAfter, true);
    await mesh.pass(2 * hour);
    equal((await identity.current()).certChain, second.certChain);
  },
  "follows a rotation: another root, then a certificate under it": async (mesh) => {
    const svids: Svid[] = [];
    using identity = mesh.client().renew({ onChange: (svid) => svids.push(svid) });
    const { certChain, trustBundle } = await identity.current();
    const roots = () => svids.at(-1)?.trustBundle.pem ?? "";
    const passWhile = async (isSo: () => boolean) => {
      for (let i = 0; isSo() && i < 500; i++) {
        const asked = mesh.bundles();
        await mesh.pass(22 * hour);
        // A client that was still at work at the pass sleeps until the next bundle is due.
        await until(async () => mesh.bundles() > asked || mesh.pass(301).then(() => false));
      }
    };
    await passWhile(() => certificatesIn(roots()).length < 2);
    await passWhile(() => roots().includes(trustBundle.pem));
    const last = await identity.current();
    equal(last.trustBundle.sequence > trustBundle.sequence, true);
    equal(last.certChain === certChain, false);
    equal(last.trustBundle.pem.includes(trustBundle.pem), false);
  },
  "renews at once after a taint has taken its root away": async (mesh) => {
    const svids: Svid[] = [];
    using identity = mesh.client().renew({ onChange: (svid) => svids.push(svid) });
    const first = await identity.current();
    await mesh.taint();
    await mesh.pass(first.trustBundle.refreshHintSeconds + 1);
    await until(() => svids.length === 2);
    const second = await identity.current();
    equal(second.certChain === first.certChain, false);
    equal(second.trustBundle.pem.includes(first.trustBundle.pem.trim()), false);
  },
  "gets another certificate at once after its clock was set back": async (mesh) => {
    let ahead = 2 * hour;
    const clock = () => new Date(mesh.now().getTime() + 1000 * ahead);
    const svids: Svid[] = [];
    using told = mesh.client({}, clock).renew({ onChange: (svid) => svids.push(svid) });
    await told.current();
    const asked = mesh.client({}, clock).renew();
    const first = await asked.current();
    ahead = 0;
    const second = await asked.current();
    equal(second.certChain === first.certChain, false);
    await mesh.pass(16);
    await until(() => svids.length === 2);
    equal(svids[0]?.certChain === svids[1]?.certChain, false);
    const calls = await mesh.calls();
    equal(await asked.current(), second);
    equal(await mesh.calls(), calls);
  },
  "serves the certificate through an outage, and renews after it": async (mesh) => {
    const errors: unknown[] = [];
    const onError = (error: unknown) => errors.push(error);
    using identity = mesh.client().renew({ onChange: () => {}, onError });
    const first = await identity.current();
    await mesh.fail(503, { "retry-after": "7" });
    await mesh.pass(13 * hour);
    await until(() => errors.length > 0);
    equal(faultOf(errors[0]), ["unavailable", 7]);
    equal(await identity.current(), first);
    await mesh.fail();
    await mesh.pass(200);
    await until(async () => (await identity.current()) !== first);
  },
  "asks again before its certificate expires, whatever wait the CA asks for": async (mesh) => {
    const identity = mesh.client().renew();
    const first = await identity.current();
    const left = (first.notAfter.getTime() - mesh.now().getTime()) / 1000;
    await mesh.pass(Math.floor(left) - 100);
    await mesh.fail(503, { "retry-after": "100" });
    equal(await identity.current(), first);
    await mesh.fail();
    await mesh.pass(60);
    equal((await identity.current()).certChain === first.certChain, false);
  },
  "gives nobody a certificate that has expired, and says why it has none now": async (mesh) => {
    const identity = mesh.client().renew();
    await mesh.fail(503, { "retry-after": "7" });
    equal(faultOf(await rejection(identity.current())), ["unavailable", 7]);
    await mesh.fail();
    await mesh.pass(60);
    await identity.current();
    await mesh.fail(503);
    await mesh.pass(25 * hour);
    equal(faultOf(await rejection(identity.current())), ["unavailable", 0]);
    // Within the back-off the CA is not asked.
    const calls = await mesh.calls();
    equal(faultOf(await rejection(identity.current())), ["unavailable", 0]);
    equal(await mesh.calls(), calls);
    const closed = mesh.client().renew();
    await mesh.fail(503, { "retry-after": "7" });
    await rejection(closed.current());
    await mesh.fail();
    await mesh.pass(60);
    await closed.current();
    closed.close();
    await mesh.pass(25 * hour);
    // The reason from before is none now.
    equal(faultOf(await rejection(closed.current())), ["unavailable", 0]);
  },
  "tries five times, once in an outage, and not before the wait that the CA asks for": async (
    mesh,
  ) => {
    const client = mesh.client();
    await mesh.fail(503);
    equal(faultOf(await rejection(client.issue())), ["unavailable", 0]);
    equal(await mesh.calls(), 5);
    await rejection(client.issue());
    equal(await mesh.calls(), 6);
    await mesh.fail();
    await client.issue();
    await mesh.fail(429, { "retry-after": "30" });
    const calls = await mesh.calls();
    equal(faultOf(await rejection(client.issue())), ["unavailable", 30]);
    equal(faultOf(await rejection(client.bundle())), ["unavailable", 30]);
    equal(await mesh.calls(), calls + 2);
    // An outage that has ended counts for no later one.
    await mesh.fail();
    await client.issue();
    await mesh.fail(503);
    const before = await mesh.calls();
    await rejection(client.issue());
    equal(await mesh.calls(), before + 5);
  },
  "a refusal is tried once, and shows no token": async (mesh) => {
    const token = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";
    const client = mesh.client({ token: () => token });
    for (const call of [client.issue, () => client.fetchJwtSvid(["a.test"])]) {
      const error = await rejection(call());
      equal(faultOf(error), ["refused", 0]);
      equal(String(error).includes("eyJ"), false);
    }
    equal(await mesh.calls(), 2);
    // A refusal is no outage, so that the first call of one is tried again.
    await mesh.fail(503);
    await rejection(client.issue());
    equal(await mesh.calls(), 7);
  },
  "hands on the error of its token, and sends none to plaintext of another machine": async (
    mesh,
  ) => {
    const token = async () => {
      throw new RangeError("no token");
    };
    const error = await rejection(mesh.client({ token }).issue());
    equal(error instanceof RangeError, true);
    equal(await mesh.calls(), 0);
    for (const options of [
      { url: "http://ca.example" },
      { url: "ca.example" },
      { trustDomain: "A" },
    ]) {
      const refused = await rejection((async () => mesh.client(options).bundle())());
      equal(refused instanceof TypeError, true);
    }
  },
  "fetches a JWT-SVID, and another after half of its life": async (mesh) => {
    await mesh.pass(25 * hour);
    const client = mesh.client();
    const svid = await client.fetchJwtSvid(["b.test", "a.test", "b.test"]);
    equal([svid.spiffeId, svid.audiences], [spiffeId, ["a.test", "b.test"]]);
    equal(await client.fetchJwtSvid(["a.test", "b.test"]), svid);
    const { jwks } = await client.bundle();
    equal(jwks.keys.length > 0, true);
    await mesh.pass((svid.renewsAt.getTime() - mesh.now().getTime()) / 1000 + 1);
    const next = await client.fetchJwtSvid(["a.test", "b.test"]);
    equal(next.token === svid.token, false);
    equal(faultOf(await rejection(client.fetchJwtSvid(["other.example"]))), ["refused", 0]);
  },
  "gives out a JWT-SVID through an outage until it ends, and none that the CA refuses now": async (
    mesh,
  ) => {
    await mesh.pass(25 * hour);
    const client = mesh.client();
    const first = await client.fetchJwtSvid(["a.test"]);
    await mesh.fail(503);
    await mesh.pass((first.expiresAt.getTime() - mesh.now().getTime()) / 1000);
    equal(faultOf(await rejection(client.fetchJwtSvid(["a.test"]))), ["unavailable", 0]);
    await mesh.fail();
    await mesh.pass(60);
    const svid = await client.fetchJwtSvid(["a.test"]);
    const halfLife = (svid.renewsAt.getTime() - mesh.now().getTime()) / 1000;
    await mesh.pass(halfLife + 1);
    await mesh.fail(503);
    equal((await client.fetchJwtSvid(["a.test"])).token, svid.token);
    const calls = await mesh.calls();
    equal((await client.fetchJwtSvid(["a.test"])).token, svid.token);
    equal(await mesh.calls(), calls);
    await mesh.pass(halfLife / 2 + 1);
    await mesh.fail(403);
    equal(faultOf(await rejection(client.fetchJwtSvid(["a.test"]))), ["refused", 0]);
    await mesh.fail(503);
    equal(faultOf(await rejection(client.fetchJwtSvid(["a.test"]))), ["unavailable", 0]);
  },
  "refuses an answer for another key": async (mesh) => {
    const client = mesh.client({ fetch: replaying("/CreateCertificate") });
    await client.issue();
    equal(await invalidityOf(client.issue()), "the certificate is for another key");
  },
  "refuses an answer for another SPIFFE ID": async (mesh) => {
    const exchanging: client.Fetch = async (url, init) => {
      const headers = new Headers(init.headers);
      if (headers.has("authorization"))
        headers.set("authorization", `Bearer ${await mesh.otherToken()}`);
      return fetch(url, { ...init, headers });
    };
    const others: Partial<client.ClientOptions>[] = [
      { spiffeId: "spiffe://cluster.local/ns/foo/sa/other" },
      { trustDomain: "other.test" },
      { trustDomain: "other.test", spiffeId },
      { fetch: exchanging },
    ];
    for (const options of others) {
      const client = mesh.client(options);
      for (const call of [client.issue, () => client.fetchJwtSvid(["a.test"])])
        equal(await invalidityOf(call()), "the answer is for another SPIFFE ID");
    }
  },
  "keeps its trust bundle where a copy of the CA answers an older one": async (mesh) => {
    const other = await (await fetch(`${await foundMesh(mesh.url)}/bundle.json`)).json();
    const own = await (await fetch(`${mesh.url}/bundle.json`)).json();
    const keys = [...own.keys, ...other.keys];
    const answered = { current: JSON.stringify(own) };
    const fetching: client.Fetch = (url, init) => withBundle(answered.current)(url, init);
    const identity = mesh.client({ fetch: fetching }).renew();
    const { trustBundle } = await identity.current();
    for (const [by, isTaken] of [
      [-1, false],
      [1, true],
    ] as const) {
      answered.current = JSON.stringify({
        ...{ ...own, keys },
        spiffe_sequence: own.spiffe_sequence + by,
      });
      await mesh.pass(trustBundle.refreshHintSeconds + 1);
      const { pem } = (await identity.current()).trustBundle;
      equal(pem !== trustBundle.pem, isTaken);
    }
  },
  "tells tokens for other audiences from its own": async (mesh) => {
    await mesh.pass(25 * hour);
    const client = mesh.client();
    const one = await client.fetchJwtSvid(["a.test"]);
    const both = await client.fetchJwtSvid(["a.test", "b.test"]);
    equal([one.audiences, both.audiences], [["a.test"], ["a.test", "b.test"]]);
    const replayed = mesh.client({ fetch: replaying("/CreateJwtSvid") });
    await replayed.fetchJwtSvid(["a.test"]);
    const fault = "the token is for others, or has expired";
    equal(await invalidityOf(replayed.fetchJwtSvid(["b.test"])), fault);
  },
  "refuses an answer whose chain leads to no root of the trust bundle": async (mesh) => {
    const other = await foundMesh(mesh.url);
    const bundle = await (await fetch(`${other}/bundle.json`)).text();
    const client = mesh.client({ fetch: withBundle(bundle) });
    const fault = "the chain leads to no root of the trust bundle";
    equal(await invalidityOf(client.issue()), fault);
    const empty = mesh.client({ fetch: withBundle(`{ "keys": [] }`) });
    equal(await invalidityOf(empty.issue()), "the trust bundle has no root");
  },
  "refuses an answer that is not valid by its own clock, has no certificate, or no end": async (
    mesh,
  ) => {
    for (const seconds of [-2 * hour, 25 * hour]) {
      const clock = () => new Date(mesh.now().getTime() + 1000 * seconds);
      const client = mesh.client({}, clock);
      equal(await invalidityOf(client.issue()), "the certificate is not valid now");
    }
    const proto = { headers: { "content-type": "application/proto" } };
    const answering =
      (body: BodyInit): client.Fetch =>
      (url, init) =>
        url.endsWith("/CreateCertificate")
          ? Promise.resolve(new Response(body, proto))
          : fetch(url, init);
    const empty = mesh.client({ fetch: answering(new Uint8Array()) });
    equal(await invalidityOf(empty.issue()), "the answer has no certificate");
    const long = mesh.client({ fetch: answering(new Uint8Array(300 * 1024)) });
    equal(faultOf(await rejection(long.issue())), ["unavailable", 0]);
  },
  "follows no redirect, and a CA that nobody finds is unavailable": async (mesh) => {
    const asked: string[] = [];
    const redirecting: client.Fetch = async (_url, init) => {
      asked.push(init.redirect ?? "follow");
      return new Response(null, { status: 307, headers: { location: mesh.url } });
    };
    for (const options of [{ fetch: redirecting }, { url: "http://127.0.0.1:9" }]) {
      const client = mesh.client(options);
      equal(faultOf(await rejection(client.issue())), ["unavailable", 0]);
      equal(faultOf(await rejection(client.bundle())), ["unavailable", 0]);
    }
    equal(new Set(asked), new Set(["manual"]));
    equal(await mesh.calls(), 0);
  },
};

/** Answers a call with the first answer to it. */
function replaying(path: string): client.Fetch {
  let first: Uint8Array<ArrayBuffer> | undefined;
  return async (url, init) => {
    const response = await fetch(url, init);
    if (!url.endsWith(path)) return response;
    first ??= new Uint8Array(await response.arrayBuffer());
    return new Response(first, response);
  };
}

const withBundle =
  (bundle: string): client.Fetch =>
  async (url, init) =>
    url.endsWith("/bundle.json") ? new Response(bundle) : fetch(url, init);

export async function playScene(name: string, { createClient, origin }: Stage): Promise<void> {
  await scenes[name]?.(await createMesh(createClient, origin));
}

/** Plays every scene. @returns The faults, each behind the name of its scene. */
export async function playScenes(stage: Stage): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const name of Object.keys(scenes)) {
    await playScene(name, stage).catch((error: unknown) =>
      faults.push(`${name}: ${error instanceof Error ? error.message : error}`),
    );
  }
  return faults;
}

const foundMesh = async (near: string): Promise<string> =>
  (await fetch(new URL("/new", near))).json() as Promise<string>;

async function createMesh(createClient: Stage["createClient"], origin: string): Promise<Mesh> {
  const url = await foundMesh(origin);
  const pauses = new Set<{ readonly until: number; readonly end: () => void }>();
  let now = new Date(0);
  let bundles = 0;
  const control = async (act: string, query: Record<string, string> = {}) => {
    const response = await fetch(`${url}/control/${act}?${new URLSearchParams(query)}`);
    const answer = (await response.json()) as { now: string; said: string; calls: number };
    now = new Date(answer.now);
    for (const each of pauses) if (each.until <= now.getTime()) each.end();
    return answer;
  };
  await control("now");
  /** Waits between attempts take no time, and longer ones last by the CA's clock. */
  const pause = (milliseconds: number, signal?: AbortSignal): Promise<void> => {
    if (milliseconds < 1000 || signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        pauses.delete(waiting);
        resolve();
      };
      const waiting = { until: now.getTime() + milliseconds, end };
      pauses.add(waiting);
      signal?.addEventListener("abort", end);
    });
  };
  const usual = {
    url,
    trustDomain: "cluster.local",
    token: async () => (await control("token")).said,
    fetch: (address: string, init: RequestInit) => {
      if (address.endsWith("/bundle.json")) bundles++;
      return fetch(address, init);
    },
  };
  return {
    url,
    client: (options, clock = () => now) =>
      createClient({ ...usual, ...options }, { clock, random: () => 0.5, pause }),
    pass: async (seconds) => void (await control("pass", { seconds: `${seconds}` })),
    taint: async () => void (await control("taint")),
    fail: async (status, headers) =>
      void (await control("fail", { ...headers, ...(status && { status: `${status}` }) })),
    calls: async () => (await control("now")).calls,
    bundles: () => bundles,
    now: () => now,
    otherToken: async () => (await control("token", { account: "foo:other" })).said,
  };
}

function equal(actual: unknown, expected: unknown): void {
  const [one, other] = [actual, expected].map(shown);
  if (one !== other) throw new Error(`${one} in place of ${other}`);
}

/** Certificates are compared by what they say: the scenes hand them on, and copies would be another object. */
const shown = (value: unknown): string =>
  value instanceof Set ? shown([...value]) : JSON.stringify(value);

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function rejection(call: Promise<unknown>): Promise<unknown> {
  return await call.then(
    () => {
      throw new Error("it was not refused");
    },
    (error: unknown) => error,
  );
}

const faultOf = (error: unknown): unknown => {
  const { fault, retryAfterSeconds } = error as client.ClientError;
  return fault ? [fault, retryAfterSeconds] : error;
};

/** Why an answer was not good. */
async function invalidityOf(call: Promise<unknown>): Promise<string> {
  const error = (await rejection(call)) as client.ClientError;
  equal(error.fault, "invalid-response");
  return error.message;
}

const certificatesIn = (pem: string): readonly string[] => pem.match(/BEGIN CERTIFICATE/g) ?? [];
