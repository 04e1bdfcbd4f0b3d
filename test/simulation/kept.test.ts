import { EventEmitter } from "node:events";
import type { Http2Session, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { Code, ConnectError } from "@connectrpc/connect";
import fc from "fast-check";
import { Registry } from "prom-client";
import { describe, expect, test } from "vitest";
import type { CaClient } from "../../src/agent/identity/ca-client.ts";
import { JwtSvids } from "../../src/agent/identity/jwt-svids.ts";
import { IssuanceError } from "../../src/agent/identity/x509-svid.ts";
import { WorkloadRegistry } from "../../src/agent/node-mode/workload-registry.ts";
import { Sessions, UnreadResponses } from "../../src/agent/sockets/socket-bounds.ts";
import { Subscribers } from "../../src/agent/subscribers.ts";
import { JwtBundles } from "../../src/agent/trust/bundles.ts";
import { TrustRoots } from "../../src/agent/trust/trust-roots.ts";
import { XdsStatus } from "../../src/agent/xds/xds-status.ts";
import { holdTokens } from "../../src/client/internal/jwt-svid.ts";
import { ReloadPool } from "../../src/config/reload-pool.ts";
import { createTtlCache } from "../../src/foundation/caches.ts";
import type { OperationLog } from "../../src/foundation/events.ts";
import { sparing } from "../../src/foundation/sparing-log.ts";
import { type Connection, Connections } from "../../src/node/limits/connections.ts";
import { FairQueue, type Work } from "../../src/node/limits/fair-queue.ts";
import { Handshakes } from "../../src/node/limits/handshakes.ts";
import { usualLimits } from "../../src/node/limits/limits.ts";
import { TrustedProxies } from "../../src/node/limits/trusted-proxies.ts";
import { createTokenBuckets } from "../../src/node/serve/token-buckets.ts";
import { Issuers } from "../../src/node/signer/cert-manager-issuers.ts";
import { RequestQueue } from "../../src/node/signer/request-queue.ts";
import type { KeySet } from "../../src/pki/jose/key-set.ts";
import { MeshCrls } from "../../src/program/bundle/crls.ts";
import { MeshRoots } from "../../src/program/bundle/mesh-roots.ts";
import { LongPolls } from "../../src/transport/http/long-poll.ts";
import { keptEntries } from "../testkit/kept-entries.ts";
import { clusterLocal, workload } from "../testkit/pki/certificates.ts";
import { createCrlAuthority, crlTime, parsedCrl } from "../testkit/pki/crl-authority.ts";

/** Something that a long-lived process keeps, as strangers fill it. */
interface Kept {
  readonly owner: object;
  /** One more stranger, another one for each number. */
  readonly fill: (stranger: number) => unknown;
  /** The reason for all that was kept goes: time passes, callers leave. */
  readonly leave: () => unknown;
}

interface Row {
  /** The most entries, whoever fills it. */
  readonly bound: number;
  /** More strangers than there is room for, and the fewest of which any is kept. */
  readonly strangers: number;
  readonly least?: number;
  /** What stays: of a cache that looks for room only when it needs some. By default nothing. */
  readonly left?: number;
  readonly open: () => Kept;
}

/** A socket or a stream that closes when its test says so. */
const closable = <T>(more: object = {}) => {
  const emitter = new EventEmitter();
  const close = (): void => void emitter.emit("close");
  return { it: Object.assign(emitter, { destroy: close }, more) as unknown as T, close };
};

const addressOf = (i: number): string => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`;
const root = (i: number) => ({ fingerprint256: `${i}`, toString: () => `${i}` }) as never;
const [crlAuthority, ...crlAuthorities] = await Promise.all(
  Array.from({ length: 6 }, () => createCrlAuthority()),
);

function openConnections() {
  let now = 0;
  const connections = new Connections(
    usualLimits,
    () => {},
    () => now,
  );
  const open = new Set<() => void>();
  const admit = (i: number): Connection => {
    const { it: socket, close } = closable<Socket>();
    open.add(close);
    const address = addressOf(i);
    const octets = () => 0;
    const connection = {
      ...{ socket, from: address, address, requests: 0, idleSince: 0, allow: () => {} },
      ...{ octetsRead: octets, sealedOctetsRead: octets, close, abort: close },
    };
    connections.admit(connection);
    return connection;
  };
  const leave = (): void => {
    for (const close of open) close();
    now += 3_600_000;
    for (let i = 0; i < 8; i++) connections.sweep();
  };
  return { connections, admit, leave };
}

const rows: Readonly<Record<string, Row>> = {
  "the connections of a server, and their shares": {
    // A connection has a share, in a network of its own at worst. 64 more are closing.
    bound: 7 * usualLimits.connections + 64,
    strangers: 4 * usualLimits.connections,
    open: () => {
      const { connections, admit, leave } = openConnections();
      return { owner: connections, fill: (i) => admit(256 * i), leave };
    },
  },
  "networks that were slowed, for some seconds": {
    bound: 8 * 300,
    strangers: 300,
    open: () => {
      const { connections, admit, leave } = openConnections();
      const fill = (i: number) => connections.throttled.throttle(admit(256 * i));
      return { owner: connections, fill, leave };
    },
  },
  "the penalties of addresses": {
    bound: 3000,
    strangers: 3000,
    open: () => {
      const { connections, leave } = openConnections();
      return { owner: connections, fill: (i) => connections.ban(addressOf(i)), leave };
    },
  },
  "the addresses at which gateways have connections": {
    bound: 5 * usualLimits.connections,
    strangers: 300,
    open: () => {
      const { connections, admit, leave } = openConnections();
      const fill = (i: number) => connections.recount(admit(256 * i), `door ${i % 3}`);
      return { owner: connections, fill, leave };
    },
  },
  "what is known of gateways' credentials": {
    bound: 64,
    strangers: 200,
    left: 64,
    open: () => {
      const proxies = new TrustedProxies(
        async () => undefined,
        () => 0,
      );
      const fill = (i: number) => proxies.authenticationOf({ "x-rampart-gateway": `${i}` })?.();
      return { owner: proxies, fill, leave: () => {} };
    },
  },
  "a fair queue": {
    bound: 900,
    strangers: 1000,
    open: () => {
      const limits = {
        ...{ underWay: 100, underWayPerAddress: 10, waiting: 200, waitingPerAddress: 20 },
        ...{ inOneTick: { all: 1000, address: 1000 }, timeLimit: 1e9 },
      };
      const resumes: (() => void)[] = [];
      const afterPass = (resume: () => void): void => void resumes.push(resume);
      const queue = new FairQueue(() => limits, {
        clock: () => 0,
        afterTick: afterPass,
        after: () => {},
      });
      const done = new Set<() => void>();
      const waiting = new Set<Work>();
      const fill = (i: number): void => {
        const begin = (end: () => void): void => void done.add(end);
        const work = { address: addressOf(256 * i), begin, shed: () => {} };
        waiting.add(work);
        queue.take(work);
      };
      const leave = (): void => {
        for (const work of waiting) queue.withdraw(work);
        for (const end of done) end();
        for (let resume = resumes.pop(); resume; resume = resumes.pop()) resume();
      };
      return { owner: queue, fill, leave };
    },
  },
  "the handshakes of a port": {
    bound: 25 * usualLimits.handshakes,
    strangers: 3000,
    open: () => {
      const begin = (): void => {};
      const handshakes = new Handshakes(usualLimits, begin, begin, begin);
      const sockets: (() => void)[] = [];
      const fill = (i: number): void => {
        const { it, close } = closable<Socket>({ remoteAddress: addressOf(256 * i) });
        sockets.push(close);
        handshakes.take(it);
      };
      const leave = async (): Promise<void> => {
        for (const close of sockets) close();
        await new Promise(setImmediate);
      };
      return { owner: handshakes, fill, leave };
    },
  },
  "long polls that a platform dropped": {
    // One place, and those of its address and of its network.
    bound: 3 * 2000,
    strangers: 3000,
    // It looks for those that were dropped once it has no room.
    least: 2000,
    // The newcomer, before whom the others are forgotten.
    left: 3,
    open: () => {
      let address = "";
      const limits = { longestSeconds: 50, readSeconds: 1 };
      const polls = new LongPolls(
        () => limits,
        () => ({ address }) as never,
      );
      const request = new Request("https://ca.test");
      const enter = (i: number, now: number): void => {
        address = addressOf(256 * i);
        polls.enter(50, new Date(now), request);
      };
      return { owner: polls, fill: (i) => enter(i, 0), leave: () => enter(1e5, 61_000) };
    },
  },
  "token buckets": {
    // Each with the count of its owner, and those that stand for many.
    bound: 2 * 100 + 3,
    strangers: 400,
    left: 2,
    open: () => {
      const take = createTokenBuckets(() => 60, 100);
      return {
        owner: take,
        fill: (i) => take(`owner-${i} key`, new Date(0)),
        leave: () => {
          // Full again; who comes next looks for room.
          for (let i = 0; i < 101; i++) take(`later-${i} key`, new Date(120_000));
          take("last key", new Date(300_000));
        },
      };
    },
  },
  "the sessions of a socket": {
    bound: 512,
    strangers: 700,
    open: () => {
      const sessions = new Sessions(() => ({ used_heap_size: 0, heap_size_limit: 1 }));
      const closes: (() => void)[] = [];
      const fill = (): void => {
        const { it, close } = closable<Http2Session>();
        closes.push(close);
        sessions.add(it);
      };
      return { owner: sessions, fill, leave: () => closes.map((close) => close()) };
    },
  },
  "answers that wait for room": {
    bound: 86,
    least: 100,
    strangers: 150,
    open: () => {
      const room = new UnreadResponses();
      const streams: (() => void)[] = [];
      const fill = async (): Promise<void> => {
        const { it, close } = closable<ServerHttp2Stream>({ session: { destroy: () => {} } });
        streams.push(close);
        void room.of(it)();
        await new Promise(setImmediate);
      };
      const leave = async (): Promise<void> => {
        for (const close of streams) {
          close();
          await new Promise(setImmediate);
        }
      };
      return { owner: room, fill, leave };
    },
  },
  "tokens of a workload that the CA refuses": {
    bound: 1000 + 8,
    strangers: 1500,
    left: 1000,
    open: () => {
      const refused = new IssuanceError("authority-refused", "no");
      const tokens = new JwtSvids({
        ca: { call: () => Promise.reject(refused) } as unknown as CaClient,
        bundles: new JwtBundles(),
        impersonates: false,
        clock: () => new Date(0),
        log: { operation: () => {} },
      });
      const spiffeId = workload("foo", "bar", clusterLocal);
      const fill = (i: number) => tokens.obtain(spiffeId, [`${i}`]).catch(() => {});
      return { owner: tokens, fill, leave: () => {} };
    },
  },
  "keys for tokens that a CA has withdrawn": {
    bound: 103,
    strangers: 300,
    left: 103,
    open: () => {
      const bundles = new JwtBundles();
      const keys = (i: number) => [{ keyId: `${i}`, material: `${i}`, algorithms: [] }];
      const fill = (i: number) => bundles.update(clusterLocal, keys(i) as unknown as KeySet);
      return { owner: bundles, fill, leave: () => {} };
    },
  },
  "the workloads of a node": {
    bound: 2 * 10_000,
    strangers: 12_000,
    open: () => {
      const ports = { addIdentity: () => {}, removeIdentity: () => {}, lingerMilliseconds: 0 };
      const registry = new WorkloadRegistry(ports);
      const fill = (i: number) =>
        registry.add({ uid: `${i}`, spiffeId: workload("foo", `bar-${i}`, clusterLocal) });
      const leave = async (): Promise<void> => {
        registry.replaceAll([]);
        registry.close();
      };
      return { owner: registry, fill, leave };
    },
  },
  "types of discovery that a peer invents": {
    bound: 100,
    strangers: 300,
    left: 100,
    open: () => {
      const status = new XdsStatus("istiod", () => new Date(0), new Registry());
      const fill = (i: number) => status.request({ typeUrl: `type ${i}`, rejection: "no" });
      return { owner: status, fill, leave: () => {} };
    },
  },
  "tokens of a client": {
    bound: 100,
    strangers: 300,
    left: 100,
    open: () => {
      const expiresAt = new Date(1e6);
      const token = { token: "", spiffeId: "", audiences: [], expiresAt, renewsAt: expiresAt };
      const fetchToken = holdTokens(
        async () => token,
        () => new Date(0),
      );
      return { owner: fetchToken, fill: (i) => fetchToken([`${i}`]), leave: () => {} };
    },
  },
  "roots that were withdrawn, as a connection knows them": {
    bound: 101,
    strangers: 300,
    left: 101,
    open: () => {
      const roots = new MeshRoots();
      return { owner: roots, fill: (i) => roots.update([root(i)]), leave: () => {} };
    },
  },
  "roots of identities that have gone": {
    bound: 600,
    strangers: 300,
    open: () => {
      const trust = new TrustRoots();
      const names = new Set<string>();
      const fill = (i: number): void => {
        names.add(`${i}`);
        trust.updateFromAnswer({ svid: { spiffeId: `${i}` as never, chain: [] }, roots: [] });
      };
      return { owner: trust, fill, leave: () => [...names].map((name) => trust.remove(name)) };
    },
  },
  "CRLs, and authorities that may have signed one": {
    bound: 5 * (crlAuthorities.length + 1),
    strangers: crlAuthorities.length,
    // The root that there is, its CRL, and when it was of the mesh; what is covered.
    left: 4,
    open: () => {
      const crls = new MeshCrls();
      const show = async (authority: typeof crlAuthority): Promise<void> => {
        if (!authority) return;
        const mesh = { roots: [authority.certificate], intermediates: [] };
        crls.take([parsedCrl(await authority.crl())], mesh, crlTime);
        crls.usable(mesh, crlTime);
      };
      const leave = async (): Promise<void> => {
        const day = new Date(crlTime.getTime() + 30 * 86_400_000);
        const mesh = { roots: crlAuthority ? [crlAuthority.certificate] : [], intermediates: [] };
        crls.take([], mesh, day);
        crls.usable(mesh, day);
      };
      return { owner: crls, fill: (i) => show(crlAuthorities[i]), leave };
    },
  },
  "a cache whose entries expire": {
    bound: 50,
    strangers: 200,
    left: 50,
    open: () => {
      const cache = createTtlCache<number>(50);
      return {
        owner: cache.set,
        fill: (i) => cache.set(`${i}`, i, new Date(0), new Date(1)),
        leave: () => {},
      };
    },
  },
  "parts of a configuration that was replaced": {
    bound: 300,
    strangers: 300,
    open: () => {
      const parts = new ReloadPool<number>();
      const fill = (i: number) => parts.of(i, () => i);
      const leave = (): void => {
        parts.commit();
        parts.commit();
      };
      return { owner: parts, fill, leave };
    },
  },
  "who has had a line of the log in a minute": {
    // The events that a program has, and for each the callers that had a line.
    bound: 61,
    strangers: 300,
    left: 2,
    open: () => {
      let now = 0;
      const silent: OperationLog = { operation: () => {} };
      const log = sparing(
        silent,
        () => new Date(now),
        60,
        ({ detail }) => detail,
      );
      const fill = (i: number | string) =>
        log.operation({ event: "crl-fault", level: "error", detail: `${i}` });
      const leave = (): void => {
        now += 60_000;
        fill("next");
      };
      return { owner: log.operation, fill, leave };
    },
  },
  "what the CA has said of issuers of cert-manager that were deleted": {
    bound: 300,
    strangers: 300,
    open: () => {
      const ending = AbortSignal.abort();
      const away = () => Promise.reject(new Error("away"));
      const issuers = new Issuers({
        ...{ client: { send: away, open: away }, failed: () => {}, signal: ending },
        ...{ clock: () => new Date(0), signers: [], caFaults: () => [] },
      } as unknown as ConstructorParameters<typeof Issuers>[0]);
      const refused = new ConnectError("no", Code.PermissionDenied);
      const fill = (i: number) => issuers.note({ metadata: { uid: `${i}` } } as never, refused);
      return { owner: issuers, fill, leave: () => issuers.report() };
    },
  },
  "requests that were answered or deleted": {
    bound: 900,
    strangers: 300,
    open: () => {
      const items = new Map<string, number>();
      const queue = new RequestQueue<number>({
        requests: { items, hasAll: () => true, fault: () => undefined },
        answer: async () => {
          throw new Error("no");
        },
        ownerOf: () => "owner",
        failed: () => {},
        clock: () => new Date(0),
      });
      const fill = (i: number): void => void items.set(`${i}`, i);
      const leave = async (): Promise<void> => {
        await queue.work();
        items.clear();
        await queue.work();
      };
      return { owner: queue, fill, leave };
    },
  },
  "listeners that have ended": {
    bound: 300,
    strangers: 300,
    open: () => {
      const subscribers = new Subscribers();
      const ends: (() => void)[] = [];
      const fill = (): void => void ends.push(subscribers.add(() => {}));
      return { owner: subscribers, fill, leave: () => ends.map((end) => end()) };
    },
  },
};

describe("what a long-lived process keeps", () => {
  test.each(Object.entries(rows))(
    "stays within its bound, and ends with its reason: %s",
    async (_, { bound, strangers, least = 2, left = 0, open }) => {
      const sizes = fc.integer({ min: least, max: strangers });
      await fc.assert(
        fc.asyncProperty(sizes, async (size) => {
          const { owner, fill, leave } = open();
          const empty = keptEntries(owner);
          for (let i = 0; i < size; i++) await fill(i);
          const full = keptEntries(owner) - empty;
          expect(full).toBeGreaterThan(0);
          expect(full).toBeLessThanOrEqual(bound);
          await leave();
          expect(keptEntries(owner) - empty).toBeLessThanOrEqual(left);
        }),
        { numRuns: 2, examples: [[strangers]] },
      );
    },
  );
});
