import { expect, test } from "vitest";
import { FetchError } from "../../../src/foundation/fetch.ts";
import type { SendRequest } from "../../../src/kubernetes/client.ts";
import { LeaseCandidate } from "../../../src/node/lease.ts";
import { leaseObject, leaseSeconds } from "../../../src/node/signer/lease-object.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";

const place = { namespace: "istio-system", name: "rampart-signer" };
const start = new Date("2026-11-22T12:00:00.250Z");
const collection = "/apis/coordination.k8s.io/v1/namespaces/istio-system/leases";

interface StoredLease {
  readonly metadata: { readonly resourceVersion: string };
  readonly spec: Readonly<Record<string, unknown>>;
}

const candidateAt = (send: SendRequest, identity: string) =>
  LeaseCandidate.create(leaseObject(send, place), identity, leaseSeconds);

/** The one lease of an API server, with its optimistic locking. */
function leaseServer() {
  let stored: StoredLease | undefined;
  let version = 1;
  const conflict = () => new FetchError("answered with status 409", { status: 409 });
  const store = (spec: StoredLease["spec"]): StoredLease => {
    stored = { metadata: { resourceVersion: `${version++}` }, spec };
    return stored;
  };
  const send: SendRequest = async ({ method = "GET", path, body }) => {
    const { metadata, spec } = (body ?? {}) as StoredLease;
    if (method === "POST") {
      expect(path).toBe(collection);
      if (stored) throw conflict();
      return store(spec);
    }
    expect(path).toBe(`${collection}/rampart-signer`);
    if (method === "GET") return stored;
    if (metadata.resourceVersion !== stored?.metadata.resourceVersion) throw conflict();
    return store(spec);
  };
  const candidate = (identity: string) => candidateAt(send, identity);
  return { send, candidate, spec: () => stored?.spec };
}

test("takes a lease that nobody has taken, and renews it", async () => {
  const server = leaseServer();
  const candidate = server.candidate("a");
  expect(await candidate.acquire(() => start)).toBe(true);
  const taken = {
    holderIdentity: "a",
    leaseDurationSeconds: 15,
    acquireTime: "2026-11-22T12:00:00.250000Z",
    leaseTransitions: 0,
  };
  expect(server.spec()).toEqual({ ...taken, renewTime: "2026-11-22T12:00:00.250000Z" });
  expect(await candidate.acquire(() => addSeconds(start, 2))).toBe(true);
  expect(server.spec()).toEqual({ ...taken, renewTime: "2026-11-22T12:00:02.250000Z" });
});

test("leaves the lease to another that renews it, however wrong its clock is", async () => {
  const server = leaseServer();
  const holder = server.candidate("a");
  const other = server.candidate("b");
  for (let second = 0; second < 4 * leaseSeconds; second += 2) {
    expect(await holder.acquire(() => addSeconds(start, second - 86_400))).toBe(true);
    expect(await other.acquire(() => addSeconds(start, second))).toBe(false);
  }
});

test("takes the lease of another that has not renewed it for its whole length", async () => {
  const server = leaseServer();
  await server.candidate("a").acquire(() => start);
  const other = server.candidate("b");
  expect(await other.acquire(() => addSeconds(start, 100))).toBe(false);
  expect(await other.acquire(() => addSeconds(start, 100 + leaseSeconds - 1))).toBe(false);
  expect(await other.acquire(() => addSeconds(start, 100 + leaseSeconds))).toBe(true);
  expect(server.spec()).toMatchObject({ holderIdentity: "b", leaseTransitions: 1 });
});

test("counts the time of another anew by a clock that was set back, and takes the lease after it", async () => {
  const server = leaseServer();
  await server.candidate("a").acquire(() => start);
  const other = server.candidate("b");
  expect(await other.acquire(() => addSeconds(start, 3600))).toBe(false);
  expect(await other.acquire(() => start)).toBe(false);
  expect(await other.acquire(() => addSeconds(start, leaseSeconds - 1))).toBe(false);
  expect(await other.acquire(() => addSeconds(start, leaseSeconds))).toBe(true);
});

test.each([{}, { holderIdentity: null, leaseTransitions: null }, undefined])(
  "takes a lease that somebody has made with the specification %j",
  async (spec) => {
    const stored = { metadata: { resourceVersion: "5" }, spec };
    const written: unknown[] = [];
    const send: SendRequest = async ({ method, body }) => {
      if (method !== undefined) written.push(body);
      return stored;
    };
    expect(await candidateAt(send, "a").acquire(() => start)).toBe(true);
    expect(written).toMatchObject([{ spec: { holderIdentity: "a", leaseTransitions: 1 } }]);
  },
);

test("does not give up the lease of another", async () => {
  const server = leaseServer();
  await server.candidate("a").acquire(() => start);
  await server.candidate("b").release(start);
  expect(server.spec()).toMatchObject({ holderIdentity: "a" });
});

test("gives way to a write that came first", async () => {
  const server = leaseServer();
  const other = server.candidate("b");
  const racing: SendRequest = async (request) => {
    const answer = await server.send(request);
    // Between the read and the write of the first candidate, the other takes the lease.
    if (request.method === undefined) await other.acquire(() => start);
    return answer;
  };
  expect(await candidateAt(racing, "a").acquire(() => start)).toBe(false);
  expect(server.spec()).toMatchObject({ holderIdentity: "b" });
});

test("does not hold a lease that was deleted between the read and the write", async () => {
  const stored = { metadata: { resourceVersion: "5" }, spec: {} };
  const send: SendRequest = async ({ method }) => (method === undefined ? stored : undefined);
  expect(await candidateAt(send, "a").acquire(() => start)).toBe(false);
});

test.each<[string, SendRequest, string | typeof FetchError]>([
  ["has no such namespace", async () => undefined, "no namespace"],
  [
    "refuses",
    async () => {
      throw new FetchError("refuses the credential", { status: 403 });
    },
    FetchError,
  ],
  ["answers something else", async () => ({ kind: "Status" }), FetchError],
])("does not know who holds the lease of an API server that %s", async (_, send, fault) => {
  await expect(candidateAt(send, "a").acquire(() => start)).rejects.toThrow(fault);
});

test("counts the time of another holder from the end of a slow read", async () => {
  const server = leaseServer();
  const readSeconds = 13;
  let now = start;
  let isSlow = true;
  const other = candidateAt(async (request) => {
    // The holder takes the lease just before the answer.
    if (isSlow) {
      now = addSeconds(start, readSeconds);
      await server.candidate("a").acquire(() => now);
    }
    isSlow = false;
    return server.send(request);
  }, "b");
  expect(await other.acquire(() => now)).toBe(false);
  now = addSeconds(start, readSeconds + leaseSeconds - 1);
  expect(await other.acquire(() => now)).toBe(false);
  now = addSeconds(start, readSeconds + leaseSeconds);
  expect(await other.acquire(() => now)).toBe(true);
});
