import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { type Forwarding, forward } from "../../../src/node/gateway/forwarded-call.ts";
import { SlowCalls } from "../../../src/node/gateway/slow-calls.ts";
import { UpstreamRefusal } from "../../../src/node/gateway/upstream.ts";
import { FairQueue } from "../../../src/node/limits/fair-queue.ts";
import { Turn } from "../../../src/node/limits/turn.ts";
import { NewAuthority } from "../../../src/pki/authority/new-authority.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { clusterLocal, tenDays } from "../../testkit/pki/certificates.ts";
import { signClientLeaf } from "../../testkit/pki/client-leaf.ts";

const bar = "spiffe://cluster.local/ns/foo/sa/bar";
const now = new Date("2026-03-02T12:00:00Z");
const { authority, extractablePrivateKey: privateKey } = await NewAuthority.create(
  clusterLocal,
  "EC-P256",
  tenDays,
);
const clientCertificate = await signClientLeaf(
  { certificate: authority.certificate.der, privateKey },
  bar,
);

/** Forwards a call with both credentials, and tells which of them the CA saw. */
async function forwarded(
  codes: readonly (Code | "ok")[],
  at = now,
  credentials = async () => ({ authorization: "Bearer gateway", clusterid: "g" }),
) {
  const outcomes: string[] = [];
  const forwarding = {
    slowCalls: new SlowCalls(),
    credentials,
    ownAuthorization: async () => ({ authorization: "Bearer gateway" }),
    trustDomain: clusterLocal,
    log: createEventRecorder(),
    clock: () => at,
    ended: (outcome: string) => void outcomes.push(outcome),
  } as unknown as Forwarding;
  const call = {
    header: new Headers({ authorization: "Bearer caller" }),
    signal: new AbortController().signal,
    timeoutMs: undefined,
    peer: { clientCertificate },
    message: async () => new Uint8Array(),
  };
  const seen: string[] = [];
  const answers = codes.values();
  const code = await forward(forwarding, call, async (_, { headers }) => {
    seen.push("x-forwarded-client-cert" in headers ? "certificate" : `${headers["authorization"]}`);
    const { value } = answers.next();
    if (value === undefined || value === "ok") return "ok" as const;
    throw new UpstreamRefusal("no", value, 400);
  }).catch((error: unknown) => (error as UpstreamRefusal).code);
  return { seen, code, outcomes };
}

test("a call shows its token where the CA does not take its certificate for a credential", async () => {
  expect(await forwarded([Code.Unauthenticated, "ok"])).toEqual({
    seen: ["certificate", "Bearer caller"],
    code: "ok",
    outcomes: ["answered"],
  });
});

test("any other refusal is the caller's, and its token is not shown", async () => {
  for (const code of [Code.PermissionDenied, Code.InvalidArgument, Code.ResourceExhausted]) {
    const refused = { seen: ["certificate"], code, outcomes: ["refused"] };
    expect(await forwarded([code, "ok"])).toEqual(refused);
  }
});

test("a defect of the gateway's own credential is not hidden behind its callers' tokens", async () => {
  const defect = () => Promise.reject(new TypeError("a defect"));
  const { seen, code, outcomes } = await forwarded(["ok"], now, defect);
  expect([seen, code, outcomes]).toEqual([[], Code.Unavailable, ["failed"]]);
});

test("a certificate that has ended since its connection began is not shown", async () => {
  const { notAfter } = authority.certificate.toBeSigned.validity;
  const { seen } = await forwarded(["ok"], new Date(notAfter.getTime() + 1000));
  expect(seen).toEqual(["Bearer caller"]);
});

const inOnePass = { all: 9, address: 9 };
const limits = { underWay: 9, underWayPerAddress: 9, waiting: 9, waitingPerAddress: 9 };

test("beyond the bound of slow calls, the oldest of the address with most ends", async () => {
  const queue = new FairQueue(() => ({ ...limits, inOneTick: inOnePass, timeLimit: 1000 }));
  const slow = new SlowCalls(1, 3);
  const callers = new AbortController().signal;
  const ended: string[] = [];
  const firstEnd = Promise.withResolvers<void>();
  async function begin(name: string, address: string): Promise<void> {
    const turn = new Turn(queue, address);
    await turn.take();
    const never = (ending: AbortSignal) =>
      new Promise((_, reject) => {
        ending.addEventListener("abort", () => reject(ending.reason));
      });
    await turn
      .run(() => slow.wait(address, callers, never))
      .catch(({ message }: Error) => {
        ended.push(`${name}: ${message}`);
        firstEnd.resolve();
      });
  }
  for (const name of ["a1", "b1", "c1", "c2"]) void begin(name, `192.0.2.${name.charCodeAt(0)}`);
  await firstEnd.promise;
  expect(ended).toEqual(["c1: the CA is slow, and too many wait for it"]);
});

test("a call whose caller has gone already does not wait for the CA", async () => {
  const gone = AbortSignal.abort(new Error("gone"));
  const answer = async (ending: AbortSignal): Promise<void> => ending.throwIfAborted();
  await expect(new SlowCalls().wait("192.0.2.1", gone, answer)).rejects.toThrow("gone");
});
